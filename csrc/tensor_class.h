// torch.Tensor, without the header that declares it: that takes ten times as long to compile as the rest of a file.
#pragma once
#define PY_SSIZE_T_CLEAN
#include <Python.h>

extern __attribute__((visibility("default"))) PyObject* THPVariableClass;

namespace framelift {

// By type alone: `isinstance` would ask the object's `__class__`, which is user code.
inline bool is_tensor(PyObject* obj) { return PyType_IsSubtype(Py_TYPE(obj), (PyTypeObject*)THPVariableClass); }

}  // namespace framelift
