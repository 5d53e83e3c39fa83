// The PEP 523 hook: what happens to a frame depends on the thread's mode.  Rehearsing, its twin runs; capturing, a
// cached entry runs or the driver is asked; otherwise CPython does what it always does.
#include <memory>
#include <vector>

#include "barrier.h"
#include "calls.h"
#include "connections.h"
#include "evaluator.h"
#include "outside.h"
#include "receivers.h"
#include "resume.h"
#include "set_order.h"

namespace framelift {

static thread_local ThreadState tls;
ThreadState& thread_state() { return tls; }

static Py_ssize_t extra_index = -1;
static PyObject* resolve_code = nullptr;   // Python: code -> what to do with its frames while rehearsing
static PyObject* capture_frame = nullptr;  // Python: (compiled, function, locals) -> bool
static PyObject* trampoline = nullptr;     // code of `lambda r: r`
static PyObject* const name_note_function = interned("note_function");
static PyObject *const name_note_class = interned("note_class"), *const name_refuse = interned("refuse");
static PyObject *const name_frames = interned("frames"), *const name_answered = interned("answered");

// What the hook knows about a code object, kept with the code object itself.
struct CodeInfo {
  enum Kind { Twin, Own, Handler, Rewritten, Refused, ByFunction } kind;
  Ref payload;  // twin code, handler, the text of the refusal, or (handlers by function, twin code)
};
static void free_info(void* p) { delete (CodeInfo*)p; }

static CodeInfo* get_info(PyObject* code) {
  void* p = nullptr;
  if (get_code_extra(code, extra_index, &p) < 0) PyErr_Clear();
  return (CodeInfo*)p;
}

// The code owns its info from then on.  NULL with an exception set.
static CodeInfo* set_info(PyObject* code, CodeInfo::Kind kind, Ref payload) {
  std::unique_ptr<CodeInfo> info(new CodeInfo{kind, std::move(payload)});
  return set_code_extra(code, extra_index, info.get()) < 0 ? nullptr : info.release();
}

static bool mark_twin(PyObject* twin) { return get_info(twin) || set_info(twin, CodeInfo::Twin, nullptr); }
bool is_twin(PyObject* code) { return get_info(code) && get_info(code)->kind == CodeInfo::Twin; }

static CodeInfo* resolve(Rehearsal* r, PyObject* code) {
  CodeInfo* info = get_info(code);
  if (info) return info;
  Ref found;
  {
    PausedScope paused;
    found = Ref::steal(PyObject_CallOneArg(resolve_code, code));
  }
  if (!found) {
    note_interrupt(r);
    return nullptr;
  }
  PyObject* answer = found.get();
  CodeInfo::Kind kind = CodeInfo::Handler;
  PyObject* twin = nullptr;
  if (PyCode_Check(answer)) {
    kind = CodeInfo::Rewritten;
    twin = answer;
  } else if (PyTuple_Check(answer)) {
    kind = CodeInfo::ByFunction;
    twin = PyTuple_GET_ITEM(answer, 1);
  } else if (answer == Py_None) {
    kind = CodeInfo::Own;
  } else if (PyUnicode_Check(answer)) {
    kind = CodeInfo::Refused;
  }
  if (twin && !mark_twin(twin)) return nullptr;
  return set_info(code, kind, std::move(found));
}

int note_class(Rehearsal* r, PyObject* cls) {
  if (!r->classes.insert(cls)) return 0;
  PyObject* args[] = {cls};
  return Ref::steal(ask_session(r, name_note_class, args, 1)) ? 0 : -1;
}

int note_function(Rehearsal* r, PyObject* function) {
  if (r->functions.count(function) || r->internal.count(function)) return 0;
  r->kept.insert(function);
  r->functions[function];
  PyObject* args[] = {function};
  Ref answer = Ref::steal(ask_session(r, name_note_function, args, 1));
  if (!answer) return -1;
  if (PyTuple_Check(answer.get())) {  // ((slot, original, imported), ...)
    std::vector<Default> defaults;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(answer.get()); i++) {
      PyObject* row = PyTuple_GET_ITEM(answer.get(), i);
      defaults.push_back({(int)PyLong_AsLong(PyTuple_GET_ITEM(row, 0)), Ref::new_ref(PyTuple_GET_ITEM(row, 1)),
                          Ref::new_ref(PyTuple_GET_ITEM(row, 2))});
    }
    r->functions[function] = std::move(defaults);
  } else if (answer.get() != Py_None) {  // it bears a mark: a handler runs in its place
    r->marked[function] = std::move(answer);
  }
  return 0;
}

