// The type framelift._core.Path, and how the native side makes paths.
#pragma once
#include <initializer_list>

#include "reference.h"

namespace framelift {

// The path of a class of paths that begins at an object whose identity is guarded (`const`).
Ref path_from(PyObject* type, PyObject* object);
// The path one step further; the same object for the same step.
Ref path_to(PyObject* path, PyObject* step, PyObject* key);
// What a path is made of, borrowed; the base of a root is NULL.
struct PathParts {
  PyObject *base, *step, *key;
};
bool take_apart(PyObject* path, PathParts* parts);  // false with an exception set: no path
// The collector need not look at an object that holds these alone, where none of them leads anywhere.
void untrack_simple(PyObject* object, std::initializer_list<PyObject*> held);
bool init_paths(PyObject* module);

}  // namespace framelift
