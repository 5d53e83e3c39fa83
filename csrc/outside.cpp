// Exceptions that strike a rehearsal.  The interpreter calls signal handlers, and raises the exceptions that other
// threads asked for, between two instructions of any frame: captured code or our own.  A handler is no part of the
// program that is captured: it runs for real.  An external exception ends the rehearsal, whatever the program or
// our own code makes of it, and leaves the compiled call.
#include "outside.h"

#include <frameobject.h>

#include "barrier.h"
#include "connections.h"
#include "evaluator.h"

namespace framelift {

static PyObject* handler_judge = nullptr;  // Python: function -> whether it handles a signal
static PyObject* handler_finder = nullptr;  // Python: () -> whether any signal is handled by Python code
static PyObject* outside_judge =
    nullptr;  // Python: exception -> 0: the program's or ours, 1: from outside, 2: unless a C function raised it
static bool is_number_and_frame(PyObject* number, PyObject* frame) {
  return number && frame && PyFrame_Check(frame) && PyLong_Check(number);
}

// Handlers are called with the number of the signal and the frame it struck.
bool is_signal_handler(Frame* frame) {
  int n = parameter_count(frame_code(frame));
  bool looks_so = false;
  for (int i = 0; i < n && !looks_so; i++) {
    PyObject* value = frame_value(frame, i);
    if (!value) continue;
    if (i && PyFrame_Check(value)) looks_so = is_number_and_frame(frame_value(frame, i - 1), value);
    Py_ssize_t size = PyTuple_CheckExact(value) ? PyTuple_GET_SIZE(value) : 0;
    if (size > 1) looks_so |= is_number_and_frame(PyTuple_GET_ITEM(value, size - 2), PyTuple_GET_ITEM(value, size - 1));
    if (size == 1 && i) looks_so |= is_number_and_frame(frame_value(frame, i - 1), PyTuple_GET_ITEM(value, 0));
  }
  if (!looks_so || !handler_judge) return false;
  PausedScope paused;
  Rehearsal* r = current_rehearsal();
  set_current_rehearsal(nullptr);
  PyObject* answer = PyObject_CallOneArg(handler_judge, (PyObject*)frame_function(frame));
  set_current_rehearsal(r);
  if (!answer) PyErr_Clear();
  bool is_one = answer == Py_True;
  Py_XDECREF(answer);
  return is_one;
}

void look_for_handlers(Rehearsal* r) {
  Ref found = Ref::steal(handler_finder ? PyObject_CallNoArgs(handler_finder) : nullptr);
  r->has_handlers = found.get() != Py_False;
  if (r->has_handlers) hold_hook();
  if (!found) PyErr_Clear();
}

// handlers_may_change(): code that is not watched ran, and may have set a signal handler.
static PyObject* handlers_may_change(PyObject*, PyObject*) {
  if (Rehearsal* r = current_rehearsal()) look_for_handlers(r);
  Py_RETURN_NONE;
}

// A handler's exception that struck torch's code or ours waits until that code is left: torch calls Python code in
// places where an exception ends the process, and neither takes long.  Everywhere else it is raised at once.
static PyObject* own_folders = nullptr;  // a tuple

static PyObject* struck_frame(Frame* handler) {
  for (int i = 0, n = parameter_count(frame_code(handler)); i < n; i++) {
    PyObject* value = frame_value(handler, i);
    if (value && PyFrame_Check(value)) return value;
    for (Py_ssize_t j = 0; value && PyTuple_CheckExact(value) && j < PyTuple_GET_SIZE(value); j++)
      if (PyFrame_Check(PyTuple_GET_ITEM(value, j))) return PyTuple_GET_ITEM(value, j);
  }
  return nullptr;
}

static bool strikes_own_code(Frame* handler) {
  PyObject* frame = struck_frame(handler);
  if (!frame || !own_folders) return false;
  Ref code = Ref::steal((PyObject*)PyFrame_GetCode((PyFrameObject*)frame));
  PyObject* file = ((PyCodeObject*)code.get())->co_filename;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(own_folders); i++)
    if (PyUnicode_Tailmatch(file, PyTuple_GET_ITEM(own_folders, i), 0, PY_SSIZE_T_MAX, -1) == 1) return true;
  return false;
}

static void end_by(Rehearsal* r, PyObject* value) {
  Py_XSETREF(r->interrupt, Py_NewRef(value));
  r->outside = Ref::new_ref(value);
  end_generators(r);
}

PyObject* run_signal_handler(PyThreadState* ts, Frame* frame, int throwflag) {
  Rehearsal* r = current_rehearsal();
  ThreadState& state = thread_state();
  ThreadState before = state;
  auto torch_before = torch_functions();
  // Compiled functions that it calls run eagerly: the rehearsal around them is still under way.
  state = ThreadState();
  state.mode = Mode::Paused;
  set_current_rehearsal(nullptr);
  set_torch_functions(torch_functions_off);
  bool waits = before.mode == Mode::Paused && strikes_own_code(frame);
  PyObject* result = pass_on(ts, frame, throwflag);
  set_torch_functions(torch_before);
  set_current_rehearsal(r);
  state = before;
  if (result) return result;
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  PyErr_NormalizeException(&type, &value, &traceback);
  if (value && traceback) PyException_SetTraceback(value, traceback);
  if (value) end_by(r, value);
  if (value && waits) {
    Py_XDECREF(type);
    Py_DECREF(value);
    Py_XDECREF(traceback);
    return Py_NewRef(Py_None);
  }
  PyErr_Restore(type, value, traceback);
  return nullptr;
}

