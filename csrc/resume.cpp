// Breaks: how a frame is handed over in the midst of its work, and the loop that goes on with it.  A break never recurses:
// plain part, captured part, plain part, ... follow each other in `drive`.
#include "resume.h"

#include <structseq.h>

#include "frame_access.h"

namespace framelift {

static PyObject* stop_type = nullptr;      // raised out of a twin that was stopped
static PyObject* null_mark = nullptr;      // stands for an empty slot of the stack, and for an unbound local
static PyObject* call_probe = nullptr;     // a twin has it where its original has NULL
static PyTypeObject* Handed_Type = nullptr;
static PyTypeObject* handover_type = nullptr;  // what an entry that ends at a break returns
static PyObject *plain_step = nullptr, *resume_step = nullptr;
static PyObject *name_depth, *name_locals, *name_cells, *name_handled, *name_break_off;

void raise_stop() { PyErr_SetNone(stop_type); }
bool is_stop() { return PyErr_ExceptionMatches(stop_type); }
bool is_handover(PyObject* value) { return value && Py_TYPE(value) == handover_type; }

static PyObject* slot_value(Frame* frame, Py_ssize_t slot) {
  PyObject* value = frame->localsplus[slot];
  return Py_NewRef(!value || value == call_probe ? null_mark : value);
}

static PyObject* slot_values(Frame* frame, PyObject* stop, PyObject* name) {
  PyObject* slots = PyObject_GetAttr(stop, name);
  if (!slots) return nullptr;
  Py_ssize_t n = PyTuple_GET_SIZE(slots);
  PyObject* values = PyTuple_New(n);
  for (Py_ssize_t i = 0; values && i < n; i++) PyTuple_SET_ITEM(values, i, slot_value(frame, PyLong_AsSsize_t(PyTuple_GET_ITEM(slots, i))));
  Py_DECREF(slots);
  return values;
}

// The calling frame as (stop, stack, locals, cells, handled exception or None).
static PyObject* read_frame(PyObject* stop) {
  PyThreadState* ts = PyThreadState_Get();
  Frame* frame = current_frame(ts);
  PyObject* number = PyObject_GetAttr(stop, name_depth);
  PyObject* flag = PyObject_GetAttr(stop, name_handled);
  PyObject* locals = slot_values(frame, stop, name_locals);
  PyObject* cells = slot_values(frame, stop, name_cells);
  PyObject* result = number && flag && locals && cells ? PyStructSequence_New(Handed_Type) : nullptr;
  if (result) {
    Py_ssize_t depth = PyLong_AsSsize_t(number), base = frame_code(frame)->co_nlocalsplus;
    PyObject* stack = PyTuple_New(depth);
    for (Py_ssize_t i = 0; stack && i < depth; i++) PyTuple_SET_ITEM(stack, i, slot_value(frame, base + i));
    PyObject* handled = flag == Py_True ? *handled_at(ts) : nullptr;
    PyStructSequence_SET_ITEM(result, 0, Py_NewRef(stop));
    PyStructSequence_SET_ITEM(result, 1, stack ? stack : PyTuple_New(0));
    PyStructSequence_SET_ITEM(result, 2, Py_NewRef(locals));
    PyStructSequence_SET_ITEM(result, 3, Py_NewRef(cells));
    PyStructSequence_SET_ITEM(result, 4, Py_NewRef(handled ? handled : Py_None));
    if (!stack) Py_CLEAR(result);
  }
  for (PyObject* object : {number, flag, locals, cells}) Py_XDECREF(object);
  return result;
}

// hand_over(stop): what plain code returns at a stop.  The frame gives its stack away: where a traceback keeps the frame, an exception
// on that stack would otherwise hold itself, and all the frame had, until the collector comes.
static PyObject* hand_over(PyObject*, PyObject* stop) {
  PyObject* handed = read_frame(stop);
  if (!handed) return nullptr;
  Frame* frame = current_frame(PyThreadState_Get());
  Py_ssize_t depth = PyTuple_GET_SIZE(PyStructSequence_GET_ITEM(handed, 1)), base = frame_code(frame)->co_nlocalsplus;
  for (Py_ssize_t i = 0; i < depth; i++) Py_CLEAR(frame->localsplus[base + i]);   // the record holds them too: nothing dies here
  return handed;
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
  if (current_frame(PyThreadState_Get()) != r->root_frame || r->stop_at < 0 || r->root_probes < r->stop_at) Py_RETURN_NONE;
  PyObject* handed = read_frame(place);
  if (!handed) return nullptr;
  PyObject* args[] = {handed};
  PyObject* done = ask_session(r, name_break_off, args, 1);
  Py_DECREF(handed);
  if (!done) return nullptr;
  Py_DECREF(done);
  r->stopped = true;
  end_generators(r);
  raise_stop();
  return nullptr;
}

// stop(stop): the probe of a twin that stops.  It is outside of every handler, so none lets go of what the frame holds: an exception bound by
// `as` would hold itself through its traceback, and through the frames before this one all that the capture knows of the program.
static PyObject* stop(PyObject*, PyObject* place) {
  PyObject* going_on = stop_here(place);
  if (going_on) return going_on;
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  Frame* frame = current_frame(PyThreadState_Get());
  for (Py_ssize_t i = 0, n = frame_code(frame)->co_nlocalsplus; i < n; i++) Py_CLEAR(frame->localsplus[i]);
  PyErr_Restore(type, value, traceback);
  return nullptr;
}

// set_handled(exception): what code inside an `except` block finds as the exception being handled.
static PyObject* set_handled(PyObject*, PyObject* exception) {
  if (!PyExceptionInstance_Check(exception)) return PyErr_Format(PyExc_TypeError, "set_handled takes an exception");
  Py_XSETREF(*handled_at(PyThreadState_Get()), Py_NewRef(exception));
  Py_RETURN_NONE;
}

// The depth that Python still allows here, so much more or less of it.  Framelift's own Python code, which stands where plain Python has no frame,
// must not be what a deep program fails at.
void more_depth(int n) {
#if PY_VERSION_HEX >= 0x030c0000
  PyThreadState_Get()->py_recursion_remaining += n;
#else
  PyThreadState_Get()->recursion_remaining += n;
#endif
}
constexpr int kDepthOfStep = 50;

// Ask a Python step (framelift's own code) for (function, arguments).
static PyObject* ask(PyObject* step, PyObject* compiled, PyObject* function, PyObject* handed) {
  ThreadState& state = thread_state();
  ThreadState before = state;
  state.mode = Mode::Paused;
  state.context = nullptr;
  PyObject* args[] = {compiled, function, handed};
  more_depth(kDepthOfStep);
  PyObject* answer = PyObject_Vectorcall(step, args, 3, nullptr);
  more_depth(-kDepthOfStep);
  thread_state() = before;
  return answer;
}

void give_to(PyObject* function, PyObject* values);  // hook.cpp

PyObject* drive(PyObject* compiled, PyObject* function, PyObject* handover) {
  HandledScope handled;
  Py_INCREF(compiled);
  Py_INCREF(function);
  PyObject* result = handover;
  while (result) {
    PyObject* next = ask(plain_step, compiled, function, result);
    Py_CLEAR(result);
    if (!next) break;
    PyObject* arguments = PyTuple_GET_ITEM(next, 1);
    give_to(PyTuple_GET_ITEM(next, 0), arguments);
    result = run_plain(compiled, PyTuple_GET_ITEM(next, 0), &PyTuple_GET_ITEM(arguments, 0), (size_t)PyTuple_GET_SIZE(arguments), nullptr);
    give_to(nullptr, nullptr);
    Py_DECREF(next);
    handled.put_back();  // a frame handed over inside an `except` block leaves its exception there; guards are about the caller's
    if (!result || Py_TYPE(result) != Handed_Type) break;
    next = ask(resume_step, compiled, function, result);
    Py_CLEAR(result);
    if (!next) break;
    arguments = PyTuple_GET_ITEM(next, 1);
    give_to(PyTuple_GET_ITEM(next, 0), arguments);
    result = run_looked_up(compiled, PyTuple_GET_ITEM(next, 0), &PyTuple_GET_ITEM(arguments, 0), PyTuple_GET_SIZE(arguments));
    give_to(nullptr, nullptr);
    Py_DECREF(next);
    if (!is_handover(result)) break;
  }
  Py_DECREF(function);
  Py_DECREF(compiled);
  return result;
}

// let_go(values): the tuple a capture was given, when it is over.  Exceptions that captured code raised and caught may keep the frames they passed,
// and those keep the driver's, until the collector comes; the program's values are not theirs to keep.
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
  PyObject *type, *plain, *resume;
  if (!PyArg_ParseTuple(args, "O!OO", &PyType_Type, &type, &plain, &resume)) return nullptr;
  handover_type = (PyTypeObject*)Py_NewRef(type);
  Py_XSETREF(plain_step, Py_NewRef(plain));
  Py_XSETREF(resume_step, Py_NewRef(resume));
  Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"hand_over", hand_over, METH_O, "hand_over(stop): the calling frame as a record"},
    {"stop", stop, METH_O, "stop(stop): end the rehearsal here if it is the place"},
    {"let_go", let_go, METH_O, "let_go(values): empty the tuple of what a capture was given"},
    {"set_handled", set_handled, METH_O, "set_handled(exception): inside an except block that is gone on with"},
    {"set_resuming", set_resuming, METH_VARARGS, "set_resuming(Handover, plain_step, resume_step)"},
    {nullptr, nullptr, 0, nullptr}};

static PyStructSequence_Field fields[] = {{"stop", nullptr}, {"stack", nullptr}, {"locals", nullptr}, {"cells", nullptr}, {"handled", nullptr}, {nullptr, nullptr}};
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
  PyObject* probes = PyObject_GetAttrString(module, "PROBES");
  call_probe = probes ? Py_XNewRef(PyDict_GetItemString(probes, "call")) : nullptr;
  Py_XDECREF(probes);
  return stop_type && null_mark && Handed_Type && call_probe && PyModule_AddFunctions(module, methods) == 0 &&
         PyModule_AddObjectRef(module, "NULL", null_mark) == 0 && PyModule_AddObjectRef(module, "Stop", stop_type) == 0;
}

}  // namespace framelift
