// The call rule (design, section 6): what a call in captured code becomes.
#pragma once
#include "rehearsal.h"

namespace framelift {

bool is_symbolic_number(PyObject* value);
bool is_view(PyObject* value);
// New reference or NULL.  `args` are positional then keyword values, as in the vectorcall protocol (no offset flag).
PyObject* dispatch(Rehearsal* r, PyObject* callable, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames);
// The same with a tuple and a dict (or NULL).
PyObject* dispatch_spread(Rehearsal* r, PyObject* callable, PyObject* args, PyObject* kwargs);
bool init_calls(PyObject* module);
bool init_looks(PyObject* module);  // looks.cpp
bool init_session_calls(PyObject* module);
// An attribute as captured code reads it.  New reference or NULL.
PyObject* read_attribute(Rehearsal* r, PyObject* obj, PyObject* name);

}  // namespace framelift