// A frame's locals as the arguments of a call: *args and **kwargs are spread again.
static PyObject* call_handler(PyObject* handler, PyObject* session, PyObject* function, PyObject* const* locals) {
  PyCodeObject* code = (PyCodeObject*)PyFunction_GET_CODE(function);
  int n = code->co_argcount, k = code->co_kwonlyargcount, next = n + k;
  PyObject* spread = code->co_flags & CO_VARARGS ? locals[next++] : nullptr;
  PyObject* extra = code->co_flags & CO_VARKEYWORDS ? locals[next++] : nullptr;
  Py_ssize_t more = spread ? PyTuple_GET_SIZE(spread) : 0;
  Ref args = make_tuple(
      n + more, [&](Py_ssize_t i) { return Ref::new_ref(i < n ? locals[i] : PyTuple_GET_ITEM(spread, i - n)); });
  Ref kwargs = Ref::steal(extra ? PyDict_Copy(extra) : PyDict_New()), names = Ref::steal(PyCode_GetVarnames(code));
  if (!args || !kwargs || !names) return nullptr;
  for (int i = 0; i < k; i++)
    if (PyDict_SetItem(kwargs.get(), PyTuple_GET_ITEM(names.get(), n + i), locals[n + i]) < 0) return nullptr;
  PyObject* stack[] = {session, function, args.get(), kwargs.get()};
  return PyObject_Vectorcall(handler, stack, 4, nullptr);
}

static PyObject* run_twin(Rehearsal* r, PyObject* function, PyObject* twin, PyObject* const* locals, int n) {
  PyFunctionObject* original = (PyFunctionObject*)function;
  Ref callable = Ref::steal(PyFunction_New(twin, original->func_globals));
  if (!callable) return nullptr;
  PyFunctionObject* copied = (PyFunctionObject*)callable.get();
  // Generators take their names from the function, which may have been given others than its code's.
  Py_SETREF(copied->func_name, Py_NewRef(original->func_name));
  Py_XSETREF(copied->func_doc, Py_NewRef(function));  // a generator holds the copy: whose it is
  Py_SETREF(copied->func_builtins, Py_NewRef(original->func_builtins));  // its globals may name others since
  Py_SETREF(copied->func_qualname, Py_NewRef(original->func_qualname));
  if (original->func_closure && PyFunction_SetClosure(callable.get(), original->func_closure) < 0) return nullptr;
  auto found = r->functions.find(function);
  if (found == r->functions.end() || found->second.empty())
    return PyObject_Vectorcall(callable.get(), locals, n, nullptr);
  std::vector<PyObject*> copy(locals, locals + n);
  for (auto& d : found->second)
    if (copy[d.slot] == d.original.get()) copy[d.slot] = d.imported.get();
  return PyObject_Vectorcall(callable.get(), copy.data(), n, nullptr);
}

constexpr int kWaits = CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR;

// A generator or coroutine that a frame of captured code made.
static void note_generator(Rehearsal* r, PyObject* made) {
  // A coroutine lives to the end: whether it was ever awaited, and what it does when it is dropped, is looked at there.
  Ref reference = PyCoro_CheckExact(made) ? Ref::new_ref(made) : Ref::steal(PyWeakref_NewRef(made, nullptr));
  if (reference)
    r->made_generators.push_back(std::move(reference));
  else
    PyErr_Clear();
}

