// Guards of a rehearsal, added from the native side: as a call of framelift._core.GuardLog.
#pragma once
#include <Python.h>

namespace framelift {

bool is_guard_log(PyObject* object);
// Adds a guard once; no tag is NULL.  False with an exception set.
bool add_guard(PyObject* log, PyObject* origin, PyObject* kind, PyObject* value, PyObject* tag = nullptr);

// What a guard is made of, borrowed.
struct GuardParts {
  PyObject *origin, *kind, *value, *line;
};
bool take_apart(PyObject* guard, GuardParts* parts);  // false with an exception set: no guard

}  // namespace framelift
