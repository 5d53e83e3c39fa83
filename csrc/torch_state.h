// A snapshot of the torch state that decides what a graph means: grad mode, autocast, default dtype, active modes ...
#pragma once
#include <Python.h>

#include <cstdint>

namespace framelift {

struct TorchState {
  static constexpr int kAutocastDevices = 8;
  uint64_t included = 0,
           excluded = 0;  // the thread's dispatch keys: autocast, inference mode, functorch, dispatch modes
  int8_t autocast_dtype[kAutocastDevices] = {};
  int8_t default_dtype = 0;
  uint8_t precision[2] = {};  // of float32 on CUDA: products, convolutions
  uint32_t flags = 0;
  int32_t function_modes = 0, dispatch_modes = 0, function_disabled = 0;
  uint64_t patches = 0;  // which of torch's functions were replaced; 0: none

  static TorchState now();
  // Whether the present state is this one.  Never while a dispatch mode is active that wants to see into what is
  // compiled; which torch-function modes are is guarded apart.
  bool matches() const;
  // Makes the present state this one.  Modes that were there and are gone cannot be put back from here.
  void put_back() const;
  bool operator==(const TorchState& other) const = default;
};

// NULL, without an exception, when the object is not the result of torch_state().
const TorchState* torch_state_of(PyObject* object);
bool init_torch_state(PyObject* module);

}  // namespace framelift
