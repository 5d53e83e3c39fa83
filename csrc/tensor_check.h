// Tensor guards: guard.kinds.TensorFacts prepared for comparing, and the comparison.
#pragma once
#include <Python.h>

#include <memory>

namespace framelift {

struct TensorCheck;
struct TensorCheckDeleter {
  void operator()(TensorCheck*) const;
};
}  // namespace framelift
template <>
struct std::default_delete<framelift::TensorCheck> : framelift::TensorCheckDeleter {};

namespace framelift {

// NULL with an exception set when the object does not have the fields of TensorFacts.
std::unique_ptr<TensorCheck> parse_tensor_facts(PyObject* facts);
// Whether `value` is a tensor of these facts.  Runs no Python code unless tensor_runs_code says so.
bool tensor_holds(const TensorCheck& check, PyObject* value);
bool tensor_runs_code(const TensorCheck& check);
PyObject* tensor_type(const TensorCheck& check);  // borrowed: the Python class, compared by identity

}  // namespace framelift
