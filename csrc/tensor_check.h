// Tensor guards: guard.kinds.TensorFacts prepared for comparing, and the comparison.
#pragma once
#include <Python.h>

#include <cstdint>
#include <memory>
#include <vector>

namespace framelift {

struct TensorCheck {
  static constexpr int64_t kAny = -1;  // an entry of size or stride that is not compared
  static constexpr size_t kInline = 5;

  PyTypeObject* type = nullptr;  // borrowed; compared by identity
  uint64_t keys = 0;             // raw dispatch key set
  int64_t device = 0;            // (type << 32) + index
  uint32_t dimensions = 0;
  int8_t dtype = 0;
  int8_t has_grad = -1;          // -1: not asked
  bool requires_grad = false, is_leaf = true;
  bool check_stride = true;
  bool plain = true;             // no entry is kAny, and `entries` holds them all
  bool contradictory = false;    // facts that no tensor can have together
  int64_t entries[2 * kInline] = {};  // sizes, then strides, where `plain`
  std::vector<int64_t> size, stride;

  bool operator==(const TensorCheck&) const = default;
};

// NULL with an exception set when the object does not have the fields of TensorFacts.
std::unique_ptr<TensorCheck> parse_tensor_facts(PyObject* facts);
// Whether `value` is a tensor of these facts.  Runs no Python code unless tensor_runs_code says so.
bool tensor_holds(const TensorCheck& check, PyObject* value);
// Where torch keeps what tensor_holds looks at: addresses to fetch early, never to be read.
struct TensorMemory {
  const char *tensor = nullptr, *autograd = nullptr;
  void fetch() const {
    __builtin_prefetch(tensor + 160);
    __builtin_prefetch(tensor + 64);
    __builtin_prefetch(tensor);
    __builtin_prefetch(autograd + 32);
    __builtin_prefetch(autograd + 128);
  }
};
TensorMemory tensor_memory(PyObject* value);
bool tensor_runs_code(const TensorCheck& check);
bool tensor_type_is_torchs(const TensorCheck& check);  // torch.Tensor or torch.nn.Parameter themselves
// Whether a tensor has a gradient, asked without the warning of its Python attribute.  -1 with an exception set.
int tensor_has_grad(PyObject* value);

}  // namespace framelift
