// Breaks: how a frame is handed over in the midst of its work, and the loop that goes on with it.  A break never
// recurses: plain part, captured part, plain part, ... follow each other in `drive`.
#include "resume.h"

#include <structseq.h>

#include "barrier.h"
#include "frame_access.h"
#include "reference.h"

namespace framelift {

static PyObject* stop_type = nullptr;   // raised out of a twin that was stopped
static PyObject* null_mark = nullptr;   // stands for an empty slot of the stack, and for an unbound local
static PyObject* call_probe = nullptr;  // a twin has it where its original has NULL
static PyTypeObject* Handed_Type = nullptr;
static PyTypeObject* handover_type = nullptr;  // what an entry that ends at a break returns
static PyObject *plain_step = nullptr, *resume_step = nullptr, *throw_step = nullptr;
static PyObject *name_depth, *name_locals, *name_cells, *name_handled, *name_break_off;

void raise_stop() { PyErr_SetNone(stop_type); }
bool is_stop() { return PyErr_ExceptionMatches(stop_type); }
bool is_handover(PyObject* value) { return value && Py_TYPE(value) == handover_type; }

static Ref value_at(Frame* frame, Py_ssize_t at) {
  PyObject* value = frame->localsplus[at];
  return Ref::new_ref(!value || value == call_probe ? null_mark : value);
}

static Ref values_at(Frame* frame, PyObject* stop, PyObject* name) {
  // Safe: a stop is framelift's own record.
  Ref places = Ref::steal(PyObject_GetAttr(stop, name));
  if (!places) return nullptr;
  return make_tuple(PyTuple_GET_SIZE(places.get()),
                    [&](Py_ssize_t i) { return value_at(frame, PyLong_AsSsize_t(PyTuple_GET_ITEM(places.get(), i))); });
}

// The calling frame as (stop, stack, locals, cells, handled exception or None).
static Ref read_frame(PyObject* stop) {
  PyThreadState* ts = PyThreadState_Get();
  Frame* frame = current_frame(ts);
  // Safe: a stop is framelift's own record.
  Ref number = Ref::steal(PyObject_GetAttr(stop, name_depth)), flag = Ref::steal(PyObject_GetAttr(stop, name_handled));
  Ref locals = values_at(frame, stop, name_locals), cells = values_at(frame, stop, name_cells);
  if (!number || !flag || !locals || !cells) return nullptr;
  Py_ssize_t base = frame_code(frame)->co_nlocalsplus;
  Ref stack = make_tuple(PyLong_AsSsize_t(number.get()), [&](Py_ssize_t i) { return value_at(frame, base + i); });
  Ref result = Ref::steal(stack ? PyStructSequence_New(Handed_Type) : nullptr);
  if (!result) return nullptr;
  PyObject* handled = flag.get() == Py_True ? *handled_at(ts) : nullptr;
  PyStructSequence_SET_ITEM(result.get(), 0, Py_NewRef(stop));
  PyStructSequence_SET_ITEM(result.get(), 1, stack.release());
  PyStructSequence_SET_ITEM(result.get(), 2, locals.release());
  PyStructSequence_SET_ITEM(result.get(), 3, cells.release());
  PyStructSequence_SET_ITEM(result.get(), 4, Py_NewRef(handled ? handled : Py_None));
  return result;
}

// hand_over(stop): what plain code returns at a stop.  The frame gives its stack away: where a traceback keeps the
// frame, an exception on that stack would otherwise hold itself, and all the frame had, until the collector comes.
static PyObject* hand_over(PyObject*, PyObject* stop) {
  if (PyErr_Occurred())
    return nullptr;  // C code may give a result and an exception at once: a released memoryview's iterator
  Ref handed = read_frame(stop);
  if (!handed) return nullptr;
  Frame* frame = current_frame(PyThreadState_Get());
  Py_ssize_t depth = PyTuple_GET_SIZE(PyStructSequence_GET_ITEM(handed.get(), 1));
  Py_ssize_t base = frame_code(frame)->co_nlocalsplus;
  for (Py_ssize_t i = 0; i < depth; i++) Py_CLEAR(frame->localsplus[base + i]);  // the record holds them too
  return handed.release();
}

// The session plans the exit while the frame is still whole.
static PyObject* stop_here(PyObject* place) {
  Rehearsal* r = current_rehearsal();
  if (!r) Py_RETURN_NONE;
  if (r->stopped) {
    raise_stop();
    return nullptr;
  }
  if (r->interrupt) {
    PyErr_SetObject((PyObject*)Py_TYPE(r->interrupt), r->interrupt);
    return nullptr;
  }
  if (current_frame(PyThreadState_Get()) != r->root_frame || r->stop_at < 0 || r->root_probes < r->stop_at)
    Py_RETURN_NONE;
  Ref handed = read_frame(place);
  if (!handed) return nullptr;
  PyObject* args[] = {handed.get()};
  if (!Ref::steal(ask_session(r, name_break_off, args, 1))) return nullptr;
  r->stopped = true;
  end_generators(r);
  raise_stop();
  return nullptr;
}

// stop(stop): the probe of a twin that stops.  It is outside of every handler, so none lets go of what the frame holds:
// an exception bound by `as` would hold itself through its traceback, and through the frames before this one all that
// the capture knows of the program.
static PyObject* stop(PyObject*, PyObject* place) {
  PyObject* handover = stop_here(place);
  if (handover) return handover;
  KeepError keep;
  Frame* frame = current_frame(PyThreadState_Get());
  for (Py_ssize_t i = 0, n = frame_code(frame)->co_nlocalsplus; i < n; i++) Py_CLEAR(frame->localsplus[i]);
  return nullptr;
}

// set_handled(exception): what code inside an `except` block finds as the exception being handled.
static PyObject* set_handled(PyObject*, PyObject* exception) {
  if (!PyExceptionInstance_Check(exception)) return PyErr_Format(PyExc_TypeError, "set_handled takes an exception");
  Py_XSETREF(*handled_at(PyThreadState_Get()), Py_NewRef(exception));
  Py_RETURN_NONE;
}

// Ask a Python step (framelift's own code) for (function, arguments).
static Ref ask(PyObject* step, PyObject* compiled, PyObject* function, PyObject* handed) {
  ThreadState& state = thread_state();
  ThreadState before = state;
  state.mode = Mode::Paused;
  state.context = nullptr;
  PyObject* args[] = {compiled, function, handed};
  ExtraDepth depth(ExtraDepth::kStep);
  Ref answer = Ref::steal(PyObject_Vectorcall(step, args, 3, nullptr));
  thread_state() = before;
  return answer;
}

// While it lives, the values in `arguments` are the frame's of `function` alone as soon as that begins.
struct Given {
  Given(PyObject* function, PyObject* arguments) { give_to(function, arguments); }
  Given(const Given&) = delete;
  ~Given() { give_to(nullptr, nullptr); }
};

// The exception that is set, of a capture or an entry, is raised in the frame that would have gone on, so that its
// `with` blocks end and its handlers see it.  Where the frame has none at that place the exception stays as it is.
static Ref throw_into(PyObject* compiled, PyObject* resumed, PyObject* arguments) {
  SavedError error;
  error.normalize();
  if (error.traceback()) PyException_SetTraceback(error.value(), error.traceback());
  ThreadState& state = thread_state();
  ThreadState before = state;
  state.mode = Mode::Paused;
  state.context = nullptr;
  PyObject* args[] = {compiled, resumed, arguments, error.value()};
  Ref next;
  {
    ExtraDepth depth(ExtraDepth::kStep);
    next = Ref::steal(PyObject_Vectorcall(throw_step, args, 4, nullptr));
  }
  thread_state() = before;
  if (!next || next.get() == Py_None) {
    error.restore();
    return nullptr;
  }
  PyObject *code = PyTuple_GET_ITEM(next.get(), 0), *values = PyTuple_GET_ITEM(next.get(), 1);
  Given given(code, values);
  return Ref::steal(run_plain(compiled, code, &PyTuple_GET_ITEM(values, 0), (size_t)PyTuple_GET_SIZE(values), nullptr));
}

PyObject* drive(PyObject* compiled, PyObject* function, PyObject* handover) {
  HandledScope handled;
  Ref kept_compiled = Ref::new_ref(compiled), kept_function = Ref::new_ref(function), result = Ref::steal(handover);
  while (result) {
    Ref next = ask(plain_step, compiled, function, result.get());
    result.reset();
    if (!next) break;
    {
      PyObject *code = PyTuple_GET_ITEM(next.get(), 0), *arguments = PyTuple_GET_ITEM(next.get(), 1);
      Given given(code, arguments);
      size_t count = (size_t)PyTuple_GET_SIZE(arguments);
      result = Ref::steal(run_plain(compiled, code, &PyTuple_GET_ITEM(arguments, 0), count, nullptr));
    }
    next.reset();
    handled.put_back();  // a frame handed over inside an `except` block leaves its exception there; guards are about
                         // the caller's
    if (!result || Py_TYPE(result.get()) != Handed_Type) break;
    next = ask(resume_step, compiled, function, result.get());
    result.reset();
    if (!next) break;
    {
      PyObject *code = PyTuple_GET_ITEM(next.get(), 0), *arguments = PyTuple_GET_ITEM(next.get(), 1);
      Given given(code, arguments);
      Py_ssize_t count = PyTuple_GET_SIZE(arguments);
      bool began;
      result = Ref::steal(run_looked_up(compiled, code, &PyTuple_GET_ITEM(arguments, 0), count, &began));
      if (!result && !began) result = throw_into(compiled, code, arguments);
    }
    next.reset();
    if (!is_handover(result.get())) break;
  }
  return result.release();
}

// let_go(values): the tuple a capture was given, when it is over.  Exceptions that captured code raised and caught may
// keep the frames they passed, and those keep the driver's, until the collector comes; the program's values are not
// theirs to keep.
static PyObject* let_go(PyObject*, PyObject* values) {
  if (!PyTuple_CheckExact(values)) return PyErr_Format(PyExc_TypeError, "let_go takes a tuple");
  for (Py_ssize_t i = 0, n = PyTuple_GET_SIZE(values); i < n; i++) {
    PyObject* value = PyTuple_GET_ITEM(values, i);
    PyTuple_SET_ITEM(values, i, Py_NewRef(Py_None));
    Py_DECREF(value);
  }
  Py_RETURN_NONE;
}

static PyObject* set_resuming(PyObject*, PyObject* args) {
  PyObject *type, *plain, *resume, *raise;
  if (!PyArg_ParseTuple(args, "O!OOO", &PyType_Type, &type, &plain, &resume, &raise)) return nullptr;
  handover_type = (PyTypeObject*)Py_NewRef(type);
  Py_XSETREF(plain_step, Py_NewRef(plain));
  Py_XSETREF(resume_step, Py_NewRef(resume));
  Py_XSETREF(throw_step, Py_NewRef(raise));
  Py_RETURN_NONE;
}

static MethodTable methods({
    method<hand_over, METH_O>("hand_over", "hand_over(stop): the calling frame as a record"),
    method<stop, METH_O>("stop", "stop(stop): end the rehearsal here if it is the place"),
    method<let_go, METH_O>("let_go", "let_go(values): empty the tuple of what a capture was given"),
    method<set_handled, METH_O>("set_handled", "set_handled(exception): inside an except block that is gone on with"),
    method<set_resuming, METH_VARARGS>("set_resuming", "set_resuming(Handover, plain_step, resume_step, throw_step)"),
});

static PyStructSequence_Field fields[] = {{"stop", nullptr},  {"stack", nullptr},   {"locals", nullptr},
                                          {"cells", nullptr}, {"handled", nullptr}, {nullptr, nullptr}};
static PyStructSequence_Desc description = {"framelift._core.Handed", "A frame, handed over.", fields, 5};

bool init_resume(PyObject* module) {
  name_depth = PyUnicode_InternFromString("depth");
  name_locals = PyUnicode_InternFromString("locals");
  name_cells = PyUnicode_InternFromString("cells");
  name_handled = PyUnicode_InternFromString("handled");
  name_break_off = PyUnicode_InternFromString("break_off");
  stop_type = PyErr_NewException("framelift._core.Stop", PyExc_BaseException, nullptr);
  null_mark = PyObject_CallNoArgs((PyObject*)&PyBaseObject_Type);
  Handed_Type = PyStructSequence_NewType(&description);
  // Safe: the native module itself, when it is loaded.
  Ref probes = Ref::steal(PyObject_GetAttrString(module, "PROBES"));
  call_probe = probes ? Py_XNewRef(PyDict_GetItemString(probes.get(), "call")) : nullptr;
  return stop_type && null_mark && Handed_Type && call_probe && add_functions(module, methods) &&
         PyModule_AddObjectRef(module, "NULL", null_mark) == 0 && PyModule_AddObjectRef(module, "Stop", stop_type) == 0;
}

}  // namespace framelift
