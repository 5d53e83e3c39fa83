// Checks on what tensors hold, which remember the bytes for which they held.
#pragma once
#include <Python.h>

namespace framelift {

bool init_remembered(PyObject* module);

}  // namespace framelift
