// Steps: what the function of an entry does, in a form that needs no frame.
#pragma once
#include <vector>

#include "reference.h"

namespace framelift {

// What an entry is given, in memory of the caller's: borrowed.
struct Given {
  PyObject* const* values;
  const std::vector<int32_t>& inputs;     // which of the values
  const std::vector<int32_t>& externals;  // likewise
  bool inputs_first;                      // inputs are the first values
};

// Asks Python for the steps of a function; None where it has no words for them.  NULL with an exception set that came
// from outside, a signal handler for instance; another one means None too, such as that the stack is full.
Ref make_steps(PyObject* function);
// Whether the object is steps for so many externals.
bool are_steps(PyObject* object, size_t externals);
// Whether they say what the function does: somebody may have given it another code.
bool steps_are_of(PyObject* steps, PyObject* function);
Ref run_steps(PyObject* steps, const Given& given);

bool init_entry_steps(PyObject* module);

}  // namespace framelift
