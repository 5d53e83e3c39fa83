// Which tensors have hooks, and how often they were written to: what graphs that add to gradients or write to inputs
// rest on.
// Copies of memory and of the state of torch's generator, for graphs that fail.
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/SavedTensorHooks.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/autograd/variable.h>
#include <torch/version.h>

#include <cstring>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_set>
#include <vector>

#include "barrier.h"
#include "reference.h"
#include "state.h"
#include "tensor_class.h"

namespace framelift {

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

// count_writes(tensors, before, counts): their counters are as `before`, and each has counted so many writes since.
// Tensors may share a counter.
static PyObject* count_writes(PyObject*, PyObject* const* args, Py_ssize_t count) {
  Py_ssize_t n = count == 3 && PyTuple_Check(args[0]) ? PyTuple_GET_SIZE(args[0]) : -1;
  if (n < 0 || !PyTuple_Check(args[1]) || PyTuple_GET_SIZE(args[1]) != n || !PyTuple_Check(args[2]) ||
      PyTuple_GET_SIZE(args[2]) != n)
    return PyErr_Format(PyExc_TypeError, "count_writes: tensors, their versions before, and numbers of writes");
  for (bool bump : {false, true})
    for (Py_ssize_t i = 0; i < n; i++) {
      PyObject* item = PyTuple_GET_ITEM(args[0], i);
      if (!is_tensor(item) || THPVariable_Unpack(item).is_inference()) continue;
      long number = PyLong_AsLong(PyTuple_GET_ITEM(args[bump ? 2 : 1], i));
      if (number == -1 && PyErr_Occurred()) return nullptr;
      auto counter = torch::autograd::impl::version_counter(THPVariable_Unpack(item));
      if (!bump) counter.set_version(number);
      for (long k = 0; bump && k < number; k++) counter.bump();
    }
  Py_RETURN_NONE;
}

// ---- copies of memory ----

// A storage as a tensor of bytes.
static at::Tensor bytes_of(const c10::Storage& storage) {
  at::Tensor bytes = at::empty({0}, at::TensorOptions().dtype(at::kByte).device(storage.device()));
  bytes.set_(storage, 0, {(int64_t)storage.nbytes()}, {1});
  return bytes;
}

// What the storages of some tensors hold: small ones of the CPU side by side, others as tensors of bytes.
struct Copies {
  struct Part {
    size_t tensor;  // the first that lies in this storage
    size_t size;
    size_t place;     // among the small ones
    at::Tensor bytes;  // or on its own
  };
  std::vector<Part> parts;
  std::unique_ptr<char[]> small;
};

static constexpr const char* kCopies = "framelift.copies";
static constexpr size_t kSmall = 1 << 18;

static void free_copies(PyObject* capsule) { delete (Copies*)PyCapsule_GetPointer(capsule, kCopies); }

static const c10::Storage& storage_of(PyObject* tensors, size_t i) {
  return THPVariable_Unpack(PyTuple_GET_ITEM(tensors, (Py_ssize_t)i)).storage();
}

static bool are_tensors(PyObject* tensors) {
  if (!PyTuple_Check(tensors)) return false;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tensors); i++)
    if (!is_tensor(PyTuple_GET_ITEM(tensors, i))) return false;
  return true;
}

// memory_copies(tensors): copies of the storages that the tensors lie in, for put_back_memory.
static PyObject* memory_copies(PyObject*, PyObject* tensors) {
  if (!are_tensors(tensors)) return PyErr_Format(PyExc_TypeError, "memory_copies takes a tuple of tensors");
  at::AutoDispatchBelowADInplaceOrView below;  // no history, no count of a view's writes
  auto copies = std::make_unique<Copies>();
  std::unordered_set<const void*> seen;
  size_t total = 0, count = (size_t)PyTuple_GET_SIZE(tensors);
  for (size_t i = 0; i < count; i++) {
    const c10::Storage& storage = storage_of(tensors, i);
    if (!seen.insert(storage.unsafeGetStorageImpl()).second) continue;
    bool is_small = storage.device_type() == at::kCPU && storage.nbytes() <= kSmall;
    copies->parts.push_back({i, storage.nbytes(), total, is_small ? at::Tensor() : bytes_of(storage).clone()});
    if (is_small) total += storage.nbytes();
  }
  copies->small.reset(new char[total]);
  for (const Copies::Part& part : copies->parts)
    if (!part.bytes.defined() && part.size)
      memcpy(copies->small.get() + part.place, storage_of(tensors, part.tensor).data(), part.size);
  PyObject* capsule = PyCapsule_New(copies.get(), kCopies, slot<free_copies>);
  if (capsule) copies.release();
  return capsule;
}

