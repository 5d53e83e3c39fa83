// Which tensors share their memory, and which have hooks: what graphs that write to inputs or add to gradients were built on.
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/autograd/variable.h>

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

static bool has_entries(PyObject* table) { return table && (!PyDict_Check(table) || PyDict_GET_SIZE(table) > 0); }

// Whether something runs when gradients come to a leaf: hooks on the tensor, on what it gathers, or on the node that gathers.
static bool is_hooked(PyObject* item) {
  const at::Tensor& tensor = THPVariable_Unpack(item);
  auto* meta = torch::autograd::impl::get_autograd_meta(tensor);
  if (!meta) return false;
  auto* own = (THPVariable*)item;
  if (!meta->hooks_.empty() && (!own->backward_hooks || has_entries(own->backward_hooks))) return true;
  if (meta->post_acc_grad_hooks_ && (!own->post_accumulate_grad_hooks || has_entries(own->post_accumulate_grad_hooks))) return true;
  auto gathers = torch::autograd::impl::try_get_grad_accumulator(tensor);
  return gathers && (!gathers->pre_hooks().empty() || !gathers->post_hooks().empty());
}

// hooked(tensors): whether one of them is; what is no tensor is not.
static PyObject* hooked(PyObject*, PyObject* tensors) {
  if (!PyTuple_Check(tensors)) return PyErr_Format(PyExc_TypeError, "hooked takes a tuple of tensors");
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tensors); i++) {
    PyObject* item = PyTuple_GET_ITEM(tensors, i);
    if (PyType_IsSubtype(Py_TYPE(item), (PyTypeObject*)THPVariableClass) && is_hooked(item)) Py_RETURN_TRUE;
  }
  Py_RETURN_FALSE;
}

// versions(tensors): how often the memory of each was written to, as torch counts; -1 where it does not count.
static PyObject* versions(PyObject*, PyObject* tensors) {
  if (!PyTuple_Check(tensors)) return PyErr_Format(PyExc_TypeError, "versions takes a tuple of tensors");
  Py_ssize_t n = PyTuple_GET_SIZE(tensors);
  PyObject* found = PyTuple_New(n);
  for (Py_ssize_t i = 0; found && i < n; i++) {
    PyObject* item = PyTuple_GET_ITEM(tensors, i);
    bool counts = PyType_IsSubtype(Py_TYPE(item), (PyTypeObject*)THPVariableClass) && !THPVariable_Unpack(item).is_inference();
    PyObject* version = PyLong_FromLong(counts ? (long)THPVariable_Unpack(item)._version() : -1);
    if (!version) Py_CLEAR(found);
    else PyTuple_SET_ITEM(found, i, version);
  }
  return found;
}

// memory_copies(tensors): a copy of each storage the tensors lie in, as a tensor of bytes; None for one that an earlier tensor has.
static PyObject* memory_copies(PyObject*, PyObject* tensors) {
  HANDLE_TH_ERRORS
  if (!PyTuple_Check(tensors)) return PyErr_Format(PyExc_TypeError, "memory_copies takes a tuple of tensors");
  Py_ssize_t n = PyTuple_GET_SIZE(tensors);
  PyObject* copies = PyTuple_New(n);
  at::AutoDispatchBelowADInplaceOrView below;   // no history, no count of a view's writes
  for (Py_ssize_t i = 0; copies && i < n; i++) {
    const c10::Storage& storage = THPVariable_Unpack(PyTuple_GET_ITEM(tensors, i)).storage();
    bool had = false;
    for (Py_ssize_t k = 0; k < i && !had; k++) had = THPVariable_Unpack(PyTuple_GET_ITEM(tensors, k)).storage().is_alias_of(storage);
    PyObject* copy = Py_NewRef(Py_None);
    if (!had) {
      at::Tensor bytes = at::empty({0}, at::TensorOptions().dtype(at::kByte).device(storage.device()));
      bytes.set_(storage, 0, {(int64_t)storage.nbytes()}, {1});
      Py_SETREF(copy, THPVariable_Wrap(bytes.clone()));
    }
    if (!copy) Py_CLEAR(copies);
    else PyTuple_SET_ITEM(copies, i, copy);
  }
  return copies;
  END_HANDLE_TH_ERRORS
}

static PyMethodDef methods[] = {{"memory_copies", memory_copies, METH_O, "a copy of each storage the tensors lie in; None where an earlier tensor has the same"},
                                {"versions", versions, METH_O, "how often the memory of each tensor was written to; -1 where that is not counted"},
                                {"hooked", hooked, METH_O, "whether a hook runs when gradients come to one of the tensors"},
                                {"memory_pattern", memory_pattern, METH_O, "for each tensor the place of the first one with the same storage"},
                                {nullptr, nullptr, 0, nullptr}};

bool init_memory(PyObject* module) { return PyModule_AddFunctions(module, methods) == 0; }

}  // namespace framelift
