// Which tensors share their memory, and which have hooks: what graphs that write to inputs or add to gradients rest on.
#include <ATen/SavedTensorHooks.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/autograd/variable.h>

#include <unordered_map>

#include "barrier.h"
#include "reference.h"
#include "state.h"
#include "tensor_class.h"

namespace framelift {

// memory_pattern(tensors): for each tensor the place of the first one with the same storage.
static PyObject* memory_pattern(PyObject*, PyObject* tensors) {
  if (!PyTuple_Check(tensors)) return PyErr_Format(PyExc_TypeError, "memory_pattern takes a tuple of tensors");
  std::unordered_map<const void*, Py_ssize_t> first;
  return make_tuple(PyTuple_GET_SIZE(tensors),
                    [&](Py_ssize_t i) {
                      PyObject* item = PyTuple_GET_ITEM(tensors, i);
                      const void* storage =
                          nullptr;  // what is no tensor shares with nothing: equal numbers may be one object
                      if (is_tensor(item)) {
                        const at::Tensor& tensor = THPVariable_Unpack(item);
                        storage = tensor.has_storage() ? (const void*)tensor.storage().unsafeGetStorageImpl() : item;
                      }
                      return Ref::steal(PyLong_FromSsize_t(storage ? first.emplace(storage, i).first->second : i));
                    })
      .release();
}

static bool has_entries(PyObject* table) { return table && (!PyDict_Check(table) || PyDict_GET_SIZE(table) > 0); }

// Whether something runs when gradients come to a leaf: hooks on the tensor, on what it gathers, or on the node that
// gathers.
static bool is_hooked(PyObject* item) {
  const at::Tensor& tensor = THPVariable_Unpack(item);
  auto* meta = torch::autograd::impl::get_autograd_meta(tensor);
  if (!meta) return false;
  auto* own = (THPVariable*)item;
  if (!meta->hooks_.empty() && (!own->backward_hooks || has_entries(own->backward_hooks))) return true;
  PyObject* after = own->post_accumulate_grad_hooks;
  if (meta->post_acc_grad_hooks_ && (!after || has_entries(after))) return true;
  auto gathers = torch::autograd::impl::try_get_grad_accumulator(tensor);
  return gathers && (!gathers->pre_hooks().empty() || !gathers->post_hooks().empty());
}

// hooked(tensors): whether one of them is; what is no tensor is not.
static PyObject* hooked(PyObject*, PyObject* tensors) {
  if (!PyTuple_Check(tensors)) return PyErr_Format(PyExc_TypeError, "hooked takes a tuple of tensors");
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tensors); i++) {
    PyObject* item = PyTuple_GET_ITEM(tensors, i);
    if (is_tensor(item) && is_hooked(item)) Py_RETURN_TRUE;
  }
  Py_RETURN_FALSE;
}

// versions(tensors): how often the memory of each was written to, as torch counts; -1 where it does not count.
static PyObject* versions(PyObject*, PyObject* tensors) {
  if (!PyTuple_Check(tensors)) return PyErr_Format(PyExc_TypeError, "versions takes a tuple of tensors");
  return make_tuple(PyTuple_GET_SIZE(tensors),
                    [&](Py_ssize_t i) {
                      PyObject* item = PyTuple_GET_ITEM(tensors, i);
                      bool counts = is_tensor(item) && !THPVariable_Unpack(item).is_inference();
                      return Ref::steal(PyLong_FromLong(counts ? (long)THPVariable_Unpack(item)._version() : -1));
                    })
      .release();
}

// The memory as a tensor of bytes of its own.
static Ref copy_of(const c10::Storage& storage) {
  at::AutoDispatchBelowADInplaceOrView below;  // no history, no count of a view's writes
  at::Tensor bytes = at::empty({0}, at::TensorOptions().dtype(at::kByte).device(storage.device()));
  bytes.set_(storage, 0, {(int64_t)storage.nbytes()}, {1});
  return Ref::steal(THPVariable_Wrap(bytes.clone()));
}

// memory_copies(tensors): a copy of each storage the tensors lie in; None for one that an earlier tensor has.
static PyObject* memory_copies(PyObject*, PyObject* tensors) {
  if (!PyTuple_Check(tensors)) return PyErr_Format(PyExc_TypeError, "memory_copies takes a tuple of tensors");
  Py_ssize_t n = PyTuple_GET_SIZE(tensors);
  for (Py_ssize_t i = 0; i < n; i++)
    if (!is_tensor(PyTuple_GET_ITEM(tensors, i))) return PyErr_Format(PyExc_TypeError, "memory_copies takes tensors");
  auto storage_of = [&](Py_ssize_t i) { return THPVariable_Unpack(PyTuple_GET_ITEM(tensors, i)).storage(); };
  return make_tuple(n,
                    [&](Py_ssize_t i) {
                      const c10::Storage storage = storage_of(i);
                      for (Py_ssize_t k = 0; k < i; k++)
                        if (storage_of(k).is_alias_of(storage)) return Ref::new_ref(Py_None);
                      return copy_of(storage);
                    })
      .release();
}

// Whether hooks on saved tensors are set in this thread: asked at every call of many entries.
static PyObject* has_saved_hooks(PyObject*, PyObject*) {
  return PyBool_FromLong(!at::SavedTensorDefaultHooks::get_tls_state().stack.empty());
}

static MethodTable memory_functions({
    method<has_saved_hooks, METH_NOARGS>("has_saved_hooks", "whether hooks on saved tensors are set in this thread"),
    method<memory_copies, METH_O>(
        "memory_copies", "a copy of each storage the tensors lie in; None where an earlier tensor has the same"),
    method<versions, METH_O>("versions",
                             "how often the memory of each tensor was written to; -1 where that is not counted"),
    method<hooked, METH_O>("hooked", "whether a hook runs when gradients come to one of the tensors"),
    method<memory_pattern, METH_O>("memory_pattern",
                                   "for each tensor the place of the first one with the same storage"),
});

bool init_memory(PyObject* module) { return add_functions(module, memory_functions); }

}  // namespace framelift
