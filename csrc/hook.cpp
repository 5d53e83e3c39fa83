// The PEP 523 hook: what happens to a frame depends on the thread's mode.  Rehearsing, its twin runs; capturing, a cached
// entry runs or the driver is asked; otherwise CPython does what it always does.
#include <vector>

#include "orders.h"
#include "resume.h"
#include "frame_access.h"

namespace framelift {

static thread_local ThreadState tls;
ThreadState& thread_state() { return tls; }

static _PyFrameEvalFunction previous_evaluator = nullptr;
static long users = 0;                  // scopes that need the hook, over all threads (under the GIL)
static Py_ssize_t extra_index = -1;
static PyObject* resolve_code = nullptr;   // Python: code -> what to do with its frames while rehearsing
static PyObject* capture_frame = nullptr;  // Python: (compiled, function, locals) -> bool
static PyObject* trampoline = nullptr;     // code of `lambda r: r`
static PyObject *name_note_receiver, *name_note_function, *name_note_class, *name_refuse, *name_frames, *name_answered;

// What the hook knows about a code object, kept with the code object itself.
struct CodeInfo {
  enum Kind { Twin, Own, Handler, Rewritten, Refused, ByFunction } kind;
  PyObject* payload;  // owned: twin code, handler, the text of the refusal, or (handlers by function, twin code)
};
static void free_info(void* p) {
  CodeInfo* info = (CodeInfo*)p;
  if (!info) return;
  Py_XDECREF(info->payload);
  delete info;
}

static CodeInfo* get_info(PyObject* code) {
  void* p = nullptr;
  if (get_code_extra(code, extra_index, &p) < 0) PyErr_Clear();
  return (CodeInfo*)p;
}

static void mark_twin(PyObject* twin) {
  if (!get_info(twin)) set_code_extra(twin, extra_index, new CodeInfo{CodeInfo::Twin, nullptr});
}

static CodeInfo* resolve(Rehearsal* r, PyObject* code) {
  CodeInfo* info = get_info(code);
  if (info) return info;
  PyObject* answer;
  {
    PausedScope paused;
    answer = PyObject_CallOneArg(resolve_code, code);
  }
  if (!answer) {
    note_interrupt(r);
    return nullptr;
  }
  CodeInfo::Kind kind = CodeInfo::Handler;
  if (PyCode_Check(answer)) {
    kind = CodeInfo::Rewritten;
    mark_twin(answer);
  } else if (PyTuple_Check(answer)) {
    kind = CodeInfo::ByFunction;
    mark_twin(PyTuple_GET_ITEM(answer, 1));
  } else if (answer == Py_None) {
    kind = CodeInfo::Own;
  } else if (PyUnicode_Check(answer)) {
    kind = CodeInfo::Refused;
  }
  info = new CodeInfo{kind, answer};
  if (set_code_extra(code, extra_index, info) < 0) {
    free_info(info);
    return nullptr;
  }
  return info;
}

int note_class(Rehearsal* r, PyObject* cls) {
  if (!r->classes.insert(cls).second) return 0;
  PyObject* args[] = {cls};
  PyObject* answer = ask_session(r, name_note_class, args, 1);
  if (!answer) return -1;
  Py_DECREF(answer);
  return 0;
}

int note_function(Rehearsal* r, PyObject* function) {
  if (r->functions.count(function) || r->internal.count(function)) return 0;
  r->functions[function];
  PyObject* args[] = {function};
  PyObject* answer = ask_session(r, name_note_function, args, 1);
  if (!answer) return -1;
  if (PyTuple_Check(answer)) {  // ((slot, original, imported), ...)
    std::vector<Default> defaults;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(answer); i++) {
      PyObject* row = PyTuple_GET_ITEM(answer, i);
      defaults.push_back({(int)PyLong_AsLong(PyTuple_GET_ITEM(row, 0)), PyTuple_GET_ITEM(row, 1),
                          Py_NewRef(PyTuple_GET_ITEM(row, 2))});
    }
    r->functions[function] = std::move(defaults);
  } else if (answer != Py_None) {  // it bears a mark: a handler runs in its place
    Py_XSETREF(r->marked[function], Py_NewRef(answer));
  }
  Py_DECREF(answer);
  return 0;
}

