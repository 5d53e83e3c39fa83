// Texts that nobody has read yet: what an f-string makes of a tensor.  Only a run of the graph knows their letters.
//
// Such a text is an instance of a subclass of str, whose letters are one mark.  Its methods refuse to answer.  C code
// reads letters without asking.  So while such a text is alive, a call of C code is a matter for the session unless all
// that it is given is known to hold none; while C code runs that may read what frames give it, none is made; and a text
// that C code has made with the mark in it is such a text again.
#include "barrier.h"
#include "calls.h"
#include "connections.h"
#include "probes.h"

namespace framelift {

static PyTypeObject* text_type = nullptr;
static PyObject *text_mark = nullptr, *text_escaped = nullptr, *text_handler = nullptr;
static std::unordered_set<PyTypeObject*> leaf_types;  // whose instances hold nothing
static thread_local std::vector<PyObject*> made;      // texts of this rehearsal that may still be alive, held
static thread_local int reading = 0;                  // calls of C code in progress that may read what they are given

ReadingCode::ReadingCode() { ++reading; }
ReadingCode::~ReadingCode() { --reading; }

PyObject* unread_text_handler() { return text_handler; }

bool is_unread_text(PyObject* value) { return Py_IS_TYPE(value, text_type); }

bool has_text_of_its_own(PyObject* value) {
  if (PyTuple_CheckExact(value)) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(value); i++)
      if (!has_text_of_its_own(PyTuple_GET_ITEM(value, i))) return false;
    return true;
  }
  return is_unread_text(value) || leaf_types.count(Py_TYPE(value)) || is_symbolic_number(value) || is_tensor(value);
}

static const int deepest = 32;  // containers in containers; what lies deeper counts as one that holds a text

// Whether C code that goes through `value` might find a text: whatever is not known to hold none may.
static bool may_hold(PyObject* value, int depth) {
  PyTypeObject* type = Py_TYPE(value);
  if (type == text_type || depth == deepest) return true;
  if (leaf_types.count(type) || PyType_Check(value) || is_symbolic_number(value) || is_tensor(value)) return false;
  if (PyAnySet_CheckExact(value)) return false;  // such a text gives no hash
  if (PyTuple_CheckExact(value)) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(value); i++)
      if (may_hold(PyTuple_GET_ITEM(value, i), depth + 1)) return true;
    return false;
  }
  if (PyList_CheckExact(value)) {
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(value); i++)
      if (may_hold(PyList_GET_ITEM(value, i), depth + 1)) return true;
    return false;
  }
  if (PyDict_CheckExact(value)) {
    PyObject *key, *item;
    for (Py_ssize_t at = 0; PyDict_Next(value, &at, &key, &item);)
      if (may_hold(key, depth + 1) || may_hold(item, depth + 1)) return true;
    return false;
  }
  return true;
}

static bool any_alive() {
  std::vector<PyObject*> alive;
  for (PyObject* text : made) {
    if (Py_REFCNT(text) > 1)
      alive.push_back(text);
    else
      Py_DECREF(text);
  }
  made.swap(alive);
  return !made.empty();
}

bool reaches_unread_text(PyObject* receiver, PyObject* const* args, Py_ssize_t n) {
  if (!any_alive()) return false;
  if (receiver && may_hold(receiver, 0)) return true;
  for (Py_ssize_t i = 0; i < n; i++)
    if (may_hold(args[i], 0)) return true;
  return false;
}

bool contains_unread_text(PyObject* text) {
  if (!PyUnicode_Check(text) || !text_mark || PyUnicode_READY(text) < 0) return false;
  Py_ssize_t size = PyUnicode_GET_LENGTH(text);
  if (PyUnicode_KIND(text) == PyUnicode_4BYTE_KIND) {  // any part of the mark: `%.1s` cuts it
    for (Py_ssize_t i = 0; i < PyUnicode_GET_LENGTH(text_mark); i++)
      if (PyUnicode_FindChar(text, PyUnicode_READ_CHAR(text_mark, i), 0, size, 1) >= 0) return true;
  }
  return size >= PyUnicode_GET_LENGTH(text_escaped) && PyUnicode_Find(text, text_escaped, 0, size, 1) >= 0;
}

static PyObject* read_now(Rehearsal* r) {
  static PyObject* const name = PyUnicode_InternFromString("text_is_read");
  return ask_session(r, name, nullptr, 0);
}

PyObject* new_unread_text(Rehearsal* r, PyObject* made_of) {
  if (reading) return read_now(r);
  static PyObject* const name = PyUnicode_InternFromString("unread_text");
  PyObject* text = ask_session(r, name, &made_of, made_of ? 1 : 0);
  if (text && text != Py_None) {
    r->texts = true;
    made.push_back(Py_NewRef(text));
  }
  return text;
}

// The text for a value whose text is not known, or None where the session wants no such texts.
static PyObject* unread_text(PyObject*, PyObject*) {
  Rehearsal* r = current_rehearsal();
  if (!r || !text_type || reading) Py_RETURN_NONE;
  return new_unread_text(r, nullptr);
}

static PyObject* text_is_read(PyObject*, PyObject*) {
  Rehearsal* r = current_rehearsal();
  if (!r) return PyErr_Format(PyExc_RuntimeError, "a text of framelift's that stands for another was read");
  return read_now(r);
}

static bool take_mark(PyObject* mark) {
  Ref escaped = Ref::steal(PyObject_ASCII(mark));  // in quotes: one letter of it is enough
  Ref inner = escaped ? Ref::steal(PyUnicode_Substring(escaped.get(), 1, 9)) : Ref();
  if (!inner) return false;
  Py_XSETREF(text_escaped, inner.release());
  Py_XSETREF(text_mark, Py_NewRef(mark));
  return true;
}

static Connections connections({{"unread_text", (PyObject**)&text_type},
                                {"unread_mark", nullptr, take_mark},
                                {"unread_text_handler", &text_handler},
                                {"leaf_types", nullptr, take_classes<leaf_types>}});

static MethodTable methods({
    method<text_is_read, METH_NOARGS>("text_is_read", "the letters of such a text are asked for"),
    method<unread_text, METH_NOARGS>("unread_text", "a text for a value whose text is not known, or None"),
});

bool init_texts(PyObject* module) { return add_functions(module, methods); }

}  // namespace framelift