// The twin of a frame of captured code runs, or a handler in its place.
static Ref run_in_place(Rehearsal* r, CodeInfo* info, PyObject* function, Frame* frame) {
  PyObject* handler = info->kind == CodeInfo::Handler ? info->payload.get() : nullptr;
  PyObject* twin = info->payload.get();
  auto marked = r->marked.find(function);
  if (marked != r->marked.end()) {
    handler = marked->second.get();
  } else if (info->kind == CodeInfo::ByFunction) {
    handler = PyDict_GetItemWithError(PyTuple_GET_ITEM(twin, 0), function);
    twin = PyTuple_GET_ITEM(twin, 1);
  }
  PyCodeObject* code = frame_code(frame);
  FrameValues locals(frame, parameter_count(code));
  if (handler) {
    Ref kept = Ref::new_ref(handler), result;
    {
      PausedScope paused;
      result = Ref::steal(call_handler(handler, r->session, function, locals.data()));
    }
    left_own_code(r, result);
    return result;
  }
  Ref result = Ref::steal(run_twin(r, function, twin, locals.data(), parameter_count(code)));
  if (result && is_symbolic_number(result.get()) && code->co_argcount > 0 && frame_value(frame, 0)) {
    // A special method that C code called: it takes nothing but numbers of its own types.
    PyObject* asked[] = {function, frame_value(frame, 0), result.get()};
    result = Ref::steal(ask_session(r, name_answered, asked, 3));
  }
  PyObject* made = result.get();
  bool waits = made && (PyGen_CheckExact(made) || PyCoro_CheckExact(made) || PyAsyncGen_CheckExact(made));
  if (waits && code->co_flags & kWaits) note_generator(r, made);
  return result;
}

// What a frame of captured code returns, without running it: the caller ends it with that.
static PyObject* answer_frame(Rehearsal* r, CodeInfo* info, PyThreadState* ts, Frame* frame) {
  PyCodeObject* code = frame_code(frame);
  if (code->co_flags & kWaits) r->generators.push_back({root_unit(r), r->root_probes});
  bool refused = info->kind == CodeInfo::Refused || is_generator_frame(frame);
  // An event loop hears of each asynchronous generator from C code.
  if (code->co_flags & CO_ASYNC_GENERATOR) refused |= ts->async_gen_firstiter || ts->async_gen_finalizer;
  Ref function = Ref::new_ref((PyObject*)frame_function(frame));
  if (r->interrupt) {
    PyErr_SetObject((PyObject*)Py_TYPE(r->interrupt), r->interrupt);
    return nullptr;
  }
  if (refused) {
    PyObject* args[] = {(PyObject*)code, info->payload ? info->payload.get() : Py_None};
    return ask_session(r, name_refuse, args, 2);
  }
  if (depth_left(ts) < ExtraDepth::kCapture) {  // plain Python, which is less deep here, may reach its limit or not
    Ref why = Ref::steal(PyUnicode_FromFormat("%U, called at the recursion limit", code->co_qualname));
    PyObject* args[] = {(PyObject*)code, why.get()};
    return why ? ask_session(r, name_refuse, args, 2) : nullptr;
  }
  if (note_function(r, function.get()) < 0) return nullptr;
  if (note_receiver(r, function.get(), FrameValues(frame, parameter_count(code)).data()) < 0) return nullptr;
  return run_in_place(r, info, function.get(), frame).release();
}

static Times::Row* times_of(Rehearsal* r, PyObject* code) { return r->times.row_of(code); }