// A frame's locals as the arguments of a call: *args and **kwargs are spread again.
static PyObject* call_handler(PyObject* handler, PyObject* session, PyObject* function, PyObject* const* locals) {
  PyCodeObject* code = (PyCodeObject*)PyFunction_GET_CODE(function);
  int n = code->co_argcount, k = code->co_kwonlyargcount, next = n + k;
  PyObject* spread = code->co_flags & CO_VARARGS ? locals[next++] : nullptr;
  PyObject* extra = code->co_flags & CO_VARKEYWORDS ? locals[next++] : nullptr;
  Py_ssize_t more = spread ? PyTuple_GET_SIZE(spread) : 0;
  PyObject* args = PyTuple_New(n + more);
  PyObject* kwargs = extra ? PyDict_Copy(extra) : PyDict_New();
  PyObject* names = PyCode_GetVarnames(code);
  PyObject* result = nullptr;
  if (args && kwargs && names) {
    for (int i = 0; i < n; i++) PyTuple_SET_ITEM(args, i, Py_NewRef(locals[i]));
    for (Py_ssize_t i = 0; i < more; i++) PyTuple_SET_ITEM(args, n + i, Py_NewRef(PyTuple_GET_ITEM(spread, i)));
    bool ok = true;
    for (int i = 0; ok && i < k; i++) ok = PyDict_SetItem(kwargs, PyTuple_GET_ITEM(names, n + i), locals[n + i]) == 0;
    PyObject* stack[] = {session, function, args, kwargs};
    if (ok) result = PyObject_Vectorcall(handler, stack, 4, nullptr);
  }
  Py_XDECREF(args);
  Py_XDECREF(kwargs);
  Py_XDECREF(names);
  return result;
}

// `names`: the namespace of a class body (or exec'd code), which is not the frame's own array of locals.
static PyObject* run_twin(Rehearsal* r, PyObject* function, PyObject* twin, PyObject* const* locals, int n, PyObject* names) {
  PyFunctionObject* original = (PyFunctionObject*)function;
  if (!(((PyCodeObject*)twin)->co_flags & CO_OPTIMIZED))
    return PyEval_EvalCodeEx(twin, original->func_globals, names, nullptr, 0, nullptr, 0, nullptr, 0, nullptr, original->func_closure);
  PyObject* callable = PyFunction_New(twin, original->func_globals);
  if (!callable) return nullptr;
  // Generators take their names from the function, which may have been given others than its code's.
  Py_SETREF(((PyFunctionObject*)callable)->func_name, Py_NewRef(original->func_name));
  Py_SETREF(((PyFunctionObject*)callable)->func_qualname, Py_NewRef(original->func_qualname));
  if (original->func_closure) {
    PyFunction_SetClosure(callable, original->func_closure);
  }
  auto found = r->functions.find(function);
  PyObject* result;
  if (found != r->functions.end() && !found->second.empty()) {
    std::vector<PyObject*> copy(locals, locals + n);
    for (auto& d : found->second)
      if (copy[d.slot] == d.original) copy[d.slot] = d.imported;
    result = PyObject_Vectorcall(callable, copy.data(), n, nullptr);
  } else {
    result = PyObject_Vectorcall(callable, locals, n, nullptr);
  }
  Py_DECREF(callable);
  return result;
}

