// Which of several entries a call most likely belongs to, judged by what its arguments look like.
#pragma once
#include <Python.h>

#include <cstdint>

namespace framelift {

// The entry that served the last call that looked like this one.  Addresses are only compared; guards decide.
struct Hint {
  const void* entries = nullptr;
  const void* entry = nullptr;
  uint64_t look = 0;
  Py_ssize_t place = 0;
};

// A number for what entries most often differ in: the first argument's identity, kinds, dtypes and sizes of tensors,
// small numbers, texts and constants by identity, lengths of containers, and whether gradients are on.  It runs no code
// of the program.
uint64_t look_of(PyObject* const* locals, Py_ssize_t n);

Hint& hint_for(const void* entries, uint64_t look);

}  // namespace framelift