// From here on C++ exceptions are caught before a frame is evaluated or ended: exactly one of these happens, once.
static PyObject* rehearse_frame(PyThreadState* ts, Frame* frame, int throwflag) {
  Rehearsal* r = current_rehearsal();
  PyObject* code = (PyObject*)frame_code(frame);
  CodeInfo* info = slot<resolve>(r, code);
  if (!info) return _PyEval_EvalFrameDefault(ts, frame, 1);
  if (info->kind == CodeInfo::Twin) {
    Times::Row* row = slot<times_of>(r, code);
    if (!row) return _PyEval_EvalFrameDefault(ts, frame, 1);
    if (!r->root_frame && code == r->root_code) r->root_frame = frame;
    Times::Frame timed(r->times, row);
    return _PyEval_EvalFrameDefault(ts, frame, throwflag);
  }
  if (info->kind == CodeInfo::Own) {
    Ref result;
    {
      PausedScope paused;
      result = Ref::steal(_PyEval_EvalFrameDefault(ts, frame, throwflag));
    }
    left_own_code(r, result);
    return result.release();
  }
  if (throwflag) return _PyEval_EvalFrameDefault(ts, frame, throwflag);
  return finish_frame(ts, frame, slot<answer_frame>(r, info, ts, frame), trampoline);
}

// Capture and RunOnly: a cached entry for a function's frame, or a capture.  As try_entries; 0 and 2 mean plain Python.
// Entries are kept per code, and several functions may share one code, so the function is one more local.
// *muted: nothing that the function calls is captured: it switches that off, or the call is left to plain Python.
static int look_up(PyObject* context, PyObject* function, PyObject* const* locals, int n, Mode mode, PyObject** result,
                   bool* muted) {
  struct Scope {
    Mode after;
    ~Scope() { tls.mode = after; }
  } scope{mode};
  tls.mode = Mode::Paused;
  PyObject* code = PyFunction_GET_CODE(function);
  std::vector<PyObject*> all(locals, locals + n);
  all.push_back(function);
  // Safe: framelift's own callable.
  Ref frames = Ref::steal(PyObject_GetAttr(context, name_frames));
  if (!frames) return -1;
  auto find = [&] {
    Ref found = Ref::new_ref(PyDict_GetItemWithError(frames.get(), code));
    // Code that was made by hand may hold constants without a hash.
    if (!found && PyErr_Occurred() && PyErr_ExceptionMatches(PyExc_TypeError)) PyErr_Clear();
    return found;
  };
  Ref entries = find();
  if (!entries && PyErr_Occurred()) return -1;
  bool closed = entries.get() == Py_None || entries.get() == Py_False;
  int verdict = entries && !closed ? choose_entry(nullptr, entries.get(), all.data(), n + 1, result) : 0;
  Ref captured;
  if (verdict == 0 && !closed && mode == Mode::Capture) {
    Ref tuple = tuple_of(all.data(), n + 1);
    if (!tuple) return -1;
    PyObject* args[] = {context, function, tuple.get()};
    {
      ExtraDepth depth(ExtraDepth::kCapture);
      captured = Ref::steal(PyObject_Vectorcall(capture_frame, args, 3, nullptr));
    }
    if (!captured) return -1;
    if (is_entry(captured.get())) {
      verdict = try_entry(captured.get(), all.data(), n + 1, result);
    } else if (captured.get() == Py_True) {
      entries = find();
      if (entries) verdict = try_entries(entries.get(), all.data(), n + 1, result);
    }
  }
  if (verdict == 0 && !entries) entries = find();
  *muted = entries.get() == Py_False || captured.get() == Py_None;
  return verdict;
}