// The code's parameter number 0 is `self` of a method that C code may have looked up: its class is then a guarded fact.
static int note_receiver(Rehearsal* r, PyObject* function, PyObject* const* locals) {
  PyCodeObject* code = (PyCodeObject*)PyFunction_GET_CODE(function);
  if (code->co_argcount == 0 || !locals[0]) return 0;
  PyTypeObject* type = Py_TYPE(locals[0]);
  if (!(type->tp_flags & Py_TPFLAGS_HEAPTYPE)) return 0;
  if (note_class(r, (PyObject*)type) < 0) return -1;
  if (!r->receivers.insert({(PyObject*)type, function}).second) return 0;
  PyObject* args[] = {(PyObject*)type, function};
  PyObject* done = ask_session(r, name_note_receiver, args, 2);
  Py_XDECREF(done);
  return done ? 0 : -1;
}

bool is_symbolic_number(PyObject* value);  // calls.cpp
PyObject* open_coroutine(Rehearsal* r);  // one that waits or was never started; borrowed

static PyObject* rehearse_frame(PyThreadState* ts, Frame* frame, int throwflag) {
  Rehearsal* r = current_rehearsal();
  PyObject* code = (PyObject*)frame_code(frame);
  CodeInfo* info = resolve(r, code);
  if (!info) return _PyEval_EvalFrameDefault(ts, frame, 1);
  if (info->kind == CodeInfo::Twin) {
    if (!r->root_frame && code == r->root_code) r->root_frame = frame;
    Times::Frame timed(r->times, code);
    return _PyEval_EvalFrameDefault(ts, frame, throwflag);
  }
  if (info->kind == CodeInfo::Own) {
    PyObject* result;
    {
      PausedScope paused;
      result = _PyEval_EvalFrameDefault(ts, frame, throwflag);
    }
    if (!result) note_interrupt(r);
    return result;
  }
  if (throwflag) return _PyEval_EvalFrameDefault(ts, frame, throwflag);
  const int waits = CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR;
  if (frame_code(frame)->co_flags & waits) r->generators.push_back({root_unit(r), r->root_probes});
  bool refused = info->kind == CodeInfo::Refused || is_generator_frame(frame);
  // An event loop hears of each asynchronous generator from C code.
  if (frame_code(frame)->co_flags & CO_ASYNC_GENERATOR) refused |= ts->async_gen_firstiter || ts->async_gen_finalizer;
  PyObject* function = (PyObject*)frame_function(frame);
  Py_INCREF(function);
  PyObject* result = nullptr;
  if (r->interrupt) {
    PyErr_SetObject((PyObject*)Py_TYPE(r->interrupt), r->interrupt);
  } else if (refused) {
    PyObject* args[] = {code, info->payload ? info->payload : Py_None};
    result = ask_session(r, name_refuse, args, 2);
  } else if (note_function(r, function) == 0 && note_receiver(r, function, frame->localsplus) == 0) {
    PyObject* handler = info->kind == CodeInfo::Handler ? info->payload : nullptr;
    PyObject* twin = info->payload;
    auto marked = r->marked.find(function);
    if (marked != r->marked.end()) {
      handler = marked->second;
    } else if (info->kind == CodeInfo::ByFunction) {
      handler = PyDict_GetItemWithError(PyTuple_GET_ITEM(info->payload, 0), function);
      twin = PyTuple_GET_ITEM(info->payload, 1);
    }
    if (handler) {
      {
        PausedScope paused;
        result = call_handler(handler, r->session, function, frame->localsplus);
      }
      if (!result) note_interrupt(r);
    } else {
      result = run_twin(r, function, twin, frame->localsplus, parameter_count(frame_code(frame)), frame->f_locals);
      if (result && is_symbolic_number(result) && frame_code(frame)->co_argcount > 0 && frame->localsplus[0]) {
        // A special method that C code called: it takes nothing but numbers of its own types.
        PyObject* asked[] = {function, frame->localsplus[0], result};
        PyObject* plain = ask_session(r, name_answered, asked, 3);
        Py_SETREF(result, plain);
      }
      if (result && (PyGen_CheckExact(result) || PyCoro_CheckExact(result) || PyAsyncGen_CheckExact(result)) && frame_code(frame)->co_flags & waits) {
        // A coroutine lives to the end: whether it was ever awaited, and what it does when it is dropped, is looked at there.
        PyObject* reference = PyCoro_CheckExact(result) ? Py_NewRef(result) : PyWeakref_NewRef(result, nullptr);
        if (reference) r->made_generators.push_back(reference);
        else PyErr_Clear();
      }
    }
  }
  Py_DECREF(function);
  return finish_frame(ts, frame, result, trampoline);
}

