// The type framelift._core.Path.
#pragma once
#include <Python.h>

namespace framelift {

bool init_paths(PyObject* module);

}  // namespace framelift