void left_own_code(Rehearsal* r, Ref& result) {
  if (!result) return note_interrupt(r);
  if (!r->outside) return;
  result.reset();
  PyErr_SetObject((PyObject*)Py_TYPE(r->outside.get()), r->outside.get());
}

// 0: it is the program's or ours; 1: from outside; 2: so too, unless the instruction it struck raised it.
static int judged(PyObject* error) {
  if (!outside_judge) return 0;
  PausedScope paused;
  PyObject* answer = PyObject_CallOneArg(outside_judge, error);
  long verdict = answer ? PyLong_AsLong(answer) : 0;
  if (!answer || PyErr_Occurred()) PyErr_Clear();
  Py_XDECREF(answer);
  return (int)verdict;
}

void note_failed(Rehearsal* r) {
  Frame* frame = current_frame(PyThreadState_Get());
  r->failed_type = PyErr_Occurred();
  r->failed_code = frame ? (PyObject*)frame_code(frame) : nullptr;
  r->failed_unit = frame ? frame_unit(frame) : -1;
}

// Whether the probe that raised last raised this; asked once for each exception.
static bool is_of_probe(Rehearsal* r, PyObject* error) {
  PyObject* type = r->failed_type;
  r->failed_type = nullptr;
  PyTracebackObject* trace = (PyTracebackObject*)PyException_GetTraceback(error);
  Py_XDECREF(trace);  // the exception has it
  while (trace && trace->tb_next) trace = trace->tb_next;
  if (!trace || type != (PyObject*)Py_TYPE(error)) return false;
  PyCodeObject* code = PyFrame_GetCode(trace->tb_frame);
  Py_DECREF(code);  // the frame has it
  return (PyObject*)code == r->failed_code && trace->tb_lasti == r->failed_unit * (int)sizeof(_Py_CODEUNIT);
}

// Whether an exception ends the rehearsal.
static bool ends(Rehearsal* r, PyObject* error) {
  int verdict = judged(error);
  if (verdict == 2 && is_of_probe(r, error)) verdict = 0;
  if (verdict) end_by(r, error);
  return verdict != 0;
}

void note_outside(Rehearsal* r) {
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  PyErr_NormalizeException(&type, &value, &traceback);
  if (traceback && value && PyExceptionInstance_Check(value)) PyException_SetTraceback(value, traceback);
  if (value) ends(r, value);
  PyErr_Restore(type, value, traceback);
}

// caught(exception): the probe at the start of a handler of the program.
static PyObject* caught(PyObject*, PyObject* error) {
  Rehearsal* r = current_rehearsal();
  if (!r || r->stopped || r->interrupt) Py_RETURN_NONE;
  if (!ends(r, error)) {  // the handler may read the error's text
    static PyObject* const name = PyUnicode_InternFromString("caught");
    return PyExceptionInstance_Check(error) ? ask_session(r, name, &error, 1) : Py_NewRef(Py_None);
  }
  PyErr_SetObject((PyObject*)Py_TYPE(error), error);
  return nullptr;
}

int note_thrown(Rehearsal* r, PyThreadState* ts) {
  if (PyObject* thrown = thrown_at_resume(ts)) r->thrown.insert(thrown);
  return 0;
}

// was_thrown(exception, code): whether the program threw it into a generator; None where that is not known: outside of
// a rehearsal, and in code that is no twin.
static PyObject* was_thrown(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (n != 2 || !PyCode_Check(args[1])) return PyErr_Format(PyExc_TypeError, "was_thrown(exception, code)");
  Rehearsal* r = current_rehearsal();
  if (r && r->thrown.count(args[0])) Py_RETURN_TRUE;
  if (r && is_twin(args[1])) Py_RETURN_FALSE;
  Py_RETURN_NONE;
}

bool came_from_outside(PyObject* error) { return judged(error) != 0; }

static Connections connections({
    {"handles_signals", &handler_judge},       // f(function)
    {"are_signals_handled", &handler_finder},  // f(): by Python code
    {"from_outside", &outside_judge},          // f(exception): 0; 1: it is; 2: unless a C function raised it
    {"own_folders", &own_folders},
});

static MethodTable caught_probe({method<caught, METH_O>("caught")});
static MethodTable methods({
    method<was_thrown>("was_thrown", "was_thrown(exception, code): into a generator by the program; None: not known"),
    method<handlers_may_change, METH_NOARGS>("handlers_may_change", "code ran that may have set a signal handler"),
});

bool init_outside(PyObject* module) {
  Ref probes = Ref::steal(PyObject_GetAttrString(module, "PROBES"));
  Ref probe = Ref::steal(PyCFunction_New(caught_probe.rows, nullptr));
  return probes && probe && PyDict_SetItemString(probes.get(), "caught", probe.get()) == 0 &&
         add_functions(module, methods);
}

}  // namespace framelift
