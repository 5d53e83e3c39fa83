// Tensor guards: guards.kinds.TensorFacts prepared for comparing, and the comparison.
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
  int8_t has_grad = -1;  // -1: not asked
  int64_t marks = -1;    // dimensions that may be marked dynamic, as bits; -1: not asked
  bool requires_grad = false, is_leaf = true;
  bool check_stride = true;
  bool plain = true;                  // no entry is kAny, and `entries` holds them all
  bool contradictory = false;         // facts that no tensor can have together
  int64_t entries[2 * kInline] = {};  // sizes, then strides, where `plain`
  // The same as torch lays them out: the number of dimensions, room for sizes, room for strides; and all ones for each
  // word that is in use.
  static constexpr size_t kWords = 12;
  uint64_t words[kWords] = {}, asked[kWords] = {};
  std::vector<int64_t> size, stride;
  std::vector<PyObject*> methods;  // names of C methods that the tensor itself must not hide; interned, never let go of

  bool operator==(const TensorCheck&) const = default;
};

// NULL with an exception set when the object does not have the fields of TensorFacts.
std::unique_ptr<TensorCheck> parse_tensor_facts(PyObject* facts);
// Whether `value` is a tensor of these facts.  Runs no Python code unless tensor_runs_code says so.
bool tensor_holds(const TensorCheck& check, PyObject* value);
bool tensor_runs_code(const TensorCheck& check);
bool tensor_type_is_torchs(const TensorCheck& check);  // torch.Tensor or torch.nn.Parameter themselves
// Whether a tensor has a gradient, asked without the warning of its Python attribute.  -1 with an exception set.
int tensor_has_grad(PyObject* value);

}  // namespace framelift