void more_depth(int n);   // resume.cpp

// Capture and RunOnly: a cached entry for a function's frame, or a capture.  As try_entries; 0 and 2 mean plain Python.
// Entries are kept per code, and several functions may share one code, so the function is handed over as one more local.
// *muted: the function is a wrapper that switches capturing off for all it calls.
static int look_up(PyObject* context, PyObject* function, PyObject* const* locals, int n, Mode mode, PyObject** result, bool* muted) {
  PyObject* code = PyFunction_GET_CODE(function);
  std::vector<PyObject*> all(locals, locals + n);
  all.push_back(function);
  int verdict = 0;
  tls.mode = Mode::Paused;
  PyObject* frames = PyObject_GetAttr(context, name_frames);
  PyObject* entries = frames ? Py_XNewRef(PyDict_GetItemWithError(frames, code)) : nullptr;
  if (!frames || (!entries && PyErr_Occurred())) verdict = -1;
  if (verdict == 0 && entries && entries != Py_None && entries != Py_False) verdict = try_entries(entries, all.data(), n + 1, result);
  if (verdict == 0 && entries != Py_None && entries != Py_False && mode == Mode::Capture) {
    PyObject* tuple = PyTuple_New(n + 1);
    for (int i = 0; tuple && i <= n; i++) PyTuple_SET_ITEM(tuple, i, Py_NewRef(all[i]));
    PyObject* args[] = {context, function, tuple};
    constexpr int kDepthOfCapture = 500;   // of framelift and torch
    more_depth(kDepthOfCapture);
    PyObject* captured = tuple ? PyObject_Vectorcall(capture_frame, args, 3, nullptr) : nullptr;
    more_depth(-kDepthOfCapture);
    Py_XDECREF(tuple);
    if (!captured) {
      verdict = -1;
    } else if (captured == Py_True) {
      Py_XDECREF(entries);
      entries = Py_XNewRef(PyDict_GetItemWithError(frames, code));
      if (entries) verdict = try_entries(entries, all.data(), n + 1, result);
    }
    Py_XDECREF(captured);
  }
  if (verdict == 0 && frames && !entries) entries = Py_XNewRef(PyDict_GetItemWithError(frames, code));
  *muted = entries == Py_False;
  tls.mode = mode;
  Py_XDECREF(entries);
  Py_XDECREF(frames);
  return verdict;
}

static PyObject* lookup_frame(PyThreadState* ts, Frame* frame) {
  PyObject* context = Py_NewRef(tls.context);
  PyObject* function = Py_NewRef((PyObject*)frame_function(frame));
  PyObject* result = nullptr;
  Mode mode = tls.mode;
  bool muted = false;
  int verdict = look_up(context, function, frame->localsplus, parameter_count(frame_code(frame)), mode, &result, &muted);
  if (verdict == 1 && is_handover(result)) {
    result = drive(context, function, result);
    if (!result) verdict = -1;
  }
  Py_DECREF(function);
  Py_DECREF(context);
  if (verdict == 1 || verdict < 0) return finish_frame(ts, frame, verdict == 1 ? result : nullptr, trampoline);
  if (!muted) {
    PyObject* failure = take_failure();
    result = _PyEval_EvalFrameDefault(ts, frame, 0);
    tell_failure(failure, &result);
    return result;
  }
  tls.mode = Mode::Off;
  result = _PyEval_EvalFrameDefault(ts, frame, 0);
  tls.mode = mode;
  return result;
}

