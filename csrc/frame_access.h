// Access to interpreter frames and code objects: one place per fact that differs between CPython versions.
#pragma once
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#undef _PyGC_FINALIZED  // a macro there, a function in pycore_gc.h
#define Py_BUILD_CORE 1
#include <internal/pycore_code.h>
#include <internal/pycore_frame.h>
#include <internal/pycore_gc.h>
#if PY_VERSION_HEX >= 0x030e0000
#include <internal/pycore_interpframe_structs.h>
#endif
#undef Py_BUILD_CORE

#include <vector>

namespace framelift {

using Frame = struct _PyInterpreterFrame;

// ---- slots ----

// From 3.14 on a slot holds a tagged word: a reference of its own, one that somebody else keeps alive for it, or a
// number.  Everything else in the core sees objects.
#if PY_VERSION_HEX >= 0x030e0000
using Slot = _PyStackRef;
constexpr uintptr_t kNotOwned = 1, kNumber = 3;  // as in pycore_stackref.h, for builds with the GIL

inline PyObject* object_in(Slot slot) { return (PyObject*)(slot.bits & ~kNotOwned); }
inline Slot slot_of(PyObject* stolen) { return {.bits = (uintptr_t)stolen | (stolen->ob_flags & kNotOwned)}; }
inline void clear_slot(Slot& slot) {
  Slot before = slot;
  slot.bits = kNotOwned;
  if (!(before.bits & kNotOwned)) Py_DECREF((PyObject*)before.bits);
}
inline bool is_number(Slot slot) { return (slot.bits & kNumber) == kNumber; }
inline Py_ssize_t number_in(Slot slot) { return (Py_ssize_t)slot.bits >> 2; }
inline Slot slot_of_number(Py_ssize_t number) { return {.bits = (uintptr_t)number << 2 | kNumber}; }
#else
using Slot = PyObject*;
inline PyObject* object_in(Slot slot) { return slot; }
inline Slot slot_of(PyObject* stolen) { return stolen; }
inline void clear_slot(Slot& slot) { Py_CLEAR(slot); }
inline bool is_number(Slot) { return false; }
inline Py_ssize_t number_in(Slot) { return -1; }
#endif

// What is in a slot of a frame: a variable, or behind those its stack.  Borrowed; NULL where it is empty.
inline PyObject* frame_value(Frame* f, Py_ssize_t at) { return object_in(f->localsplus[at]); }

// The first `count` variables of a frame as an array of objects, borrowed.
struct FrameValues {
#if PY_VERSION_HEX >= 0x030e0000
  std::vector<PyObject*> values;
  FrameValues(Frame* f, Py_ssize_t count) : values((size_t)count) {
    for (Py_ssize_t i = 0; i < count; i++) values[(size_t)i] = frame_value(f, i);
  }
  PyObject* const* data() const { return values.data(); }
#else
  PyObject* const* values;
  FrameValues(Frame* f, Py_ssize_t) : values(f->localsplus) {}
  PyObject* const* data() const { return values; }
#endif
};

// ---- frames ----

#if PY_VERSION_HEX >= 0x030e0000
inline PyCodeObject* frame_code(Frame* f) { return (PyCodeObject*)object_in(f->f_executable); }
inline PyFunctionObject* frame_function(Frame* f) { return (PyFunctionObject*)object_in(f->f_funcobj); }
inline Frame* current_frame(PyThreadState* ts) { return ts->current_frame; }
#elif PY_VERSION_HEX >= 0x030d0000
inline PyCodeObject* frame_code(Frame* f) { return _PyFrame_GetCode(f); }
inline PyFunctionObject* frame_function(Frame* f) { return (PyFunctionObject*)f->f_funcobj; }
inline Frame* current_frame(PyThreadState* ts) { return ts->current_frame; }
#elif PY_VERSION_HEX >= 0x030c0000
inline PyCodeObject* frame_code(Frame* f) { return f->f_code; }
inline PyFunctionObject* frame_function(Frame* f) { return (PyFunctionObject*)f->f_funcobj; }
inline Frame* current_frame(PyThreadState* ts) { return ts->cframe->current_frame; }
#else
inline PyCodeObject* frame_code(Frame* f) { return f->f_code; }
inline PyFunctionObject* frame_function(Frame* f) { return f->f_func; }
inline Frame* current_frame(PyThreadState* ts) { return ts->cframe->current_frame; }
#endif

// Where a call has the NULL that says it is no method's: above its callable, or below it.
constexpr bool kNullAboveCallable = PY_VERSION_HEX >= 0x030d0000;

// The code unit of the instruction a frame is at.
#if PY_VERSION_HEX >= 0x030d0000
inline int frame_unit(Frame* f) { return (int)(f->instr_ptr - _PyCode_CODE(frame_code(f))); }
#else
inline int frame_unit(Frame* f) { return (int)(f->prev_instr - _PyCode_CODE(f->f_code)); }
#endif

// Whether a frame has not begun, or is none of Python code.
inline bool is_incomplete(Frame* f) {
#if PY_VERSION_HEX >= 0x030e0000
  if (f->owner >= FRAME_OWNED_BY_INTERPRETER) return true;
  return f->owner != FRAME_OWNED_BY_GENERATOR && frame_unit(f) < frame_code(f)->_co_firsttraceable;
#else
  return _PyFrame_IsIncomplete(f);
#endif
}

// A generator that is not running ends here: it counts as completed, so that nothing of it runs when it dies.
inline void end_generator(PyObject* object) {
  if (!object || !PyGen_CheckExact(object)) return;
  PyGenObject* generator = (PyGenObject*)object;
  if (generator->gi_frame_state < FRAME_EXECUTING) generator->gi_frame_state = FRAME_COMPLETED;
}

// The exception that a generator is resumed with, for CPython raises it from the RESUME behind the yield, where it also
// looks for signals; borrowed.  Before 3.13 it has the yield's place: NULL.
inline PyObject* thrown_at_resume(PyThreadState* ts) {
#if PY_VERSION_HEX >= 0x030d0000
  return ts->current_exception;
#else
  (void)ts;
  return nullptr;
#endif
}

// The exception being handled in this thread, as `except` blocks see it: the slot itself.
inline PyObject** handled_at(PyThreadState* ts) { return &ts->exc_info->exc_value; }

// What is being handled is the same afterwards, however frames were left.
struct HandledScope {
  PyObject* before;
  HandledScope() : before(Py_XNewRef(*handled_at(PyThreadState_Get()))) {}
  ~HandledScope() { Py_XSETREF(*handled_at(PyThreadState_Get()), before); }
  void put_back() { Py_XSETREF(*handled_at(PyThreadState_Get()), Py_XNewRef(before)); }
};

// The depth that Python still allows here, so much more or less of it.
inline void more_depth(int n) {
#if PY_VERSION_HEX >= 0x030c0000
  PyThreadState_Get()->py_recursion_remaining += n;
#else
  PyThreadState_Get()->recursion_remaining += n;
#endif
}

inline int depth_left(PyThreadState* ts) {
#if PY_VERSION_HEX >= 0x030c0000
  return ts->py_recursion_remaining;
#else
  return ts->recursion_remaining;
#endif
}

// Framelift's own Python code, which stands where plain Python has no frame, must not be what a deep program fails at:
// it is given depth of its own while this lives.
struct ExtraDepth {
  static constexpr int kCapture = 500;  // of framelift and torch
  static constexpr int kEntry = 100;    // of an entry and its graph
  static constexpr int kStep = 50;      // of a step between two parts of a frame
  int frames;
  explicit ExtraDepth(int n) : frames(n) { more_depth(frames); }
  ExtraDepth(const ExtraDepth&) = delete;
  ~ExtraDepth() { more_depth(-frames); }
};

// CPython 3.12 and 3.13 count calls from C apart, and allow few of them; a frame that comes by a hook is one, though
// the program called it from Python.  Python's own limit goes on to hold for it.
struct CalledFromPython {
#if PY_VERSION_HEX >= 0x030c0000 && PY_VERSION_HEX < 0x030e0000
  static constexpr int kFew = 150, kMostFrames = 2000;  // beyond these C's stack itself may be too small
  static inline thread_local int frames = 0;
  PyThreadState* ts;
  int given;
  explicit CalledFromPython(PyThreadState* state)
      : ts(state),
        given(++frames <= kMostFrames && state->c_recursion_remaining < kFew ? kFew - state->c_recursion_remaining
                                                                             : 0) {
    ts->c_recursion_remaining += given;
  }
  ~CalledFromPython() {
    ts->c_recursion_remaining -= given;
    frames--;
  }
#else
  explicit CalledFromPython(PyThreadState*) {}
#endif
};

inline int parameter_count(PyCodeObject* code) {
  return code->co_argcount + code->co_kwonlyargcount + !!(code->co_flags & CO_VARARGS) +
         !!(code->co_flags & CO_VARKEYWORDS);
}

// A frame that belongs to a generator already running cannot be replaced.
inline bool is_generator_frame(Frame* f) { return f->owner == FRAME_OWNED_BY_GENERATOR; }

// End `frame` with `result` (stolen; NULL with an exception set): what the evaluator would have left behind.
// From 3.12 on the evaluator owns the frame's clean-up, so the frame itself runs `return local0`, or its throw path.
inline PyObject* finish_frame(PyThreadState* ts, Frame* frame, PyObject* result, PyObject* trampoline) {
#if PY_VERSION_HEX < 0x030c0000
  (void)ts;
  (void)frame;
  (void)trampoline;
  return result;
#else
#if PY_VERSION_HEX >= 0x030d0000
  if (!result) frame->instr_ptr = _PyCode_CODE(frame_code(frame)) - 1;  // not begun: no traceback has it
#endif
  if (!result) return _PyEval_EvalFrameDefault(ts, frame, 1);
  PyCodeObject* old = frame_code(frame);
  PyCodeObject* code = (PyCodeObject*)trampoline;
  for (int i = 0; i < old->co_nlocalsplus; i++) clear_slot(frame->localsplus[i]);
  frame->localsplus[0] = slot_of(result);
#if PY_VERSION_HEX >= 0x030e0000
  clear_slot(frame->f_executable);
  frame->f_executable = slot_of(Py_NewRef(trampoline));
  frame->instr_ptr = _PyCode_CODE(code);
  frame->stackpointer = frame->localsplus + code->co_nlocalsplus;
#elif PY_VERSION_HEX >= 0x030d0000
  frame->f_executable = Py_NewRef(trampoline);
  frame->instr_ptr = _PyCode_CODE(code);
#else
  frame->f_code = (PyCodeObject*)Py_NewRef(trampoline);
  frame->prev_instr = _PyCode_CODE(code) - 1;
#endif
#if PY_VERSION_HEX < 0x030e0000
  frame->stacktop = code->co_nlocalsplus;
  Py_DECREF(old);
#endif
  return _PyEval_EvalFrameDefault(ts, frame, 0);
#endif
}

#if PY_VERSION_HEX >= 0x030c0000
inline Py_ssize_t request_code_extra(freefunc f) { return PyUnstable_Eval_RequestCodeExtraIndex(f); }
inline int get_code_extra(PyObject* c, Py_ssize_t i, void** p) { return PyUnstable_Code_GetExtra(c, i, p); }
inline int set_code_extra(PyObject* c, Py_ssize_t i, void* p) { return PyUnstable_Code_SetExtra(c, i, p); }
#else
inline Py_ssize_t request_code_extra(freefunc f) { return _PyEval_RequestCodeExtraIndex(f); }
inline int get_code_extra(PyObject* c, Py_ssize_t i, void** p) { return _PyCode_GetExtra(c, i, p); }
inline int set_code_extra(PyObject* c, Py_ssize_t i, void* p) { return _PyCode_SetExtra(c, i, p); }
#endif

}  // namespace framelift
