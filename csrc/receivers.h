// What captured functions run on: which names of its class a function was found under, by whoever called it.
#pragma once
#include <Python.h>

namespace framelift {

struct Rehearsal;

// A function of captured code begins with these locals.  -1 with an exception set.
int note_receiver(Rehearsal* r, PyObject* function, PyObject* const* locals);

}  // namespace framelift