PyObject* run_looked_up(PyObject* compiled, PyObject* function, PyObject* const* args, Py_ssize_t n) {
  PyObject* result = nullptr;
  HookScope hook;
  ThreadState before = tls;
  tls.context = compiled;
  bool muted = false;
  int verdict = look_up(compiled, function, args, (int)n, before.mode == Mode::RunOnly ? Mode::RunOnly : Mode::Capture, &result, &muted);
  tls = before;
  if (verdict == 1 || verdict < 0) return result;
  PyObject* failure = take_failure();
  result = run_plain(compiled, function, args, (size_t)n, nullptr);
  tell_failure(failure, &result);
  return result;
}

// A frame that is gone on with is the only holder of its values: what it lets go of dies at once.  So the caller's references end when the frame
// begins.  `drive` says whose they are (resume.cpp).
struct Giving {
  PyObject *function = nullptr, *values = nullptr;  // borrowed; a tuple that nobody else knows
};
static thread_local Giving giving;

void give_to(PyObject* function, PyObject* values) { giving = {function, values}; }

static void give(Frame* frame) {
  if (!giving.values || (PyObject*)frame_function(frame) != giving.function) return;
  PyObject* values = giving.values;
  giving = {};
  for (Py_ssize_t i = 0, n = PyTuple_GET_SIZE(values); i < n; i++) {
    PyObject* value = PyTuple_GET_ITEM(values, i);
    PyTuple_SET_ITEM(values, i, Py_NewRef(Py_None));
    Py_DECREF(value);
  }
}

