// Which tensors share their memory: what a graph that writes to its inputs was built on.
#include <torch/csrc/autograd/python_variable.h>

#include <unordered_map>

#include "state.h"

namespace framelift {

// memory_pattern(tensors): for each tensor the place of the first one with the same storage.
static PyObject* memory_pattern(PyObject*, PyObject* tensors) {
  if (!PyTuple_Check(tensors)) return PyErr_Format(PyExc_TypeError, "memory_pattern takes a tuple of tensors");
  Py_ssize_t n = PyTuple_GET_SIZE(tensors);
  PyObject* pattern = PyTuple_New(n);
  std::unordered_map<const void*, Py_ssize_t> first;
  for (Py_ssize_t i = 0; pattern && i < n; i++) {
    PyObject* item = PyTuple_GET_ITEM(tensors, i);
    const void* storage = nullptr;  // what is no tensor shares with nothing: equal numbers may be one object
    if (PyType_IsSubtype(Py_TYPE(item), (PyTypeObject*)THPVariableClass)) {
      const at::Tensor& tensor = THPVariable_Unpack(item);
      storage = tensor.has_storage() ? (const void*)tensor.storage().unsafeGetStorageImpl() : item;
    }
    PyObject* place = PyLong_FromSsize_t(storage ? first.emplace(storage, i).first->second : i);
    if (!place) Py_CLEAR(pattern);
    else PyTuple_SET_ITEM(pattern, i, place);
  }
  return pattern;
}

static PyMethodDef methods[] = {{"memory_pattern", memory_pattern, METH_O, "for each tensor the place of the first one with the same storage"},
                                {nullptr, nullptr, 0, nullptr}};

bool init_memory(PyObject* module) { return PyModule_AddFunctions(module, methods) == 0; }

}  // namespace framelift