static PyObject* lookup_frame(PyThreadState* ts, Frame* frame) {
  PyObject* result = nullptr;
  Mode mode = tls.mode;
  bool muted = false;
  int verdict;
  {
    Ref context = Ref::new_ref(tls.context), function = Ref::new_ref((PyObject*)frame_function(frame));
    int count = parameter_count(frame_code(frame));
    FrameValues locals(frame, count);
    verdict = slot<look_up>(context.get(), function.get(), locals.data(), count, mode, &result, &muted);
    if (verdict == 1 && is_handover(result)) {
      result = slot<drive>(context.get(), function.get(), result);
      if (!result) verdict = -1;
    }
  }
  if (verdict == 1 || verdict < 0) return finish_frame(ts, frame, verdict == 1 ? result : nullptr, trampoline);
  if (!muted) {
    PyObject* failure = take_failure();
    result = pass_on(ts, frame, 0);
    report_failure(failure, &result);
    return result;
  }
  tls.mode = Mode::Off;
  result = pass_on(ts, frame, 0);
  tls.mode = mode;
  return result;
}

PyObject* run_looked_up(PyObject* compiled, PyObject* function, PyObject* const* args, Py_ssize_t n, bool* began) {
  *began = false;
  PyObject* result = nullptr;
  HookScope hook;
  ThreadState before = tls;
  tls.context = compiled;
  bool muted = false;
  Mode mode = before.mode == Mode::RunOnly ? Mode::RunOnly : Mode::Capture;
  int verdict = slot<look_up>(compiled, function, args, (int)n, mode, &result, &muted);
  tls = before;
  if (verdict == 1 || verdict < 0) return result;
  PyObject* failure = take_failure();
  *began = true;
  size_t count = (size_t)n;
  result = muted ? run_off(function, args, count, nullptr) : run_plain(compiled, function, args, count, nullptr);
  report_failure(failure, &result);
  return result;
}

// A frame that is gone on with is the only holder of its values: what it lets go of dies at once.  So the caller's
// references end when the frame begins.  `drive` says whose they are (resume.cpp).
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

