// Sets as they lie in memory: the order in which one iterates, takes in and gives away elements follows from its table,
// which its history made.
#include <Python.h>

#include <string>

#include "barrier.h"
#include "state.h"

namespace framelift {

static bool is_set(PyObject* value) { return PyObject_TypeCheck(value, &PySet_Type); }
// The mark of a slot whose element was removed has a hash that no element has.
static bool is_removed(const setentry& entry) { return entry.key && entry.hash == -1; }

// copy_set(copy, original): an empty set gets the other's table, slot by slot.
static PyObject* copy_set(PyObject*, PyObject* const* a, Py_ssize_t n) {
  if (n != 2 || !is_set(a[0]) || !is_set(a[1]) || a[0] == a[1])
    return PyErr_Format(PyExc_TypeError, "copy_set(copy, original)");
  auto* to = (PySetObject*)a[0];
  auto* from = (PySetObject*)a[1];
  if (to->used || to->fill || to->table != to->smalltable)
    return PyErr_Format(PyExc_ValueError, "copy_set: not a new set");
  Py_ssize_t size = from->mask + 1;
  setentry* table = to->smalltable;
  if (size > PySet_MINSIZE) {
    table = PyMem_New(setentry, size);
    if (!table) return PyErr_NoMemory();
  }
  for (Py_ssize_t i = 0; i < size; i++) {
    table[i] = from->table[i];
    if (table[i].key && !is_removed(table[i])) Py_INCREF(table[i].key);
  }
  to->table = table;
  to->mask = from->mask;
  to->fill = from->fill;
  to->used = from->used;
  to->finger = from->finger;
  Py_RETURN_NONE;
}

// layout_of_set(set): what is in each slot (nothing, an element, one that was removed), and where the next element to
// give away is looked for.
static PyObject* layout_of_set(PyObject*, PyObject* value) {
  if (!PyAnySet_Check(value)) return PyErr_Format(PyExc_TypeError, "layout_of_set(set)");
  auto* set = (PySetObject*)value;
  std::string text = std::to_string(set->finger) + " ";
  for (Py_ssize_t i = 0; i <= set->mask; i++) text += !set->table[i].key ? '.' : is_removed(set->table[i]) ? '-' : 'x';
  return PyBytes_FromStringAndSize(text.data(), (Py_ssize_t)text.size());
}

static MethodTable methods({
    method<copy_set>("copy_set", "copy_set(copy, original): a new set gets the other's elements, where they lie"),
    method<layout_of_set, METH_O>("layout_of_set", "where the elements of a set lie"),
});

bool init_sets(PyObject* module) { return add_functions(module, methods); }

}  // namespace framelift
