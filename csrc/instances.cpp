// What entries do to instances: make one with its dictionary in one step, and set an attribute that often is set
// already.
#include "barrier.h"
#include "frames.h"
#include "reference.h"
#include "state.h"

namespace framelift {

// new(cls): object.__new__(cls)
static PyObject* make_new(PyObject*, PyObject* type) {
  static PyObject* nothing = PyTuple_New(0);
  if (!PyType_Check(type) || !nothing) return PyErr_Format(PyExc_TypeError, "new(class)");
  return PyBaseObject_Type.tp_new((PyTypeObject*)type, nothing, nullptr);
}

// instance(cls, dict): an object of a Python class without built-in base, with this very dictionary.
static PyObject* instance(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (n != 2 || !PyType_Check(args[0]) || !PyDict_Check(args[1]))
    return PyErr_Format(PyExc_TypeError, "instance(class, dict)");
  PyTypeObject* type = (PyTypeObject*)args[0];
  if (!is_heap_type(type) || (type->tp_flags & Py_TPFLAGS_IS_ABSTRACT))
    return PyErr_Format(PyExc_TypeError, "instance: not a class that a class statement made: %s", type->tp_name);
  Ref object = Ref::steal(type->tp_alloc(type, 0));
  return object && set_instance_dict(object.get(), args[1]) ? object.release() : nullptr;
}

// ordered(cls, dict or None, key, value, ...): an object of a Python subclass of OrderedDict with these items.
static PyObject* ordered(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (n < 2 || n % 2 || !PyType_Check(args[0]) || !PyType_IsSubtype((PyTypeObject*)args[0], &PyODict_Type))
    return PyErr_Format(PyExc_TypeError, "ordered(class, dict or None, key, value, ...)");
  Ref nothing = Ref::steal(PyTuple_New(0));
  Ref object = Ref::steal(nothing ? PyODict_Type.tp_new((PyTypeObject*)args[0], nothing.get(), nullptr) : nullptr);
  if (!object) return nullptr;
  for (Py_ssize_t i = 2; i < n; i += 2)
    if (PyODict_SetItem(object.get(), args[i], args[i + 1]) < 0) return nullptr;
  return args[1] == Py_None || set_instance_dict(object.get(), args[1]) ? object.release() : nullptr;
}

// store(object, name, value): object.__setattr__, but an attribute that is this very value already is left alone, and
// with it the version of its dictionary, which guards look at.
static PyObject* store(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (n != 3 || !PyUnicode_Check(args[1])) return PyErr_Format(PyExc_TypeError, "store(object, name, value)");
  PyObject* descriptor = _PyType_Lookup(Py_TYPE(args[0]), args[1]);
  if (!descriptor || !Py_TYPE(descriptor)->tp_descr_set) {
    PyObject** dict = _PyObject_GetDictPtr(args[0]);
    bool quiet = dict && *dict && dict_has_only_strings(*dict);
    if (quiet && PyDict_GetItemWithError(*dict, args[1]) == args[2]) Py_RETURN_NONE;
  }
  if (PyErr_Occurred() || PyObject_GenericSetAttr(args[0], args[1], args[2]) < 0) return nullptr;
  Py_RETURN_NONE;
}

static MethodTable methods({
    method<make_new, METH_O>("new", "new(cls): as object.__new__"),
    method<store>("store", "store(object, name, value): as object.__setattr__, nothing where it is set already"),
    method<instance>("instance", "instance(cls, dict): as object.__new__, with this dictionary"),
    method<ordered>("ordered", "ordered(cls, dict or None, key, value, ...): as OrderedDict.__new__, filled"),
});

bool init_instances(PyObject* module) { return add_functions(module, methods); }

}  // namespace framelift
