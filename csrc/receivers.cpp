// See receivers.h.
#include "receivers.h"

#include "probes.h"
#include "reference.h"
#include "rehearsal.h"

namespace framelift {

// Whether an entry of a class's dictionary is a function, or a descriptor of CPython's that holds it.
static bool holds_function(PyObject* value, PyObject* function) {
  if (value == function) return true;
  PyTypeObject* kind = Py_TYPE(value);
  static const char* const parts[] = {"fget", "fset", "fdel", "__func__"};
  int first = kind == &PyProperty_Type ? 0 : 3;
  if (first == 3 && kind != &PyStaticMethod_Type && kind != &PyClassMethod_Type) return false;
  for (int i = first; i < (first ? 4 : 3); i++) {
    Ref part = Ref::steal(PyObject_GetAttrString(value, parts[i]));  // safe: a member of a type of CPython's, exactly
    if (!part) PyErr_Clear();
    if (part.get() == function) return true;
  }
  return false;
}

// The names under which a class or its bases hold a Python function.  Static types hold none.
static Ref names_of(PyTypeObject* cls, PyObject* function) {
  Ref names = Ref::steal(PyList_New(0));
  PyObject* mro = cls->tp_mro;
  for (Py_ssize_t i = 0; names && mro && i < PyTuple_GET_SIZE(mro); i++) {
    PyTypeObject* base = (PyTypeObject*)PyTuple_GET_ITEM(mro, i);
    if (!(base->tp_flags & Py_TPFLAGS_HEAPTYPE)) continue;
    PyObject *name, *value;
    Py_ssize_t position = 0;
    while (PyDict_Next(base->tp_dict, &position, &name, &value))
      if (holds_function(value, function) && PyList_Append(names.get(), name) < 0) return Ref();
  }
  return names;
}

// A function runs on an instance of a class, or on the class itself: if C code found it there, under whatever names,
// that is a guarded fact.
static int note_held(Rehearsal* r, PyTypeObject* cls, PyObject* function) {
  if (!(cls->tp_flags & Py_TPFLAGS_HEAPTYPE)) return 0;
  if (!r->receivers.insert({(PyObject*)cls, function}).second) return 0;
  Ref names = names_of(cls, function);
  if (!names) return -1;
  if (!PyList_GET_SIZE(names.get())) return 0;
  static PyObject* const name = PyUnicode_InternFromString("note_receiver");
  PyObject* args[] = {(PyObject*)cls, names.get()};
  return Ref::steal(ask_session(r, name, args, 2)) ? 0 : -1;
}

// The code's parameter number 0 is `self` of a method that C code may have looked up, or `cls` of a class method.
int note_receiver(Rehearsal* r, PyObject* function, PyObject* const* locals) {
  PyCodeObject* code = (PyCodeObject*)PyFunction_GET_CODE(function);
  if (code->co_argcount == 0 || !locals[0]) return 0;
  PyTypeObject* type = Py_TYPE(locals[0]);
  if (type->tp_flags & Py_TPFLAGS_HEAPTYPE && note_class(r, (PyObject*)type) < 0) return -1;
  if (note_held(r, type, function) < 0) return -1;
  return PyType_Check(locals[0]) ? note_held(r, (PyTypeObject*)locals[0], function) : 0;
}

}  // namespace framelift
