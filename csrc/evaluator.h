// The interpreter's frame evaluator (PEP 523) is one for the process, and others want it too: TorchDynamo, debuggers.
// Who has it, who had it before, and what is handed on to whom is decided here; what we do with a frame, in hook.cpp.
#pragma once
#include <Python.h>

#include "frame_access.h"

namespace framelift {

// The function that is ours.
void set_evaluator(_PyFrameEvalFunction ours);

// Frames that are not ours to handle go on to the evaluator that was there before us, or to CPython's own.
PyObject* pass_on(PyThreadState* ts, Frame* frame, int throwflag);

// How often frames may have been evaluated past us while somebody needed the hook.
extern long hook_losses;
// Puts us in front again where somebody else is, or nobody.
void hold_hook();
// Framelift's own code runs, and nobody needs the hook until `hold_hook`: calls between Python functions are faster
// without one.
void rest_hook();
// Called first for each frame: true for the one that only asks whether it comes to us.
bool is_chain_test();
// Nobody needs the hook: whoever put us back when he left is done with it.
void release_idle_hook();

inline bool hook_is(_PyFrameEvalFunction f) {
  return _PyInterpreterState_GetEvalFrameFunc(PyThreadState_Get()->interp) == f;
}

}  // namespace framelift
