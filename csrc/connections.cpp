#include "connections.h"

#include <cstring>
#include <vector>

#include "barrier.h"
#include "reference.h"
#include "state.h"

namespace framelift {

static std::vector<Connection>& all() {
  static std::vector<Connection> rows;
  return rows;
}

Connections::Connections(std::initializer_list<Connection> rows) { all().insert(all().end(), rows); }

static std::unordered_set<const char*> taken;  // names of rows without a place that were connected

static bool connect_one(const Connection& row, PyObject* value) {
  if (row.take) {
    taken.insert(row.name);
    return row.take(value);
  }
  Py_XSETREF(*row.place, value == Py_None ? nullptr : Py_NewRef(value));
  return true;
}

// connect(name=value, ...)
static PyObject* connect(PyObject*, PyObject* const* values, Py_ssize_t n, PyObject* names) {
  if (n) return PyErr_Format(PyExc_TypeError, "connect takes values by name");
  for (Py_ssize_t i = 0; names && i < PyTuple_GET_SIZE(names); i++) {
    PyObject* name = PyTuple_GET_ITEM(names, i);
    const char* text = PyUnicode_AsUTF8(name);
    if (!text) return nullptr;
    const Connection* found = nullptr;
    for (const Connection& row : all())
      if (!strcmp(row.name, text)) found = &row;
    if (!found) return PyErr_Format(PyExc_TypeError, "the core has no connection named %R", name);
    if (!connect_one(*found, values[i])) return nullptr;
  }
  Py_RETURN_NONE;
}

// connections(): {name: whether a value is there}
static PyObject* connections(PyObject*, PyObject*) {
  Ref made = Ref::steal(PyDict_New());
  for (const Connection& row : all()) {
    bool there = row.place ? *row.place != nullptr : taken.count(row.name) > 0;
    if (!made || PyDict_SetItemString(made.get(), row.name, there ? Py_True : Py_False) < 0) return nullptr;
  }
  return made.release();
}

bool add_classes(std::unordered_set<PyTypeObject*>& table, PyObject* classes) {
  Ref given = Ref::steal(PySequence_Tuple(classes));
  for (Py_ssize_t i = 0; given && i < PyTuple_GET_SIZE(given.get()); i++)
    table.insert((PyTypeObject*)Py_NewRef(PyTuple_GET_ITEM(given.get(), i)));
  return bool(given);
}

bool add_callables(std::unordered_set<PyObject*>& table, PyObject* callables) {
  Ref given = Ref::steal(PySequence_Tuple(callables));
  for (Py_ssize_t i = 0; given && i < PyTuple_GET_SIZE(given.get()); i++)
    table.insert(Py_NewRef(PyTuple_GET_ITEM(given.get(), i)));
  return bool(given);
}

static MethodTable methods({
    method<connect>("connect", "connect(name=value, ...): what the core calls and knows"),
    method<connections, METH_NOARGS>("connections", "the names for `connect`, and whether each has its value"),
});

bool init_connections(PyObject* module) { return add_functions(module, methods); }

}  // namespace framelift
