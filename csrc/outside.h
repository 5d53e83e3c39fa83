// Exceptions that come from outside of the program: of signal handlers, of other threads (PyThreadState_SetAsyncExc).
#pragma once
#include "frame_access.h"
#include "rehearsal.h"

namespace framelift {

// Whether a frame is that of a signal handler that the interpreter calls.
bool is_signal_handler(Frame* frame);
// Looks whether such frames may begin in this thread from now on, and notes it in the rehearsal (`has_handlers`).
void look_for_handlers(Rehearsal* r);
// It runs for real, in the midst of a rehearsal; what it raises ends the rehearsal and leaves it as itself.
PyObject* run_signal_handler(PyThreadState* ts, Frame* frame, int throwflag);
// Framelift's own code was called in a rehearsal and gave this, or none where it raised.  Notes an interrupt, and
// raises what struck from outside meanwhile and had to wait.
void left_own_code(Rehearsal* r, Ref& result);
// The exception that is set leaves the rehearsal as itself where it came from outside.
void note_outside(Rehearsal* r);
// A generator is resumed with the exception that is set.
int note_thrown(Rehearsal* r, PyThreadState* ts);
// Whether an exception that left a graph came from outside.
bool came_from_outside(PyObject* error);

}  // namespace framelift
