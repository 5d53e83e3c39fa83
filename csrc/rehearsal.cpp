// The rehearsal's scopes and its way to call the Python session.
#include "rehearsal.h"

#include "barrier.h"
#include "connections.h"
#include "evaluator.h"
#include "outside.h"
#include "places.h"

namespace framelift {

static thread_local Rehearsal* current = nullptr;
Rehearsal* current_rehearsal() { return current; }
void set_current_rehearsal(Rehearsal* r) { current = r; }

static PyObject* interrupt_type = nullptr;  // framelift.vocabulary.reasons.Interrupt
static PyObject* fault_judge = nullptr;     // framelift.rehearsal.own_errors.fault_of
static Connections connections({{"interrupt_type", &interrupt_type}, {"fault_judge", &fault_judge}});

// In framelift's own code the hook looks for frames of signal handlers alone.
static void rest_where_unneeded() {
  if (current && !current->has_handlers) rest_hook();
}

PausedScope::PausedScope() : before(thread_state().mode), torch_before(torch_functions()) {
  thread_state().mode = Mode::Paused;
  set_torch_functions(torch_functions_off);
  if (before == Mode::Rehearse) rest_where_unneeded();
}
PausedScope::~PausedScope() {
  thread_state().mode = before;
  if (before == Mode::Rehearse) hold_hook();
  set_torch_functions(torch_before);
}
RehearseScope::RehearseScope()
    : before(thread_state().mode), torch_before(torch_functions()) {
  hold_hook();
  thread_state().mode = Mode::Rehearse;
  set_torch_functions(torch_functions_on);
}
RehearseScope::~RehearseScope() {
  thread_state().mode = before;
  if (before == Mode::Paused) rest_where_unneeded();
  set_torch_functions(torch_before);
}

Rehearsal::~Rehearsal() { Py_XDECREF(interrupt); }

static bool waits(PyObject* generator) { return ((PyGenObject*)generator)->gi_frame_state < FRAME_EXECUTING; }

PyObject* open_coroutine(Rehearsal* r) {
  for (Ref& object : r->made_generators)
    if (PyCoro_CheckExact(object.get()) && waits(object.get())) return object.get();
  return nullptr;
}

void end_generators(Rehearsal* r) {
  for (Ref& reference : r->made_generators) {
    PyObject* object = PyWeakref_Check(reference.get()) ? PyWeakref_GET_OBJECT(reference.get()) : reference.get();
    bool is_asynchronous = PyCoro_CheckExact(object) || PyAsyncGen_CheckExact(object);  // of a generator's layout
    if (is_asynchronous && waits(object)) ((PyGenObject*)object)->gi_frame_state = FRAME_COMPLETED;
    end_generator(object);
  }
}

int root_unit(Rehearsal* r) { return r->root_frame ? frame_unit(r->root_frame) : -1; }

// An exception of framelift's own code that no handler meant for the program becomes a defect, which ends the
// rehearsal; one that says that torch lacks a part becomes a graph break.
static void look_for_fault(Rehearsal* r) {
  SavedError error;
  error.normalize();
  PyObject* args[] = {error.value(), error.traceback() ? error.traceback() : Py_None};
  Ref fault;
  if (error.value() && error.traceback()) {
    PausedScope paused;
    fault = Ref::steal(PyObject_Vectorcall(fault_judge, args, 2, nullptr));
  }
  if (!fault || fault.get() == Py_None) return error.restore();
  if (PyObject_TypeCheck(fault.get(), (PyTypeObject*)interrupt_type)) {
    PyErr_SetObject(interrupt_type, fault.get());
    return note_interrupt(r);
  }
  PyObject* interrupt = r->interrupt = fault.release();
  end_generators(r);
  PyErr_SetObject((PyObject*)Py_TYPE(interrupt), interrupt);
}

void note_interrupt(Rehearsal* r) {
  if (r->interrupt || !interrupt_type) return;
  if (!PyErr_ExceptionMatches(interrupt_type)) {
    bool suspect = PyErr_ExceptionMatches(PyExc_AttributeError) || PyErr_ExceptionMatches(PyExc_NameError) ||
                   PyErr_ExceptionMatches(PyExc_AssertionError);
    if (suspect && fault_judge) look_for_fault(r);
    return;
  }
  KeepError keep;
  keep.saved.normalize();
  PyObject* value = keep.saved.value();
  r->interrupt = Py_XNewRef(value);
  end_generators(r);
  Ref places = Ref::steal(slot<program_places>());  // now: the program may swallow the exception later
  // Safe, here and below: an interrupt is framelift's own object.
  if (!places || PyObject_SetAttrString(value, "places", places.get()) < 0) PyErr_Clear();
  Ref root = Ref::steal(Py_BuildValue("(il)", root_unit(r), r->root_probes));
  if (!root || PyObject_SetAttrString(value, "root", root.get()) < 0) PyErr_Clear();
}

PyObject* ask_session(Rehearsal* r, PyObject* method, PyObject* const* args, size_t n) {
  constexpr size_t kFew = 8;
  PyObject* few[kFew];
  std::vector<PyObject*> many(n + 1 > kFew ? n + 1 : 0);
  PyObject** stack = many.empty() ? few : many.data();
  stack[0] = r->session;
  for (size_t i = 0; i < n; i++) stack[i + 1] = args[i];
  Ref result;
  {
    PausedScope paused;
    result = Ref::steal(PyObject_VectorcallMethod(method, stack, n + 1, nullptr));
  }
  left_own_code(r, result);
  return result.release();
}


}  // namespace framelift
