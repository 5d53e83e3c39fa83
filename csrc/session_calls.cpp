// What the Python session tells the probes and asks of them, and how it goes back into captured code.
#include "calls.h"

namespace framelift {

void set_interrupt_type(PyObject* type);
void set_fault_judge(PyObject* judge);
void set_number_types(PyObject* ints, PyObject* floats, PyObject* truths);

#define NEED_REHEARSAL                                                     \
  Rehearsal* r = current_rehearsal();                                      \
  if (!r) {                                                                \
    PyErr_SetString(PyExc_RuntimeError, "no rehearsal in this thread");    \
    return nullptr;                                                        \
  }

static PyObject* mark_external(PyObject*, PyObject* object) {
  NEED_REHEARSAL
  r->external.insert(object);
  Py_RETURN_NONE;
}
static PyObject* mark_internal(PyObject*, PyObject* object) {
  NEED_REHEARSAL
  if (r->internal.insert(object).second) r->kept.push_back(Py_NewRef(object));
  Py_RETURN_NONE;
}
static PyObject* is_external(PyObject*, PyObject* object) {
  NEED_REHEARSAL
  return PyBool_FromLong(r->external.count(object) != 0);
}
static PyObject* is_internal(PyObject*, PyObject* object) {
  NEED_REHEARSAL
  return PyBool_FromLong(r->internal.count(object) != 0);
}
static PyObject* mark_cell(PyObject*, PyObject* cell) {
  NEED_REHEARSAL
  r->cells.emplace(cell, nullptr);
  Py_RETURN_NONE;
}
static PyObject* is_external_cell(PyObject*, PyObject* cell) {
  NEED_REHEARSAL
  return PyBool_FromLong(r->cells.count(cell) != 0);
}
static PyObject* know(PyObject*, PyObject* const* a, Py_ssize_t n) {
  NEED_REHEARSAL
  if (n != 4) return PyErr_Format(PyExc_TypeError, "know(object, name, answer, payload)");
  Known known{(Answer)PyLong_AsLong(a[2]), Py_NewRef(a[3])};
  auto [at, fresh] = r->attributes.emplace(Pair{a[0], a[1]}, known);
  if (!fresh) {
    Py_XDECREF(at->second.payload);
    at->second = known;
  }
  Py_RETURN_NONE;
}
static PyObject* know_class(PyObject*, PyObject* const* a, Py_ssize_t n) {
  NEED_REHEARSAL
  if (n != 4) return PyErr_Format(PyExc_TypeError, "know_class(class, name, answer, payload)");
  Known known{(Answer)PyLong_AsLong(a[2]), Py_NewRef(a[3])};
  auto [at, fresh] = r->class_attributes.emplace(Pair{a[0], a[1]}, known);
  if (!fresh) {
    Py_XDECREF(at->second.payload);
    at->second = known;
  }
  Py_RETURN_NONE;
}
static PyObject* forget(PyObject*, PyObject* const* a, Py_ssize_t n) {
  NEED_REHEARSAL
  if (n != 2) return PyErr_Format(PyExc_TypeError, "forget(object, name)");
  auto found = r->attributes.find({a[0], a[1]});
  if (found != r->attributes.end()) {
    Py_XDECREF(found->second.payload);
    r->attributes.erase(found);
  }
  Py_RETURN_NONE;
}
// captured(callable, args, kwargs): from framelift's own code back into captured code.
static PyObject* captured(PyObject*, PyObject* const* a, Py_ssize_t n) {
  NEED_REHEARSAL
  if (n != 3 || !PyTuple_Check(a[1])) return PyErr_Format(PyExc_TypeError, "captured(callable, args, kwargs)");
  RehearseScope live;
  return dispatch_spread(r, a[0], a[1], a[2]);
}
// natively(callable, args, kwargs): C code runs, the Python frames it starts are captured code.
static PyObject* natively(PyObject*, PyObject* const* a, Py_ssize_t n) {
  NEED_REHEARSAL
  if (n != 3 || !PyTuple_Check(a[1])) return PyErr_Format(PyExc_TypeError, "natively(callable, args, kwargs)");
  RehearseScope live;
  return PyObject_Call(a[0], a[1], a[2] == Py_None ? nullptr : a[2]);
}
// unwatched(callable, args, kwargs): Python code of torch that knows nothing of the program runs plainly; its torch calls are recorded.
static PyObject* unwatched(PyObject*, PyObject* const* a, Py_ssize_t n) {
  NEED_REHEARSAL
  if (n != 3 || !PyTuple_Check(a[1])) return PyErr_Format(PyExc_TypeError, "unwatched(callable, args, kwargs)");
  PausedScope paused;
  at::impl::PythonTorchFunctionTLS::set_disabled_state(at::impl::TorchFunctionDisabledState::ENABLED);
  PyObject* result = PyObject_Call(a[0], a[1], a[2] == Py_None ? nullptr : a[2]);
  if (!result) note_interrupt(r);
  return result;
}
// Every remembered answer for this name is asked again: a class attribute or a global was written.
static PyObject* forget_name(PyObject*, PyObject* name) {
  NEED_REHEARSAL
  for (auto* map : {&r->attributes, &r->class_attributes})
    for (auto at = map->begin(); at != map->end();) {
      if (at->first.b == name) {
        Py_XDECREF(at->second.payload);
        at = map->erase(at);
      } else {
        ++at;
      }
    }
  for (auto at = r->globals.begin(); at != r->globals.end();) {
    if (at->first.b == name) {
      Py_XDECREF(at->second);
      at = r->globals.erase(at);
    } else {
      ++at;
    }
  }
  Py_RETURN_NONE;
}
static PyObject* read(PyObject*, PyObject* const* a, Py_ssize_t n) {
  NEED_REHEARSAL
  if (n != 2) return PyErr_Format(PyExc_TypeError, "read(object, name)");
  PyObject* name = Py_NewRef(a[1]);
  PyUnicode_InternInPlace(&name);
  RehearseScope live;
  PyObject* value = read_attribute(r, a[0], name);
  Py_DECREF(name);
  return value;
}
static PyObject* probe_count(PyObject*, PyObject*) {
  NEED_REHEARSAL
  return PyLong_FromLong(r->probes);
}
// The code that has run in this rehearsal so far, as rows of its times.
static PyObject* rehearsed_code(PyObject*, PyObject*) {
  NEED_REHEARSAL
  return r->times.as_list();
}
// Warnings of C code: rows of filters that ask these two while captured code runs, and match nothing otherwise.  They are C functions, so that
// no frame comes between the code that warns and the question.
static bool is_live() { return thread_state().mode == Mode::Rehearse && current_rehearsal(); }
static thread_local PyObject* warned_text = nullptr;
static PyObject* warning_text(PyObject*, PyObject* text) {
  if (!is_live()) Py_RETURN_FALSE;
  Py_XSETREF(warned_text, Py_NewRef(text));
  Py_RETURN_TRUE;
}
static PyObject* warning_category(PyObject*, PyObject* category) {
  if (!is_live() || !warned_text) Py_RETURN_FALSE;
  PyObject* args[] = {warned_text, category};
  static PyObject* name = PyUnicode_InternFromString("warned");
  warned_text = nullptr;
  PyObject* result = ask_session(current_rehearsal(), name, args, 2);
  Py_DECREF(args[0]);
  return result;
}
static PyObject* is_live_here(PyObject*, PyObject*) { return PyBool_FromLong(is_live()); }
static PyObject* set_numbers(PyObject*, PyObject* const* a, Py_ssize_t n) {
  if (n != 3) return PyErr_Format(PyExc_TypeError, "set_number_types(ints, floats, truths)");
  set_number_types(a[0], a[1], a[2]);
  Py_RETURN_NONE;
}
void set_sealed_types(PyObject* types);  // probes.cpp
static PyObject* set_sealed(PyObject*, PyObject* types) {
  if (!PyTuple_Check(types)) return PyErr_Format(PyExc_TypeError, "set_sealed_types((class, ...))");
  set_sealed_types(types);
  Py_RETURN_NONE;
}
static PyObject* set_judge(PyObject*, PyObject* judge) {
  set_fault_judge(judge);
  Py_RETURN_NONE;
}
static PyObject* set_interrupt(PyObject*, PyObject* type) {
  set_interrupt_type(type);
  Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"mark_external", mark_external, METH_O, "this object is a handle"},
    {"mark_internal", mark_internal, METH_O, "this function or class was made inside"},
    {"is_external", is_external, METH_O, nullptr},
    {"is_internal", is_internal, METH_O, nullptr},
    {"mark_cell", mark_cell, METH_O, "this cell is external"},
    {"is_external_cell", is_external_cell, METH_O, nullptr},
    {"know", (PyCFunction)(void*)know, METH_FASTCALL, "know(object, name, answer, payload)"},
    {"know_class", (PyCFunction)(void*)know_class, METH_FASTCALL, "know_class(class, name, answer, payload)"},
    {"forget", (PyCFunction)(void*)forget, METH_FASTCALL, "forget(object, name)"},
    {"captured", (PyCFunction)(void*)captured, METH_FASTCALL, "captured(callable, args, kwargs)"},
    {"read", (PyCFunction)(void*)read, METH_FASTCALL, "read(object, name): an attribute read of captured code"},
    {"natively", (PyCFunction)(void*)natively, METH_FASTCALL, "natively(callable, args, kwargs)"},
    {"unwatched", (PyCFunction)(void*)unwatched, METH_FASTCALL, "unwatched(callable, args, kwargs): plain frames, recorded torch calls"},
    {"forget_name", forget_name, METH_O, nullptr},
    {"probe_count", probe_count, METH_NOARGS, nullptr},
    {"rehearsed_code", rehearsed_code, METH_NOARGS, "the code that has run in this rehearsal, with its times"},
    {"warning_text", warning_text, METH_O, "a warning of C code begins: whether captured code runs"},
    {"warning_category", warning_category, METH_O, "whether the session says that nobody hears of this warning"},
    {"is_live", is_live_here, METH_O, "whether captured code runs"},
    {"set_number_types", (PyCFunction)(void*)set_numbers, METH_FASTCALL, "set_number_types(ints, floats, truths): the classes of symbolic numbers"},
    {"set_sealed_types", set_sealed, METH_O, "classes whose instances' attributes are not written by captured code"},
    {"set_fault_judge", set_judge, METH_O, "what says whether an exception out of framelift's own code is a defect"},
    {"set_interrupt_type", set_interrupt, METH_O, nullptr},
    {nullptr, nullptr, 0, nullptr}};

bool init_session_calls(PyObject* module) { return PyModule_AddFunctions(module, methods) == 0; }

}  // namespace framelift
