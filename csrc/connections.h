// What the core needs of framelift's Python code, by name.  Each unit lists its own connections; Python hands the
// values over with connect(name=value, ...).
#pragma once
#include <Python.h>

#include <initializer_list>
#include <unordered_set>

namespace framelift {

struct Connection {
  const char* name;
  PyObject** place;                   // where the value is kept; None: nothing is
  bool (*take)(PyObject*) = nullptr;  // or what makes something of it; false with an exception set
};

// The connections of one unit, declared at namespace scope.
class Connections {
 public:
  Connections(std::initializer_list<Connection> rows);
};

// Adds the classes of a tuple to a table, and keeps them alive.
bool add_classes(std::unordered_set<PyTypeObject*>& table, PyObject* classes);
// The same for callables: an address is an identity only while the object lives.
bool add_callables(std::unordered_set<PyObject*>& table, PyObject* callables);

template <auto& table>
bool take_classes(PyObject* classes) {
  return add_classes(table, classes);
}

template <auto& table>
bool take_callables(PyObject* callables) {
  return add_callables(table, callables);
}

}  // namespace framelift