// CPython 3.12 counts calls from C apart, and allows few of them; a frame that comes by a hook is one, though the program called it from Python.
// Python's own limit goes on to hold for it.
struct CalledFromPython {
#if PY_VERSION_HEX >= 0x030c0000
  static constexpr int kFew = 150, kMostFrames = 2000;   // beyond these C's stack itself may be too small
  static thread_local int frames;
  PyThreadState* ts;
  int given;
  explicit CalledFromPython(PyThreadState* state)
      : ts(state), given(++frames <= kMostFrames && state->c_recursion_remaining < kFew ? kFew - state->c_recursion_remaining : 0) {
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
#if PY_VERSION_HEX >= 0x030c0000
thread_local int CalledFromPython::frames = 0;
#endif

static PyObject* evaluate(PyThreadState* ts, Frame* frame, int throwflag) {
  CalledFromPython counted(ts);
  switch (tls.mode) {
    case Mode::Rehearse:
      if (current_rehearsal()) return rehearse_frame(ts, frame, throwflag);
      break;
    case Mode::Capture:
    case Mode::RunOnly:
      if (throwflag || is_generator_frame(frame) || !tls.context) break;
      if ((PyObject*)frame_code(frame) == tls.skip_code) {
        tls.skip_code = nullptr;
        give(frame);
        break;
      }
      if (frame_code(frame)->co_flags & (CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR)) break;
      if (!(frame_code(frame)->co_flags & CO_OPTIMIZED)) break;  // a class body or a module: its names are entries of a dictionary
      return lookup_frame(ts, frame);
    default:
      break;
  }
  _PyFrameEvalFunction next = previous_evaluator && previous_evaluator != evaluate ? previous_evaluator : _PyEval_EvalFrameDefault;
  return next(ts, frame, throwflag);
}

HookScope::HookScope() {
  if (users++ == 0) {
    PyInterpreterState* interpreter = PyInterpreterState_Get();
    previous_evaluator = _PyInterpreterState_GetEvalFrameFunc(interpreter);
    _PyInterpreterState_SetEvalFrameFunc(interpreter, evaluate);
  }
}
HookScope::~HookScope() {
  if (--users == 0) _PyInterpreterState_SetEvalFrameFunc(PyInterpreterState_Get(), previous_evaluator);
}

PyObject* run_plain(PyObject* compiled, PyObject* function, PyObject* const* args, size_t nargsf, PyObject* kwnames) {
  HookScope hook;
  ThreadState before = tls;
  tls.mode = before.mode == Mode::RunOnly ? Mode::RunOnly : Mode::Capture;
  tls.context = compiled;
  tls.skip_code = PyFunction_Check(function) ? PyFunction_GET_CODE(function) : nullptr;
  PyObject* result = PyObject_Vectorcall(function, args, nargsf, kwnames);
  tls = before;
  return result;
}

// call_plainly(callable, args, kwargs): the callable's own frame is not looked up, those below it are.
static PyObject* call_plainly(PyObject*, PyObject* const* a, Py_ssize_t n) {
  if (n != 3 || !PyTuple_Check(a[1]) || !PyDict_Check(a[2])) return PyErr_Format(PyExc_TypeError, "call_plainly(callable, args, kwargs)");
  PyObject* function = PyMethod_Check(a[0]) ? PyMethod_GET_FUNCTION(a[0]) : a[0];
  PyObject* before = tls.skip_code;
  if (PyFunction_Check(function)) tls.skip_code = PyFunction_GET_CODE(function);
  PyObject* result = PyObject_Call(a[0], a[1], a[2]);
  tls.skip_code = before;
  return result;
}

// rehearse(session, function, locals, twin=None, stop_at=-1): run the function's twin on imported locals, as the root of a
// rehearsal; a given twin stops where its root has called that many probes.
static PyObject* rehearse(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if ((n != 3 && n != 5) || !PyFunction_Check(args[1]) || !PyTuple_Check(args[2])) {
    PyErr_SetString(PyExc_TypeError, "rehearse(session, function, locals)");
    return nullptr;
  }
  if (current_rehearsal()) {
    PyErr_SetString(PyExc_RuntimeError, "a rehearsal is already running in this thread");
    return nullptr;
  }
  HookScope hook;
  HandledScope handled;
  WalksScope walks;
  Rehearsal rehearsal;
  rehearsal.session = args[0];
  if (n == 5) {
    rehearsal.stop_at = PyLong_AsLong(args[4]);
    mark_twin(args[3]);
  }
  set_current_rehearsal(&rehearsal);
  ThreadState before = tls;
  tls.mode = Mode::Paused;
  tls.session = args[0];
  PyObject* result = nullptr;
  PyObject* start = PyObject_GetAttrString(args[0], "start");
  PyObject* locals = start ? PyObject_CallOneArg(start, args[2]) : nullptr;
  Py_XDECREF(start);
  if (locals && PyTuple_Check(locals)) {
    CodeInfo* info = resolve(&rehearsal, PyFunction_GET_CODE(args[1]));
    if (info && (info->kind == CodeInfo::Rewritten || info->kind == CodeInfo::ByFunction)) {
      PyObject* twin = info->kind == CodeInfo::Rewritten ? info->payload : PyTuple_GET_ITEM(info->payload, 1);
      if (n == 5) twin = args[3];
      rehearsal.root_code = twin;
      RehearseScope live;
      if (note_function(&rehearsal, args[1]) == 0)
        result = run_twin(&rehearsal, args[1], twin, &PyTuple_GET_ITEM(locals, 0), (int)PyTuple_GET_SIZE(locals), nullptr);
    } else if (info) {
      PyObject* text[] = {PyFunction_GET_CODE(args[1]), info->payload ? info->payload : Py_None};
      result = ask_session(&rehearsal, name_refuse, text, 2);
    }
    bool stopped = !result && rehearsal.stopped && is_stop();
    PyObject* open = stopped || result ? open_coroutine(&rehearsal) : nullptr;
    if (open && !rehearsal.interrupt) {
      PyErr_Clear();
      PyObject* why = PyUnicode_FromString("a coroutine that did not end");
      PyObject* said[] = {PyFunction_GET_CODE(args[1]), why};
      Py_XSETREF(result, why ? ask_session(&rehearsal, name_refuse, said, 2) : nullptr);
      Py_XDECREF(why);
    } else if (stopped) {
      PyErr_Clear();
      result = Py_NewRef(Py_True);
    } else if (result) {
      PyObject* finish = PyObject_GetAttrString(args[0], "finish");
      PyObject* value = finish && !rehearsal.interrupt ? PyObject_CallOneArg(finish, result) : nullptr;
      Py_XDECREF(finish);
      Py_SETREF(result, value);
    }
  }
  Py_XDECREF(locals);
  if (!result) note_interrupt(&rehearsal);
  if (rehearsal.interrupt) {  // whatever the program made of it, the root's record decides
    Py_CLEAR(result);
    PyErr_Clear();
    PyErr_SetObject((PyObject*)Py_TYPE(rehearsal.interrupt), rehearsal.interrupt);
  }
  end_generators(&rehearsal);
  tls = before;
  set_current_rehearsal(nullptr);
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  PyObject* made = PyList_New(0);
  for (auto& [unit, count] : rehearsal.generators) {
    PyObject* row = Py_BuildValue("(il)", unit, count);
    if (made && row) PyList_Append(made, row);
    Py_XDECREF(row);
  }
  if (made && PyObject_SetAttrString(args[0], "generators", made) < 0) PyErr_Clear();
  Py_XDECREF(made);
  PyObject* times = rehearsal.times.as_list();
  if (!times || PyObject_SetAttrString(args[0], "times", times) < 0) PyErr_Clear();
  Py_XDECREF(times);
  PyErr_Restore(type, value, traceback);
  return result;
}

static PyObject* set_hooks(PyObject*, PyObject* args) {
  PyObject *resolver, *capture, *code;
  if (!PyArg_ParseTuple(args, "OOO", &resolver, &capture, &code)) return nullptr;
  Py_XSETREF(resolve_code, Py_NewRef(resolver));
  Py_XSETREF(capture_frame, Py_NewRef(capture));
  Py_XSETREF(trampoline, Py_NewRef(code));
  Py_RETURN_NONE;
}

static PyObject* get_mode(PyObject*, PyObject*) { return PyLong_FromLong((long)tls.mode); }
static PyObject* set_mode(PyObject*, PyObject* value) {
  long mode = PyLong_AsLong(value);
  if (mode == -1 && PyErr_Occurred()) return nullptr;
  Mode before = tls.mode;
  tls.mode = (Mode)mode;
  return PyLong_FromLong((long)before);
}
// How many scopes hold the hook, and whether the evaluator is ours: for tests that nothing is left behind.
static PyObject* hook_users(PyObject*, PyObject*) {
  bool ours = _PyInterpreterState_GetEvalFrameFunc(PyInterpreterState_Get()) == evaluate;
  return Py_BuildValue("(lO)", users, ours ? Py_True : Py_False);
}

static PyMethodDef methods[] = {
    {"rehearse", (PyCFunction)(void*)rehearse, METH_FASTCALL, "rehearse(session, function, locals)"},
    {"call_plainly", (PyCFunction)(void*)call_plainly, METH_FASTCALL, "call_plainly(callable, args, kwargs): without a capture of its own frame"},
    {"set_hooks", set_hooks, METH_VARARGS, "set_hooks(resolve_code, capture_frame, trampoline_code)"},
    {"get_mode", get_mode, METH_NOARGS, "the thread's mode"},
    {"set_mode", set_mode, METH_O, "set the thread's mode, return the one before"},
    {"hook_users", hook_users, METH_NOARGS, "(number of scopes that hold the hook, whether it is installed)"},
    {nullptr, nullptr, 0, nullptr}};

bool init_hook(PyObject* module) {
  extra_index = request_code_extra(free_info);
  name_note_function = PyUnicode_InternFromString("note_function");
  name_note_receiver = PyUnicode_InternFromString("note_receiver");
  name_note_class = PyUnicode_InternFromString("note_class");
  name_refuse = PyUnicode_InternFromString("refuse");
  name_frames = PyUnicode_InternFromString("frames");
  name_answered = PyUnicode_InternFromString("answered");
  return extra_index >= 0 && PyModule_AddFunctions(module, methods) == 0;
}

}  // namespace framelift
