// What the Python session tells the probes and asks of them, and how it goes back into captured code.
#include "barrier.h"
#include "calls.h"
#include "frames.h"
#include "set_order.h"

namespace framelift {

#define NEED_REHEARSAL                                                  \
  Rehearsal* r = current_rehearsal();                                   \
  if (!r) {                                                             \
    PyErr_SetString(PyExc_RuntimeError, "no rehearsal in this thread"); \
    return nullptr;                                                     \
  }

// mark_...(object), is_...(object): the objects that one of the rehearsal's tables is about.
template <auto table>
static PyObject* mark(PyObject*, PyObject* object) {
  NEED_REHEARSAL
  (r->*table).insert(object);
  Py_RETURN_NONE;
}
template <auto table>
static PyObject* has(PyObject*, PyObject* object) {
  NEED_REHEARSAL
  return PyBool_FromLong((r->*table).count(object) != 0);
}
static PyObject* tensors_meet(PyObject*, PyObject*) {
  NEED_REHEARSAL
  r->tensors_meet = true;
  Py_RETURN_NONE;
}
static PyObject* mark_cell(PyObject*, PyObject* cell) {
  NEED_REHEARSAL
  r->kept.insert(cell);
  r->cells.try_emplace(cell);
  Py_RETURN_NONE;
}
// know...(object, name, answer, payload)
template <KnownTable Rehearsal::*table>
static PyObject* know(PyObject*, PyObject* const* a, Py_ssize_t n) {
  NEED_REHEARSAL
  if (n != 4) return PyErr_Format(PyExc_TypeError, "(object, name, answer, payload)");
  long answer = PyLong_AsLong(a[2]);
  if (answer == -1 && PyErr_Occurred()) return nullptr;
  put_known(r, r->*table, a[0], a[1], (Answer)answer, a[3]);
  Py_RETURN_NONE;
}
static PyObject* forget(PyObject*, PyObject* const* a, Py_ssize_t n) {
  NEED_REHEARSAL
  if (n != 2) return PyErr_Format(PyExc_TypeError, "forget(object, name)");
  auto row = r->attributes.extract({a[0], a[1]});  // lets go at its end, when the table is without it
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
// unwatched(callable, args, kwargs): Python code of torch that knows nothing of the program runs plainly; its torch
// calls are recorded.
static PyObject* unwatched(PyObject*, PyObject* const* a, Py_ssize_t n) {
  NEED_REHEARSAL
  if (n != 3 || !PyTuple_Check(a[1])) return PyErr_Format(PyExc_TypeError, "unwatched(callable, args, kwargs)");
  PausedScope paused;
  set_torch_functions(torch_functions_on);
  PyObject* result = PyObject_Call(a[0], a[1], a[2] == Py_None ? nullptr : a[2]);
  if (!result) note_interrupt(r);
  return result;
}
// Takes all rows of a name out of a table; they are let go of when the table is without them.
template <typename Table>
static void forget_rows(Table& table, PyObject* name) {
  std::vector<typename Table::node_type> rows;
  for (auto at = table.begin(); at != table.end();) {
    auto next = std::next(at);
    if (at->first.b == name) rows.push_back(table.extract(at));
    at = next;
  }
}
// Every remembered answer for this name is asked again: a class attribute or a global was written.
static PyObject* forget_name(PyObject*, PyObject* name) {
  NEED_REHEARSAL
  forget_rows(r->attributes, name);
  forget_rows(r->class_attributes, name);
  forget_rows(r->globals, name);
  Py_RETURN_NONE;
}
static PyObject* read(PyObject*, PyObject* const* a, Py_ssize_t n) {
  NEED_REHEARSAL
  if (n != 2) return PyErr_Format(PyExc_TypeError, "read(object, name)");
  PyObject* interned = Py_NewRef(a[1]);
  PyUnicode_InternInPlace(&interned);
  Ref name = Ref::steal(interned);
  RehearseScope live;
  return read_attribute(r, a[0], name.get());
}
// The code that has run in this rehearsal so far, as rows of its times.
static PyObject* rehearsed_code(PyObject*, PyObject*) {
  NEED_REHEARSAL
  return r->times.as_list();
}
// timed_apart(function): call a Python function of framelift's; its time is its own, not that of the frame it is for.
static PyObject* timed_apart(PyObject*, PyObject* function) {
  if (!PyFunction_Check(function)) return PyErr_Format(PyExc_TypeError, "timed_apart(function)");
  Rehearsal* r = current_rehearsal();
  if (!r) return PyObject_CallNoArgs(function);
  Times::Frame timed(r->times, r->times.row_of(PyFunction_GET_CODE(function), true));
  return PyObject_CallNoArgs(function);
}
static PyObject* walks_of_sets(PyObject*, PyObject*) { return PyLong_FromLong(set_walks()); }
static PyObject* unordered_walks(PyObject*, PyObject*) { return PyLong_FromLong(unordered_set_walks()); }
// Warnings of C code: rows of filters that ask these two while captured code runs, and match nothing otherwise.  They
// are C functions, so that no frame comes between the code that warns and the question.
static bool is_live() { return thread_state().mode == Mode::Rehearse && current_rehearsal(); }
static thread_local PyObject* warned_text = nullptr;
static PyObject* warning_text(PyObject*, PyObject* text) {
  if (!is_live()) Py_RETURN_FALSE;
  Py_XSETREF(warned_text, Py_NewRef(text));
  Py_RETURN_TRUE;
}
static PyObject* warning_category(PyObject*, PyObject* category) {
  if (!is_live() || !warned_text) Py_RETURN_FALSE;
  static PyObject* name = PyUnicode_InternFromString("warned");
  Ref text = Ref::steal(std::exchange(warned_text, nullptr));
  PyObject* args[] = {text.get(), category};
  return ask_session(current_rehearsal(), name, args, 2);
}
static PyObject* text_shows_address(PyObject*, PyObject* text) { return PyBool_FromLong(shows_address(text)); }

static MethodTable methods({
    method<mark<&Rehearsal::external>, METH_O>("mark_external", "this object is a handle"),
    method<mark<&Rehearsal::tensors>, METH_O>("mark_tensor", "this stands for an external tensor"),
    method<tensors_meet, METH_NOARGS>("tensors_meet", "whether two tensors are one is the session's to say"),
    method<mark<&Rehearsal::internal>, METH_O>("mark_internal", "this function or descriptor was made inside"),
    method<has<&Rehearsal::external>, METH_O>("is_external"),
    method<has<&Rehearsal::internal>, METH_O>("is_internal"),
    method<mark_cell, METH_O>("mark_cell", "this cell is external"),
    method<has<&Rehearsal::cells>, METH_O>("is_external_cell"),
    method<know<&Rehearsal::attributes>>("know", "know(object, name, answer, payload)"),
    method<know<&Rehearsal::class_attributes>>("know_class", "know_class(class, name, answer, payload)"),
    method<forget>("forget", "forget(object, name)"),
    method<captured>("captured", "captured(callable, args, kwargs)"),
    method<read>("read", "read(object, name): an attribute read of captured code"),
    method<natively>("natively", "natively(callable, args, kwargs)"),
    method<unwatched>("unwatched", "unwatched(callable, args, kwargs): plain frames, recorded torch calls"),
    method<forget_name, METH_O>("forget_name"),
    method<timed_apart, METH_O>("timed_apart", "call a function whose time is not that of the frame it is called for"),
    method<rehearsed_code, METH_NOARGS>("rehearsed_code", "the code that has run in this rehearsal, with its times"),
    method<walks_of_sets, METH_NOARGS>(
        "walked_sets", "how many sets were walked whose order the next process may not have"),
    method<unordered_walks, METH_NOARGS>("walked_unordered_sets",
                                         "how many of these sets have other elements than strings and numbers"),
    method<warning_text, METH_O>("warning_text", "a warning of C code begins: whether captured code runs"),
    method<warning_category, METH_O>("warning_category", "whether the session says that nobody hears of this warning"),
    method<text_shows_address, METH_O>("shows_address", "whether a text or bytes show where an object lies in memory"),
});

bool init_session_calls(PyObject* module) { return add_functions(module, methods); }

}  // namespace framelift
