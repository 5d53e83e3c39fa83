// The call rule (docs/internals/calls.md): what a call in captured code becomes.
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
bool init_class_facts(PyObject* module);    // class_facts.cpp
bool init_session_calls(PyObject* module);  // session_calls.cpp
// An attribute as captured code reads it.  New reference or NULL.
PyObject* read_attribute(Rehearsal* r, PyObject* obj, PyObject* name);
// Whether a text or bytes show the address of an object.
bool shows_address(PyObject* text);
// probes.cpp: the classes of symbolic numbers, and those whose instances' attributes captured code does not write to.

}  // namespace framelift
