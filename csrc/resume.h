// What a break needs of the other parts, and they of it.
#pragma once
#include "rehearsal.h"

namespace framelift {

// The exception that takes a stopped twin's frame away; captured code never sees it.
void raise_stop();
bool is_stop();

// Whether an entry's result says "go on from here".
bool is_handover(PyObject* value);
// Go on with a frame of `function` from a handover (stolen) until it returns or raises.
PyObject* drive(PyObject* compiled, PyObject* function, PyObject* handover);

// hook.cpp: a function by its entries, or a capture, or plainly.  May return a handover.  *began: its own frame was
// run.
PyObject* run_looked_up(PyObject* compiled, PyObject* function, PyObject* const* args, Py_ssize_t n, bool* began);
// hook.cpp: the frame of `function` that begins next is to be the only holder of `values`; NULL: of nothing.
void give_to(PyObject* function, PyObject* values);

}  // namespace framelift
