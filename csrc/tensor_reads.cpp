// Reads of tensors that reach no code of the program: neither `__torch_function__` of a class or a mode, nor a method
// or property that a subclass puts in the place of torch's.
#include <Python.h>
#include <torch/csrc/autograd/python_variable.h>

#include <string>

#include "barrier.h"
#include "state.h"
#include "tensor_class.h"
#include "unseen.h"

namespace framelift {

// The tensor's own fields hold its sizes and strides.
static bool is_plain(const c10::TensorImpl* impl) {
  constexpr c10::DispatchKeySet others({c10::DispatchKey::Python, c10::DispatchKey::NestedTensor,
                                        c10::DispatchKey::Sparse, c10::DispatchKey::SparseCsr});
  return !impl->key_set().has_any(others) && !impl->has_symbolic_sizes_strides();
}

// What torch's own class of tensors has by this name, read off the tensor or called with it and the other arguments.
static PyObject* by_name(PyObject* name, PyObject* const* args, size_t n) {
  PyTypeObject* base = ((PyTypeObject*)THPVariableClass)->tp_base;
  PyObject* member = _PyType_Lookup(base, name);
  if (!member) return PyErr_Format(PyExc_AttributeError, "torch's tensors have no %R", name);
  Unseen unseen;
  if (Py_TYPE(member)->tp_descr_set) return Py_TYPE(member)->tp_descr_get(member, args[0], (PyObject*)Py_TYPE(args[0]));
  return PyObject_Vectorcall(member, args, n, nullptr);
}

// of_tensor(tensor, name, *args): an attribute of torch's own, or the result of one of its methods.
static PyObject* of_tensor(PyObject*, PyObject* const* a, Py_ssize_t n) {
  constexpr Py_ssize_t kMost = 6;
  if (n < 2 || n > kMost || !is_tensor(a[0]) || !PyUnicode_Check(a[1]))
    return PyErr_Format(PyExc_TypeError, "of_tensor(tensor, name, *args)");
  PyObject* args[kMost] = {a[0]};
  for (Py_ssize_t i = 2; i < n; i++) args[i - 1] = a[i];
  return by_name(a[1], args, (size_t)n - 1);
}

// getattr(), but for torch's own attributes of tensors, which no code of the program sees the reading of.
PyObject* read_attribute_unseen(PyObject* base, PyObject* name) {
  if (THPVariableClass && is_tensor(base)) {
    PyObject* member = _PyType_Lookup(((PyTypeObject*)THPVariableClass)->tp_base, name);
    if (member && Py_IS_TYPE(member, &PyGetSetDescr_Type)) return by_name(name, &base, 1);
  }
  // Not a field of a tensor: guards that read by this count it as code that ran.
  return PyObject_GetAttr(base, name);
}

static PyObject* tensor_attribute(PyObject*, PyObject* const* a, Py_ssize_t n) {
  if (n != 2) return PyErr_Format(PyExc_TypeError, "tensor_attribute(object, name)");
  return read_attribute_unseen(a[0], a[1]);
}

static PyObject* entry_of(PyObject* const* a, Py_ssize_t n, PyObject* name, bool size) {
  if (n != 2 || !is_tensor(a[0])) return PyErr_Format(PyExc_TypeError, "tensor_%U(tensor, dim)", name);
  const c10::TensorImpl* impl = THPVariable_Unpack(a[0]).unsafeGetTensorImpl();
  Py_ssize_t dim = PyLong_AsSsize_t(a[1]);
  if (dim == -1 && PyErr_Occurred()) return nullptr;
  if (!is_plain(impl)) return by_name(name, a, 2);
  c10::IntArrayRef entries = size ? impl->sizes() : impl->strides();
  if (dim < 0 || (size_t)dim >= entries.size())
    return PyErr_Format(PyExc_IndexError, "tensor_%U: no dimension %zd", name, dim);
  return PyLong_FromLongLong(entries[dim]);
}

static PyObject* tensor_size(PyObject*, PyObject* const* a, Py_ssize_t n) {
  static PyObject* name = PyUnicode_InternFromString("size");
  return entry_of(a, n, name, true);
}
static PyObject* tensor_stride(PyObject*, PyObject* const* a, Py_ssize_t n) {
  static PyObject* name = PyUnicode_InternFromString("stride");
  return entry_of(a, n, name, false);
}

// ---- all at once ----

// tensor_key(tensor): what torch says of a plain strided tensor, as bytes: equal ones are alike in dtype, device, keys,
// sizes, strides, and in what they are to autograd.  None for any other tensor.
static PyObject* tensor_key(PyObject*, PyObject* object) {
  if (!is_tensor(object)) return PyErr_Format(PyExc_TypeError, "tensor_key(tensor)");
  const at::Tensor& tensor = THPVariable_Unpack(object);
  const c10::TensorImpl* impl = tensor.unsafeGetTensorImpl();
  if (!is_plain(impl) || impl->layout() != c10::kStrided) Py_RETURN_NONE;
  c10::IntArrayRef sizes = impl->sizes(), strides = impl->strides();
  std::string key;
  key.reserve(16 + 8 * (sizes.size() + strides.size()));
  auto add = [&](auto field) { key.append((const char*)&field, sizeof field); };
  add(impl->key_set().raw_repr());
  add(c10::typeMetaToScalarType(impl->dtype()));
  add(impl->device());
  add(tensor.requires_grad());
  add(!tensor.grad_fn());
  for (c10::IntArrayRef entries : {sizes, strides}) key.append((const char*)entries.data(), 8 * entries.size());
  return PyBytes_FromStringAndSize(key.data(), (Py_ssize_t)key.size());
}

// tensor_keys(tensor): the dispatch keys, as torch._C._dispatch_keys(tensor).raw_repr().
static PyObject* tensor_keys(PyObject*, PyObject* object) {
  if (!is_tensor(object)) return PyErr_Format(PyExc_TypeError, "tensor_keys(tensor)");
  return PyLong_FromUnsignedLongLong(THPVariable_Unpack(object).unsafeGetTensorImpl()->key_set().raw_repr());
}

// tensor_memory(tensor): where torch's record of its memory is; None where it has none.
static PyObject* tensor_memory(PyObject*, PyObject* object) {
  if (!is_tensor(object)) return PyErr_Format(PyExc_TypeError, "tensor_memory(tensor)");
  const at::Tensor& tensor = THPVariable_Unpack(object);
  if (!tensor.has_storage()) Py_RETURN_NONE;
  return PyLong_FromVoidPtr(tensor.storage().unsafeGetStorageImpl());
}

static MethodTable tensor_functions({
    method<tensor_key, METH_O>("tensor_key",
                               "tensor_key(tensor): what torch says of a plain strided tensor, as bytes; None for "
                               "any other"),
    method<tensor_keys, METH_O>("tensor_keys", "tensor_keys(tensor): its raw dispatch keys"),
    method<tensor_memory, METH_O>("tensor_memory",
                                  "tensor_memory(tensor): the address of torch's record of its memory, or None"),
    method<of_tensor>(
        "of_tensor",
        "of_tensor(tensor, name, *args): what torch's own class has by this name, seen by no code of the program"),
    method<tensor_attribute>(
        "tensor_attribute",
        "tensor_attribute(object, name): getattr(), but no code of the program sees reads of torch's own "
        "attributes of tensors"),
    method<tensor_size>("tensor_size", "tensor_size(tensor, dim): as Tensor.size, seen by no code of the program"),
    method<tensor_stride>("tensor_stride",
                          "tensor_stride(tensor, dim): as Tensor.stride, seen by no code of the program"),
});

bool init_tensor_reads(PyObject* module) { return add_functions(module, tensor_functions); }

}  // namespace framelift