static PyObject* evaluate(PyThreadState* ts, Frame* frame, int throwflag) {  // threads that outlive Python unwind it
  CalledFromPython counted(ts);
  if (is_chain_test()) return _PyEval_EvalFrameDefault(ts, frame, throwflag);
  switch (tls.mode) {
    case Mode::Off:
      release_idle_hook();
      break;
    case Mode::Rehearse:
    case Mode::Paused:
      if (!current_rehearsal()) break;
      if (is_signal_handler(frame)) return run_signal_handler(ts, frame, throwflag);
      if (throwflag) slot<note_thrown>(current_rehearsal(), ts);
      if (tls.mode == Mode::Rehearse) return rehearse_frame(ts, frame, throwflag);
      return _PyEval_EvalFrameDefault(ts, frame, throwflag);  // our own code: nobody else's business
    case Mode::Capture:
    case Mode::RunOnly:
      if (throwflag || is_generator_frame(frame) || !tls.context) break;
      if ((PyObject*)frame_code(frame) == tls.skip_code) {
        tls.skip_code = nullptr;
        give(frame);
        break;
      }
      if (frame_code(frame)->co_flags & kWaits) break;
      if (!(frame_code(frame)->co_flags & CO_OPTIMIZED))
        break;  // a class body or a module: names are entries of a dictionary
      return lookup_frame(ts, frame);
    default:
      break;
  }
  return pass_on(ts, frame, throwflag);
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

PyObject* run_off(PyObject* function, PyObject* const* args, size_t nargsf, PyObject* kwnames) {
  ThreadState before = tls;
  tls.mode = Mode::Off;
  PyObject* result = PyObject_Vectorcall(function, args, nargsf, kwnames);
  tls = before;
  return result;
}

// call_plainly(callable, args, kwargs): the callable's own frame is not looked up, those below it are.
static PyObject* call_plainly(PyObject*, PyObject* const* a, Py_ssize_t n) {
  if (n != 3 || !PyTuple_Check(a[1]) || !PyDict_Check(a[2]))
    return PyErr_Format(PyExc_TypeError, "call_plainly(callable, args, kwargs)");
  PyObject* function = PyMethod_Check(a[0]) ? PyMethod_GET_FUNCTION(a[0]) : a[0];
  PyObject* before = tls.skip_code;
  if (PyFunction_Check(function)) tls.skip_code = PyFunction_GET_CODE(function);
  PyObject* result = PyObject_Call(a[0], a[1], a[2]);
  tls.skip_code = before;
  return result;
}

// The rehearsal that is this thread's while it lives.
struct RehearsalScope {
  Rehearsal* rehearsal;
  ThreadState before = tls;
  explicit RehearsalScope(Rehearsal* r) : rehearsal(r) {
    set_current_rehearsal(r);
    tls.mode = Mode::Paused;
    tls.session = r->session;
  }
  RehearsalScope(const RehearsalScope&) = delete;
  ~RehearsalScope() {
    end_generators(rehearsal);
    tls = before;
    set_current_rehearsal(nullptr);
  }
};

// The root's twin on imported locals.  What it returns, none where it was stopped or raised.
static PyObject* run_root(Rehearsal* r, PyObject* function, PyObject* locals, PyObject* given_twin) {
  CodeInfo* info = resolve(r, PyFunction_GET_CODE(function));
  if (!info) return nullptr;
  if (info->kind != CodeInfo::Rewritten && info->kind != CodeInfo::ByFunction) {
    PyObject* text[] = {PyFunction_GET_CODE(function), info->payload ? info->payload.get() : Py_None};
    return ask_session(r, name_refuse, text, 2);
  }
  PyObject* twin = info->payload.get();
  if (info->kind == CodeInfo::ByFunction) twin = PyTuple_GET_ITEM(twin, 1);
  if (given_twin) twin = given_twin;
  r->root_code = twin;
  RehearseScope live;
  if (note_function(r, function) < 0) return nullptr;
  return run_twin(r, function, twin, &PyTuple_GET_ITEM(locals, 0), (int)PyTuple_GET_SIZE(locals));
}

// A TypeError leaves the program: the classes that it names are guarded, as where the program itself catches one.
static void note_left(Rehearsal* r) {
  if (r->interrupt || !PyErr_ExceptionMatches(PyExc_TypeError)) return;
  SavedError error;
  error.normalize();
  static PyObject* const name = PyUnicode_InternFromString("caught");
  PyObject* given = error.value();
  if (!given || Ref::steal(ask_session(r, name, &given, 1))) error.restore();
}

// Start, root and finish.  A new reference, or NULL with an exception set.
static PyObject* run_rehearsal(Rehearsal* r, PyObject* function, PyObject* given_locals, PyObject* given_twin) {
  // Safe, here and below: the session is framelift's own object.
  Ref start = Ref::steal(PyObject_GetAttrString(r->session, "start"));
  Ref locals = Ref::steal(start ? PyObject_CallOneArg(start.get(), given_locals) : nullptr);
  if (!locals) return nullptr;
  if (!PyTuple_Check(locals.get())) return PyErr_Format(PyExc_TypeError, "start() gives a tuple");
  Ref result = Ref::steal(slot<run_root>(r, function, locals.get(), given_twin));
  bool stopped = !result && r->stopped && is_stop();
  PyObject* open = stopped || result ? open_coroutine(r) : nullptr;
  if (open && !r->interrupt) {
    PyErr_Clear();
    Ref why = Ref::steal(PyUnicode_FromString("a coroutine that did not end"));
    PyObject* said[] = {PyFunction_GET_CODE(function), why.get()};
    return why ? ask_session(r, name_refuse, said, 2) : nullptr;
  }
  if (stopped) {
    PyErr_Clear();
    return Py_NewRef(Py_True);
  }
  if (!result) note_left(r);
  if (!result || r->interrupt) return nullptr;
  Ref finish = Ref::steal(PyObject_GetAttrString(r->session, "finish"));
  return finish ? PyObject_CallOneArg(finish.get(), result.get()) : nullptr;
}

// Tells the session what the rehearsal raises (Python code cannot see that: a signal handler may raise as soon as it
// has control again), where generators were made and where the time went.
static void report(Rehearsal& rehearsal) {
  SavedError error;
  error.normalize();
  auto set = [&](const char* name, PyObject* value) {
    if (!value || PyObject_SetAttrString(rehearsal.session, name, value) < 0) PyErr_Clear();
  };
  Ref made = Ref::steal(PyList_New(0));
  for (auto& [unit, count] : rehearsal.generators)
    if (!append(made, Ref::steal(Py_BuildValue("(il)", unit, count)))) PyErr_Clear();
  set("generators", made.get());
  set("times", Ref::steal(rehearsal.times.as_list()).get());
  set("time_tree", Ref::steal(rehearsal.times.as_tree()).get());
  set("outside", rehearsal.outside ? rehearsal.outside.get() : Py_None);
  set("ended", error.value() ? error.value() : Py_None);
  error.restore();
}

// rehearse(session, function, locals, twin=None, stop_at=-1): run the function's twin on imported locals, as the root
// of a rehearsal; a given twin stops where its root has called that many probes.  session.ended is the exception that
// leaves it, or None; session.outside the one from outside of the program that ended it.
static PyObject* rehearse(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if ((n != 3 && n != 5) || !PyFunction_Check(args[1]) || !PyTuple_Check(args[2]))
    return PyErr_Format(PyExc_TypeError, "rehearse(session, function, locals)");
  if (current_rehearsal()) return PyErr_Format(PyExc_RuntimeError, "a rehearsal is already running in this thread");
  HookScope hook;
  HandledScope handled;
  WalksScope walks;
  Rehearsal rehearsal;
  rehearsal.session = args[0];
  rehearsal.losses = hook_losses;
  if (n == 5) {
    rehearsal.stop_at = PyLong_AsLong(args[4]);
    if (!mark_twin(args[3])) return nullptr;
  }
  Ref result;
  {
    RehearsalScope scope(&rehearsal);
    look_for_handlers(&rehearsal);
    result = Ref::steal(slot<run_rehearsal>(&rehearsal, args[1], args[2], n == 5 ? args[3] : nullptr));
    if (!result) note_interrupt(&rehearsal);
    if (!result && !rehearsal.interrupt) note_outside(&rehearsal);
    check_hook(&rehearsal);
    if (rehearsal.interrupt) {  // whatever the program made of it, the root's record decides
      result.reset();
      SavedError error;
      error.normalize();
      // An external exception is known by where it struck.
      if (error.value() == rehearsal.interrupt && error.traceback())
        PyException_SetTraceback(error.value(), error.traceback());
      PyErr_SetObject((PyObject*)Py_TYPE(rehearsal.interrupt), rehearsal.interrupt);
    }
  }
  report(rehearsal);
  return result.release();
}

static Connections connections({{"resolve_code", &resolve_code},
                                {"capture_frame", &capture_frame},
                                {"trampoline", &trampoline}});

static PyObject* get_mode(PyObject*, PyObject*) { return PyLong_FromLong((long)tls.mode); }
static PyObject* switch_mode(PyObject*, PyObject* value) {
  long mode = PyLong_AsLong(value);
  if (mode == -1 && PyErr_Occurred()) return nullptr;
  Mode before = tls.mode;
  tls.mode = (Mode)mode;
  return PyLong_FromLong((long)before);
}
static MethodTable methods({
    method<rehearse>("rehearse", "rehearse(session, function, locals)"),
    method<call_plainly>("call_plainly", "call_plainly(callable, args, kwargs): without a capture of its own frame"),
    method<get_mode, METH_NOARGS>("get_mode", "the thread's mode"),
    method<switch_mode, METH_O>("switch_mode", "the thread has this mode from now on; gives the one before"),
});

bool init_hook(PyObject* module) {
  set_evaluator(slot<evaluate>);
  extra_index = request_code_extra(slot<free_info>);
  return extra_index >= 0 && add_functions(module, methods);
}

}  // namespace framelift
