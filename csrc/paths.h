// The type framelift._core.Path, and how the native side makes paths.
#pragma once
#include "reference.h"

namespace framelift {

// The path of a class of paths that begins at an object whose identity is guarded (`const`).
Ref path_from(PyObject* type, PyObject* object);
// The path one step further; the same object for the same step.
Ref path_to(PyObject* path, PyObject* step, PyObject* key);
bool init_paths(PyObject* module);

}  // namespace framelift
