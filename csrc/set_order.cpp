// Sets of handles iterate by the handles' addresses: once captured code sees that order, which objects they are is a
// fact.
#include "set_order.h"

#include "barrier.h"
#include "frames.h"
#include "tensor_class.h"

namespace framelift {

#if PY_VERSION_HEX >= 0x030d0000
// exported, no longer declared
extern "C" PyAPI_FUNC(int) _PySet_NextEntry(PyObject*, Py_ssize_t*, PyObject**, Py_hash_t*);
#endif

static PyObject* const name_note_order = interned("note_order");
static long walks = 0, unordered_walks = 0;

long set_walks() { return walks; }
long unordered_set_walks() { return unordered_walks; }

// Whether an element has the same hash in every process: numbers have.
static bool same_hash_everywhere(PyObject* element) {
  return PyLong_CheckExact(element) || PyBool_Check(element) || PyFloat_CheckExact(element);
}

// Whether an element's hash may come from an address outside: a handle, a tensor, or what holds one.
static bool by_address(Rehearsal* r, PyObject* element) {
  if (PyUnicode_CheckExact(element) || PyLong_CheckExact(element)) return false;
  return r->external.count(element) || PyTuple_Check(element) || PyAnySet_Check(element) || PyMethod_Check(element) ||
         PyCFunction_Check(element) || PyWeakref_Check(element) || Py_IS_TYPE(element, method_wrapper_type()) ||
         is_tensor(element);
}

int note_order(Rehearsal* r, PyObject* obj) {
  if (!PyAnySet_Check(obj) || PySet_GET_SIZE(obj) < 2) return 0;
  Py_ssize_t position = 0;
  PyObject* element;
  Py_hash_t hash;
  bool counted = false, unordered = false;
  while (_PySet_NextEntry(obj, &position, &element, &hash)) {
    if (!counted && !same_hash_everywhere(element)) {
      counted = true;
      walks++;
    }
    if (!unordered && !same_hash_everywhere(element) && !PyUnicode_CheckExact(element) && element != Py_None) {
      unordered = true;
      unordered_walks++;
    }
    if (!by_address(r, element)) continue;
    PyObject* args[] = {obj};
    return Ref::steal(ask_session(r, name_note_order, args, 1)) ? 0 : -1;
  }
  return 0;
}

Ref texts_of_set(PyObject* obj) {
  if (!PyAnySet_CheckExact(obj) || PySet_GET_SIZE(obj) < 2) return {};
  Ref texts = Ref::steal(PyList_New(0));
  Py_ssize_t position = 0;
  PyObject* element;
  Py_hash_t hash;
  while (texts && _PySet_NextEntry(obj, &position, &element, &hash))
    if (!PyUnicode_CheckExact(element) || PyList_Append(texts.get(), element) < 0) return {};
  return texts;
}

// The methods of sets themselves do not show their order, but for one.
int note_orders(Rehearsal* r, PyObject* callable, PyObject* const* args, Py_ssize_t nargs) {
  PyObject* receiver = PyCFunction_Check(callable) ? PyCFunction_GET_SELF(callable) : nullptr;
  static PyObject* const pop = PyObject_GetAttrString((PyObject*)&PySet_Type, "pop");
  if (receiver && PyAnySet_Check(receiver)) {
    bool is_pop = ((PyCFunctionObject*)callable)->m_ml == ((PyMethodDescrObject*)pop)->d_method;
    return is_pop ? note_order(r, receiver) : 0;
  }
  for (Py_ssize_t i = 0; i < nargs; i++)
    if (note_order(r, args[i]) < 0) return -1;
  return 0;
}

// Subclasses take the slot over when they are made, so ours may outlive its scope: it is the original without a
// rehearsal.
static getiterfunc original_set_iter, original_frozenset_iter;
static binaryfunc original_extend;  // of `list += set`, which has no iterator from CPython 3.13 on
static long scopes = 0;

static bool seen(PyObject* set) {
  Rehearsal* r = thread_state().mode == Mode::Rehearse ? current_rehearsal() : nullptr;
  return !r || r->interrupt || note_order(r, set) == 0;
}
static PyObject* walk_set(PyObject* set) { return seen(set) ? original_set_iter(set) : nullptr; }
static PyObject* walk_frozenset(PyObject* set) { return seen(set) ? original_frozenset_iter(set) : nullptr; }
static PyObject* extend(PyObject* list, PyObject* by) { return seen(by) ? original_extend(list, by) : nullptr; }

WalksScope::WalksScope() {
  if (scopes++) return;
  PySet_Type.tp_iter = slot<walk_set>;
  PyFrozenSet_Type.tp_iter = slot<walk_frozenset>;
  PyList_Type.tp_as_sequence->sq_inplace_concat = slot<extend>;
}
WalksScope::~WalksScope() {
  if (--scopes) return;
  PySet_Type.tp_iter = original_set_iter;
  PyFrozenSet_Type.tp_iter = original_frozenset_iter;
  PyList_Type.tp_as_sequence->sq_inplace_concat = original_extend;
}

void init_set_order() {
  original_set_iter = PySet_Type.tp_iter;
  original_frozenset_iter = PyFrozenSet_Type.tp_iter;
  original_extend = PyList_Type.tp_as_sequence->sq_inplace_concat;
}

}  // namespace framelift
