// The rehearsal's scopes and its way to call the Python session.
#include "rehearsal.h"

#include "frame_access.h"
#include "places.h"

namespace framelift {

static thread_local Rehearsal* current = nullptr;
Rehearsal* current_rehearsal() { return current; }
void set_current_rehearsal(Rehearsal* r) { current = r; }

static PyObject* interrupt_type = nullptr;  // framelift.reasons.Interrupt
static PyObject* fault_judge = nullptr;     // framelift.rehearsal.faults.fault_of

using at::impl::PythonTorchFunctionTLS;
using at::impl::TorchFunctionDisabledState;

PausedScope::PausedScope() : before(thread_state().mode), torch_before(PythonTorchFunctionTLS::get_disabled_state()) {
  thread_state().mode = Mode::Paused;
  PythonTorchFunctionTLS::set_disabled_state(TorchFunctionDisabledState::ALL_DISABLED);
}
PausedScope::~PausedScope() {
  thread_state().mode = before;
  PythonTorchFunctionTLS::set_disabled_state(torch_before);
}
RehearseScope::RehearseScope() : before(thread_state().mode), torch_before(PythonTorchFunctionTLS::get_disabled_state()) {
  thread_state().mode = Mode::Rehearse;
  PythonTorchFunctionTLS::set_disabled_state(TorchFunctionDisabledState::ENABLED);
}
RehearseScope::~RehearseScope() {
  thread_state().mode = before;
  PythonTorchFunctionTLS::set_disabled_state(torch_before);
}

Rehearsal::~Rehearsal() {
  for (auto& [key, known] : attributes) Py_XDECREF(known.payload);
  for (auto& [key, known] : class_attributes) Py_XDECREF(known.payload);
  for (auto& [key, value] : globals) Py_XDECREF(value);
  for (auto& [key, value] : cells) Py_XDECREF(value);
  for (auto& [key, handler] : marked) Py_XDECREF(handler);
  for (auto& [key, defaults] : functions)
    for (auto& d : defaults) Py_XDECREF(d.imported);
  for (PyObject* object : kept) Py_DECREF(object);
  for (PyObject* reference : made_generators) Py_DECREF(reference);
  Py_XDECREF(interrupt);
}

PyObject* open_coroutine(Rehearsal* r) {
  for (PyObject* object : r->made_generators)
    if (PyCoro_CheckExact(object) && ((PyGenObject*)object)->gi_frame_state < FRAME_EXECUTING) return object;
  return nullptr;
}

void end_generators(Rehearsal* r) {
  for (PyObject* reference : r->made_generators) {
    PyObject* object = PyWeakref_Check(reference) ? PyWeakref_GET_OBJECT(reference) : reference;
    bool is_asynchronous = PyCoro_CheckExact(object) || PyAsyncGen_CheckExact(object);  // generators by another name, of the same layout
    if (is_asynchronous && ((PyGenObject*)object)->gi_frame_state < FRAME_EXECUTING) ((PyGenObject*)object)->gi_frame_state = FRAME_COMPLETED;
    end_generator(object);
  }
}

int root_unit(Rehearsal* r) { return r->root_frame ? frame_unit(r->root_frame) : -1; }

// An exception of framelift's own code that no handler meant for the program becomes a defect, which ends the rehearsal.
static void look_for_fault(Rehearsal* r) {
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  PyErr_NormalizeException(&type, &value, &traceback);
  PyObject* args[] = {value, traceback ? traceback : Py_None};
  PyObject* fault;
  {
    PausedScope paused;
    fault = value && traceback ? PyObject_Vectorcall(fault_judge, args, 2, nullptr) : Py_NewRef(Py_None);
  }
  if (!fault || fault == Py_None) {
    Py_XDECREF(fault);
    PyErr_Clear();
    PyErr_Restore(type, value, traceback);
    return;
  }
  r->interrupt = fault;
  end_generators(r);
  Py_XDECREF(type);
  Py_XDECREF(value);
  Py_XDECREF(traceback);
  PyErr_SetObject((PyObject*)Py_TYPE(fault), fault);
}

void note_interrupt(Rehearsal* r) {
  if (r->interrupt || !interrupt_type) return;
  if (!PyErr_ExceptionMatches(interrupt_type)) {
    bool suspect = PyErr_ExceptionMatches(PyExc_AttributeError) || PyErr_ExceptionMatches(PyExc_NameError) || PyErr_ExceptionMatches(PyExc_AssertionError);
    if (suspect && fault_judge) look_for_fault(r);
    return;
  }
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  PyErr_NormalizeException(&type, &value, &traceback);
  r->interrupt = Py_XNewRef(value);
  end_generators(r);
  PyObject* places = program_places();  // now: the program may swallow the exception later
  if (!places || PyObject_SetAttrString(value, "places", places) < 0) PyErr_Clear();
  Py_XDECREF(places);
  PyObject* root = Py_BuildValue("(il)", root_unit(r), r->root_probes);
  if (!root || PyObject_SetAttrString(value, "root", root) < 0) PyErr_Clear();
  Py_XDECREF(root);
  PyErr_Restore(type, value, traceback);
}

PyObject* ask_session(Rehearsal* r, PyObject* method, PyObject* const* args, size_t n) {
  PyObject* stack[8] = {r->session};
  for (size_t i = 0; i < n; i++) stack[i + 1] = args[i];
  PyObject* result;
  {
    PausedScope paused;
    result = PyObject_VectorcallMethod(method, stack, n + 1, nullptr);
  }
  if (!result) note_interrupt(r);
  return result;
}

void set_fault_judge(PyObject* judge) { Py_XSETREF(fault_judge, Py_NewRef(judge)); }
void set_interrupt_type(PyObject* type) { Py_XSETREF(interrupt_type, Py_NewRef(type)); }

}  // namespace framelift
