// Probes of variables: globals and cells.
#include "probes.h"

namespace framelift {

static PyObject* const name_delete_cell = interned("delete_cell");
static PyObject *const name_delete_global = interned("delete_global"), *const name_load_cell = interned("load_cell");
static PyObject *const name_load_global = interned("load_global"), *const name_store_cell = interned("store_cell");
static PyObject* const name_store_global = interned("store_global");

static PyObject* global_of_frame(PyObject* name) {
  PyObject* globals = PyEval_GetGlobals();
  PyObject* value = globals ? PyDict_GetItemWithError(globals, name) : nullptr;
  if (!value && !PyErr_Occurred()) value = PyDict_GetItemWithError(PyEval_GetBuiltins(), name);
  if (!value && !PyErr_Occurred()) PyErr_Format(PyExc_NameError, "name '%U' is not defined", name);
  return Py_XNewRef(value);
}

static PyObject* read_global(Rehearsal* r, PyObject* globals, PyObject* name) {
  auto found = r->globals.find({globals, name});
  if (found != r->globals.end()) return Py_NewRef(found->second.get());
  PyObject* args[] = {globals, name, PyEval_GetBuiltins()};
  Ref value = Ref::steal(ask_session(r, name_load_global, args, 3));
  if (!value) return nullptr;
  r->kept.insert(globals);
  r->kept.insert(name);
  r->globals[{globals, name}] = Ref::new_ref(value.get());
  return value.release();
}

PyObject* load_global(PyObject*, PyObject* const* a, Py_ssize_t n) {
  PROBE(1)
  return r ? read_global(r, PyEval_GetGlobals(), a[0]) : global_of_frame(a[0]);
}

PyObject* store_global(PyObject*, PyObject* const* a, Py_ssize_t n) {
  PROBE(2)
  PyObject* globals = PyEval_GetGlobals();
  if (!r) {
    if (PyDict_SetItem(globals, a[1], a[0]) < 0) return nullptr;
    Py_RETURN_NONE;
  }
  PyObject* args[] = {globals, a[1], a[0]};
  return ask_session(r, name_store_global, args, 3);
}

PyObject* delete_global(PyObject*, PyObject* const* a, Py_ssize_t n) {
  PROBE(1)
  PyObject* globals = PyEval_GetGlobals();
  if (!r) {
    if (PyDict_DelItem(globals, a[0]) < 0) return nullptr;
    Py_RETURN_NONE;
  }
  PyObject* args[] = {globals, a[0]};
  return ask_session(r, name_delete_global, args, 2);
}

static PyObject* unbound_cell(PyObject* name) {
  if (PyTuple_Check(name))
    return PyErr_Format(PyExc_UnboundLocalError,
                        "cannot access local variable '%U' where it is not associated with a value",
                        PyTuple_GET_ITEM(name, 0));
  return PyErr_Format(PyExc_NameError,
                      "cannot access free variable '%U' where it is not associated with a value in enclosing scope",
                      name);
}

static PyObject* read_cell(Rehearsal* r, PyObject* cell, PyObject* name) {
  auto found = r ? r->cells.find(cell) : decltype(r->cells.end())();
  if (!r || found == r->cells.end()) {
    PyObject* value = PyCell_GET(cell);
    return value ? Py_NewRef(value) : unbound_cell(name);
  }
  if (found->second) return Py_NewRef(found->second.get());
  PyObject* args[] = {cell, name};
  Ref value = Ref::steal(ask_session(r, name_load_cell, args, 2));
  if (value) r->cells[cell] = Ref::new_ref(value.get());
  return value.release();
}

PyObject* load_deref(PyObject*, PyObject* const* a, Py_ssize_t n) {
  PROBE(2)
  return read_cell(r, a[0], a[1]);
}

PyObject* store_cell(Rehearsal* r, PyObject* cell, PyObject* value) {
  PyObject* args[] = {cell, value};
  Ref done = Ref::steal(ask_session(r, name_store_cell, args, 2));
  if (done) r->cells[cell] = Ref::new_ref(value);
  return done.release();
}

PyObject* delete_cell(Rehearsal* r, PyObject* cell, PyObject* name) {
  PyObject* args[] = {cell, name};
  Ref done = Ref::steal(ask_session(r, name_delete_cell, args, 2));
  if (done) r->cells[cell].reset();
  return done.release();
}

// `cell.cell_contents` of an external cell, as its variable would be read; an empty one raises as the attribute does.
PyObject* read_contents(Rehearsal* r, PyObject* cell, PyObject* name) {
  PyObject* value = read_cell(r, cell, name);
  if (!value && !r->interrupt && PyErr_ExceptionMatches(PyExc_NameError))
    PyErr_SetString(PyExc_ValueError, "Cell is empty");
  return value;
}

PyObject* store_deref(PyObject*, PyObject* const* a, Py_ssize_t n) {
  PROBE(2)
  if (r && r->cells.count(a[1])) return store_cell(r, a[1], a[0]);
  PyCell_Set(a[1], a[0]);
  Py_RETURN_NONE;
}

PyObject* delete_deref(PyObject*, PyObject* const* a, Py_ssize_t n) {
  PROBE(2)
  if (r && r->cells.count(a[0])) return delete_cell(r, a[0], a[1]);
  if (!PyCell_GET(a[0])) return unbound_cell(a[1]);
  PyCell_Set(a[0], nullptr);
  Py_RETURN_NONE;
}

}  // namespace framelift
