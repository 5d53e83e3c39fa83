// See marked_ids.h.  The Python meaning is guards/kinds.py: _unmarked.
#include "marked_ids.h"

#include "barrier.h"

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

// is_marked(names, object): whether one of the sets that the names lead to has the object's id.
static PyObject* is_marked(PyObject*, PyObject* const* a, Py_ssize_t n) {
  if (n != 2 || !PyTuple_Check(a[0]) || !PyTuple_GET_SIZE(a[0]))
    return PyErr_Format(PyExc_TypeError, "is_marked(names, object)");
  MarkedIds ids;
  int contain = ids.find(a[0]) ? ids.contain(a[1]) : -1;
  return contain < 0 ? nullptr : PyBool_FromLong(contain);
}

static MethodTable functions({
    method<is_marked>("is_marked", "is_marked((module, variables...), object): one of these sets has the object's id"),
});

bool init_marked_ids(PyObject* module) { return add_functions(module, functions); }

}  // namespace framelift
