// Reads of tensors that reach no code of the program: neither `__torch_function__` of a class or a mode, nor a method or property that a subclass
// puts in the place of torch's.
#include <Python.h>

#include <ATen/PythonTorchFunctionTLS.h>
#include <torch/csrc/autograd/python_variable.h>

#include "state.h"

namespace framelift {

namespace {
// Torch function off while torch's own Python method reads a tensor that has no plain memory.
struct Unseen {
  at::impl::TorchFunctionDisabledState before = at::impl::PythonTorchFunctionTLS::get_disabled_state();
  Unseen() { at::impl::PythonTorchFunctionTLS::set_disabled_state(at::impl::TorchFunctionDisabledState::ALL_DISABLED); }
  ~Unseen() { at::impl::PythonTorchFunctionTLS::set_disabled_state(before); }
};
}  // namespace

// The tensor's own fields hold its sizes and strides.
static bool is_plain(const c10::TensorImpl* impl) {
  constexpr c10::DispatchKeySet others({c10::DispatchKey::Python, c10::DispatchKey::NestedTensor, c10::DispatchKey::Sparse, c10::DispatchKey::SparseCsr});
  return !impl->key_set().has_any(others) && !impl->has_symbolic_sizes_strides();
}

static PyObject* by_method(const char* name, PyObject* tensor, PyObject* dim) {
  Unseen unseen;
  PyObject* method = PyObject_GetAttrString((PyObject*)((PyTypeObject*)THPVariableClass)->tp_base, name);
  PyObject* result = method ? PyObject_CallFunctionObjArgs(method, tensor, dim, nullptr) : nullptr;
  Py_XDECREF(method);
  return result;
}

static PyObject* entry_of(PyObject* const* a, Py_ssize_t n, const char* name, bool size) {
  if (n != 2 || !PyType_IsSubtype(Py_TYPE(a[0]), (PyTypeObject*)THPVariableClass)) return PyErr_Format(PyExc_TypeError, "tensor_%s(tensor, dim)", name);
  const c10::TensorImpl* impl = THPVariable_Unpack(a[0]).unsafeGetTensorImpl();
  Py_ssize_t dim = PyLong_AsSsize_t(a[1]);
  if (dim == -1 && PyErr_Occurred()) return nullptr;
  if (!is_plain(impl)) return by_method(name, a[0], a[1]);
  c10::IntArrayRef entries = size ? impl->sizes() : impl->strides();
  if (dim < 0 || (size_t)dim >= entries.size()) return PyErr_Format(PyExc_IndexError, "tensor_%s: no dimension %zd", name, dim);
  return PyLong_FromLongLong(entries[dim]);
}

static PyObject* tensor_size(PyObject*, PyObject* const* a, Py_ssize_t n) { return entry_of(a, n, "size", true); }
static PyObject* tensor_stride(PyObject*, PyObject* const* a, Py_ssize_t n) { return entry_of(a, n, "stride", false); }

static PyMethodDef methods[] = {
    {"tensor_size", (PyCFunction)(void*)tensor_size, METH_FASTCALL, "tensor_size(tensor, dim): as Tensor.size, seen by no code of the program"},
    {"tensor_stride", (PyCFunction)(void*)tensor_stride, METH_FASTCALL, "tensor_stride(tensor, dim): as Tensor.stride, seen by no code of the program"},
    {nullptr, nullptr, 0, nullptr}};

bool init_tensor_reads(PyObject* module) { return PyModule_AddFunctions(module, methods) == 0; }

}  // namespace framelift
