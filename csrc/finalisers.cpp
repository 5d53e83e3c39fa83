// The end of objects with a finaliser, watched.  A rehearsal holds objects longer than the program does, never shorter:
// so what is looked for is a moment at which only framelift, or the stack of a call that is over, held the object.
#include "finalisers.h"

#include "barrier.h"
#include "evaluator.h"
#include "frames.h"

namespace framelift {

static PyObject* finaliser_of(PyTypeObject* type) {
  static PyObject* const name = PyUnicode_InternFromString("__del__");
  return _PyType_Lookup(type, name);
}

bool is_watchable(PyObject* cls) {
  if (!has_finaliser(cls)) return false;
  PyTypeObject* type = (PyTypeObject*)cls;
  PyObject* finaliser = finaliser_of(type);
  return finaliser && PyFunction_Check(finaliser) && PyType_IS_GC(type) && type->tp_weaklistoffset != 0 &&
         Py_TYPE(cls)->tp_call == PyType_Type.tp_call;
}

static void deny(Rehearsal* r, PyTypeObject* type) {
  static PyObject* const name = PyUnicode_InternFromString("deny_finalised");
  PyObject* args[] = {(PyObject*)type, Py_None};
  Ref::steal(ask_session(r, name, args, 2));
}

int watch_end(Rehearsal* r, PyObject* object) {
  auto found = r->watched.find(object);
  if (found != r->watched.end() && PyWeakref_GET_OBJECT(found->second.get()) == object) return 0;
  Ref reference = Ref::steal(PyWeakref_NewRef(object, nullptr));
  if (!reference) return -1;
  r->watched[object] = std::move(reference);
  r->has_watched = true;
  hold_hook();
  return 0;
}

PyObject* make_watched(Rehearsal* r, PyObject* cls, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames) {
  PyTypeObject* type = (PyTypeObject*)cls;
  if (!r->watches || r->interrupt) {
    deny(r, type);
    return nullptr;
  }
  Ref positional = tuple_of(args, nargs), keywords;
  if (!positional) return nullptr;
  if (kwnames && PyTuple_GET_SIZE(kwnames)) {
    keywords = Ref::steal(PyDict_New());
    for (Py_ssize_t i = 0; keywords && i < PyTuple_GET_SIZE(kwnames); i++)
      if (PyDict_SetItem(keywords.get(), PyTuple_GET_ITEM(kwnames, i), args[nargs + i]) < 0) return nullptr;
    if (!keywords) return nullptr;
  }
  Ref made = Ref::steal(type->tp_new(type, positional.get(), keywords.get()));
  if (!made || !PyObject_TypeCheck(made.get(), type)) return made.release();
  type = Py_TYPE(made.get());
  if (has_finaliser((PyObject*)type) && watch_end(r, made.get()) < 0) return nullptr;
  if (type->tp_init && type->tp_init(made.get(), positional.get(), keywords.get()) < 0) return nullptr;
  return made.release();
}

bool have_ended(Rehearsal* r) {
  for (auto& [object, reference] : r->watched)
    if (PyWeakref_GET_OBJECT(reference.get()) == object) {
      deny(r, Py_TYPE(object));
      return false;
    }
  return true;
}

void end_finalisers(Rehearsal* r) {
  for (auto& [object, reference] : r->watched)
    if (PyWeakref_GET_OBJECT(reference.get()) == object) take_finaliser(object);
}

bool is_finaliser(Rehearsal* r, Frame* frame) {
  if (r->watched.empty() || frame_code(frame)->co_argcount < 1) return false;
  PyObject* object = frame_value(frame, 0);
  auto found = object ? r->watched.find(object) : r->watched.end();
  if (found == r->watched.end()) return false;
  PyObject* referred = PyWeakref_GET_OBJECT(found->second.get());  // None: the collector found it, in a cycle
  return (referred == object || referred == Py_None) &&
         finaliser_of(Py_TYPE(object)) == (PyObject*)frame_function(frame);
}

bool is_programs_moment(Rehearsal* r, Frame* frame) {
  bool after_call = frame && frame != r->calling && frame == r->left && frame_unit(frame) == r->left_unit;
  return thread_state().mode == Mode::Rehearse && !after_call;
}

bool may_finalise(Rehearsal* r, Frame* frame) {
  PyObject* object = frame_value(frame, 0);
  Ref kept = std::move(r->watched[object]);
  bool collected = PyWeakref_GET_OBJECT(kept.get()) != object;  // when that happens is not the program's to say
  bool own_moment = collected || !is_programs_moment(r, current_frame(PyThreadState_Get()));
  r->watched.erase(object);
  if (r->interrupt) return false;
  if (own_moment) {
    deny(r, Py_TYPE(object));
    PyErr_Clear();  // the interrupt is noted
  }
  return !own_moment;
}

PyObject* finalised(Rehearsal* r, PyObject* object, PyObject* result) {
  // Who calls finalisers holds the object, and its frame does; any other holder gives it a second life.
  bool lives_on = Py_REFCNT(object) > 2;
  if (result && !lives_on) return result;
  Py_XDECREF(result);
  PyErr_Clear();
  if (!r->interrupt) deny(r, Py_TYPE(object));
  PyErr_Clear();
  return Py_NewRef(Py_None);
}

}  // namespace framelift
