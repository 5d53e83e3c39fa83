// Checks on what tensors hold, which remember the bytes for which they held.
#pragma once
#include <Python.h>

namespace framelift {

// Whether a check is such a one.
bool is_remembered(PyObject* check);
// Whether the tensor holds the bytes for which the check last held.  Runs no code and allocates nothing.
bool is_as_remembered(PyObject* check, PyObject* tensor);

bool init_remembered(PyObject* module);

}  // namespace framelift
