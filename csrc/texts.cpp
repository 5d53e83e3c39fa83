// Texts that nobody has read yet: what an f-string makes of a tensor.  Only a run of the graph knows their letters.
//
// Such a text is an instance of a subclass of str, whose letters are one mark.  Its methods refuse to answer.  C code
// reads letters without asking, so a call of C code that is given one is a matter for the session; and a text that C
// code has made with the mark in it is such a text again.
#include "barrier.h"
#include "calls.h"

namespace framelift {

static PyTypeObject* text_type = nullptr;
static PyObject *text_mark = nullptr, *text_handler = nullptr;

PyObject* unread_text_handler() { return text_handler; }

static const int deepest = 32;  // containers in containers; what lies deeper counts as one that holds a text

static bool holds(PyObject* value, int depth) {
  if (Py_IS_TYPE(value, text_type)) return true;
  if (depth == deepest) return true;
  if (PyTuple_Check(value)) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(value); i++)
      if (holds(PyTuple_GET_ITEM(value, i), depth + 1)) return true;
  } else if (PyList_Check(value)) {
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(value); i++)
      if (holds(PyList_GET_ITEM(value, i), depth + 1)) return true;
  } else if (PyDict_Check(value)) {
    PyObject* item;
    for (Py_ssize_t at = 0; PyDict_Next(value, &at, nullptr, &item);)
      if (holds(item, depth + 1)) return true;
  }
  return false;
}

bool holds_unread_text(PyObject* const* args, Py_ssize_t n) {
  for (Py_ssize_t i = 0; i < n; i++)
    if (holds(args[i], 0)) return true;
  return false;
}

bool contains_unread_text(PyObject* text) {
  return PyUnicode_CheckExact(text) && PyUnicode_Find(text, text_mark, 0, PyUnicode_GET_LENGTH(text), 1) >= 0;
}

static PyObject* set_texts(PyObject*, PyObject* const* a, Py_ssize_t n) {
  if (n != 3 || !PyType_Check(a[0]) || !PyUnicode_Check(a[1]))
    return PyErr_Format(PyExc_TypeError, "set_unread_texts(class, mark, handler)");
  Py_XSETREF(text_type, (PyTypeObject*)Py_NewRef(a[0]));
  Py_XSETREF(text_mark, Py_NewRef(a[1]));
  Py_XSETREF(text_handler, Py_NewRef(a[2]));
  Py_RETURN_NONE;
}

// The text for a value whose text is not known, or None where the session wants no such texts.
static PyObject* unread_text(PyObject*, PyObject*) {
  Rehearsal* r = current_rehearsal();
  if (!r || !text_type) Py_RETURN_NONE;
  static PyObject* const name = PyUnicode_InternFromString("unread_text");
  Ref text = Ref::steal(ask_session(r, name, nullptr, 0));
  if (text && text.get() != Py_None) r->texts = true;
  return text.release();
}

static PyObject* text_is_read(PyObject*, PyObject*) {
  Rehearsal* r = current_rehearsal();
  if (!r) return PyErr_Format(PyExc_RuntimeError, "a text of framelift's that stands for another was read");
  static PyObject* const name = PyUnicode_InternFromString("text_is_read");
  return ask_session(r, name, nullptr, 0);
}

static MethodTable methods({
    method<set_texts>("set_unread_texts", "(class, its letters, handler of calls of C code that are given one)"),
    method<text_is_read, METH_NOARGS>("text_is_read", "the letters of such a text are asked for"),
    method<unread_text, METH_NOARGS>("unread_text", "a text for a value whose text is not known, or None"),
});

bool init_texts(PyObject* module) { return add_functions(module, methods); }

}  // namespace framelift
