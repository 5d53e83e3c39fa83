// See marked_ids.h.  The Python meaning is guards/kinds.py: _unmarked.
#include "marked_ids.h"

namespace framelift {

// An attribute; none, without an exception, where there is none.
static Ref attribute(PyObject* holder, PyObject* name) {
  if (PyModule_CheckExact(holder)) {
    PyObject* found = PyDict_GetItemWithError(PyModule_GetDict(holder), name);
    if (found || PyErr_Occurred()) return Ref::new_ref(found);
  }
  // Safe: asked where all values of the guards are known and held, so any code may run.
  Ref found = Ref::steal(PyObject_GetAttr(holder, name));
  if (!found && PyErr_ExceptionMatches(PyExc_AttributeError)) PyErr_Clear();
  return found;
}

bool MarkedIds::find(PyObject* names) {
  static PyObject* const field = PyUnicode_InternFromString("function_ids");
  sets.clear();
  Ref module = Ref::new_ref(PyDict_GetItemWithError(PyImport_GetModuleDict(), PyTuple_GET_ITEM(names, 0)));
  for (Py_ssize_t i = 1; module && i < PyTuple_GET_SIZE(names); i++) {
    Ref holder = attribute(module.get(), PyTuple_GET_ITEM(names, i));
    Ref ids = holder ? attribute(holder.get(), field) : Ref();
    if (ids && ids.get() != Py_None) sets.push_back(std::move(ids));
    if (PyErr_Occurred()) return false;
  }
  return !PyErr_Occurred();
}

int MarkedIds::contain(PyObject* object) const {
  if (sets.empty()) return 0;
  Ref id = Ref::steal(PyLong_FromVoidPtr(object));
  if (!id) return -1;
  for (const Ref& ids : sets) {
    int contains = PySequence_Contains(ids.get(), id.get());
    if (contains) return contains;
  }
  return 0;
}

}  // namespace framelift