// put_back_memory(tensors, copies): whether the storages of the same tensors are as large as they were; then they hold
// again what they held.  Autograd does not count this.
static PyObject* put_back_memory(PyObject*, PyObject* const* args, Py_ssize_t count) {
  Copies* copies = count == 2 ? (Copies*)PyCapsule_GetPointer(args[1], kCopies) : nullptr;
  if (!copies || !are_tensors(args[0])) return PyErr_Format(PyExc_TypeError, "put_back_memory: tensors and copies");
  at::AutoDispatchBelowADInplaceOrView below;
  for (const Copies::Part& part : copies->parts)
    if (const c10::Storage& storage = storage_of(args[0], part.tensor);
        storage.nbytes() != part.size || (!part.bytes.defined() && storage.device_type() != at::kCPU))
      Py_RETURN_FALSE;
  for (const Copies::Part& part : copies->parts) {
    const c10::Storage& storage = storage_of(args[0], part.tensor);
    if (part.bytes.defined())
      bytes_of(storage).copy_(part.bytes);
    else if (part.size)
      memcpy(storage.mutable_data(), copies->small.get() + part.place, part.size);
  }
  Py_RETURN_TRUE;
}

// ---- the state of torch's generator ----

// That of the CPU's default generator, which torch.get_rng_state writes into a tensor.
struct GeneratorState {
  at::mt19937 engine;
  std::optional<float> next_float;
  std::optional<double> next_double;
};

static constexpr const char* kGeneratorState = "framelift.generator_state";

static void free_state(PyObject* capsule) { delete (GeneratorState*)PyCapsule_GetPointer(capsule, kGeneratorState); }

static PyObject* generator_state(PyObject*, PyObject*) {
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  std::lock_guard<std::mutex> lock(generator.mutex());
  auto* cpu = at::check_generator<at::CPUGeneratorImpl>(generator);
  std::unique_ptr<GeneratorState> state(
      new GeneratorState{cpu->engine(), cpu->next_float_normal_sample(), cpu->next_double_normal_sample()});
  PyObject* capsule = PyCapsule_New(state.get(), kGeneratorState, slot<free_state>);
  if (capsule) state.release();
  return capsule;
}

static PyObject* restore_generator(PyObject*, PyObject* capsule) {
  auto* state = (GeneratorState*)PyCapsule_GetPointer(capsule, kGeneratorState);
  if (!state) return nullptr;
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  std::lock_guard<std::mutex> lock(generator.mutex());
  auto* cpu = at::check_generator<at::CPUGeneratorImpl>(generator);
  cpu->set_engine(state->engine);
  cpu->set_next_float_normal_sample(state->next_float);
  cpu->set_next_double_normal_sample(state->next_double);
  Py_RETURN_NONE;
}

// Whether hooks on saved tensors are set in this thread: asked at every call of many entries.
static PyObject* has_saved_hooks(PyObject*, PyObject*) {
  return PyBool_FromLong(!at::SavedTensorDefaultHooks::get_tls_state().stack.empty());
}

static MethodTable memory_functions({
    method<has_saved_hooks, METH_NOARGS>("has_saved_hooks", "whether hooks on saved tensors are set in this thread"),
    method<memory_copies, METH_O>("memory_copies", "copies of the storages that the tensors lie in"),
    method<generator_state, METH_NOARGS>("generator_state", "the state of torch's generator for the CPU"),
    method<restore_generator, METH_O>("restore_generator", "torch's generator for the CPU has this state again"),
    method<put_back_memory>("put_back_memory", "whether storages have the size of their copies, which they hold then"),
    method<versions, METH_O>("versions",
                             "how often the memory of each tensor was written to; -1 where that is not counted"),
    method<count_writes>("count_writes", "counters as before, and so many writes more"),
    method<hooked, METH_O>("hooked", "whether a hook runs when gradients come to one of the tensors"),
});

bool init_memory(PyObject* module) {
  // Here are torch's headers: what was built with others does not fit (framelift/__init__.py).
  return add_functions(module, memory_functions) &&
         PyModule_AddStringConstant(module, "TORCH_VERSION", TORCH_VERSION) == 0;
}

}  // namespace framelift
