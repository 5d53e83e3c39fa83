// See guard_told.h.  CPython calls watchers of functions before a change.  `__class__` and `__dict__` have none, but
// each is set by one C function, which rows of its tables name: object's own, and the two that all classes written in
// Python share.  There our function is put before it.
#include "guard_told.h"

#include <cstring>

#include "barrier.h"
#include "own_attributes.h"
#include "reference.h"

namespace framelift {

static uint64_t times = 0;
uint64_t fields_set() { return times; }

// ---- functions ----

#if PY_VERSION_HEX >= 0x030c0000

static int on_function(PyFunction_WatchEvent event, PyFunctionObject*, PyObject*) noexcept {
  if (event != PyFunction_EVENT_CREATE && event != PyFunction_EVENT_DESTROY) times++;
  return 0;
}

static bool hears_of_functions() {
  static const bool added = [] {
    bool is_so = PyFunction_AddWatcher(slot<on_function>) >= 0;
    if (!is_so) PyErr_Clear();
    return is_so;
  }();
  return added;
}

#else

static bool hears_of_functions() { return false; }

#endif

// ---- classes and dictionaries of objects ----

static setter set_class = nullptr, set_dict = nullptr;  // CPython's own

// Counted on both sides: either way the change lies after a number that somebody may have seen.
template <const setter& original>
static int on_set(PyObject* object, PyObject* value, void* closure) noexcept {
  times++;
  int done = original(object, value, closure);
  times++;
  return done;
}

// The row of CPython's table behind what a class itself has under this name.
static PyGetSetDef* row_of(PyObject* cls, const char* name) {
#if PY_VERSION_HEX >= 0x030c0000
  Ref own = Ref::steal(PyType_GetDict((PyTypeObject*)cls));  // that of built-in classes is elsewhere
#else
  Ref own = Ref::new_ref(((PyTypeObject*)cls)->tp_dict);
#endif
  PyObject* found = own ? PyDict_GetItemString(own.get(), name) : nullptr;
  bool is_row = found && Py_IS_TYPE(found, &PyGetSetDescr_Type);
  return is_row ? ((PyGetSetDescrObject*)found)->d_getset : nullptr;
}

static bool listen() {
  Ref usual = Ref::steal(PyObject_CallFunction((PyObject*)&PyType_Type, "s(){}", "probe"));
  Ref slotted = Ref::steal(PyObject_CallFunction((PyObject*)&PyType_Type, "s(){ss}", "probe", "__slots__", "__dict__"));
  if (!usual || !slotted) return PyErr_Clear(), false;
  PyGetSetDef* of_class = row_of((PyObject*)&PyBaseObject_Type, "__class__");
  PyGetSetDef *full = row_of(usual.get(), "__dict__"), *only = row_of(slotted.get(), "__dict__");
  if (!of_class || !of_class->set || !full || !full->set || !only || only == full || only->set != full->set)
    return false;
  set_class = of_class->set;
  set_dict = full->set;
  of_class->set = slot<on_set<set_class>>;
  full->set = only->set = slot<on_set<set_dict>>;
  return true;
}

bool hears_of_fields() {
  static const bool listens = listen();
  return listens;
}

// Whether the dictionary of its instances is set by our function alone: each class of the MRO may have a way to it.
static bool dict_is_told(PyTypeObject* type) {
  if (!(type->tp_flags & Py_TPFLAGS_HEAPTYPE) || !(type->tp_flags & Py_TPFLAGS_MANAGED_DICT)) return false;
  bool found = false;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(type->tp_mro); i++) {
    PyObject* cls = PyTuple_GET_ITEM(type->tp_mro, i);
    if (!PyType_Check(cls)) return false;
    const PyGetSetDef* row = row_of(cls, "__dict__");
    if (row && row->set != slot<on_set<set_dict>>) return false;
    found = found || row;
  }
  return found;
}

static void add_function(PyFunctionObject* function, std::unordered_set<const void*>& to) {
  for (PyObject* const* at : {&function->func_code, &function->func_defaults, &function->func_kwdefaults})
    to.insert(at);
  PyObject* defaults = function->func_defaults;  // which holds its items while the function holds it
  if (!defaults || !PyTuple_Check(defaults)) return;
  to.insert(&((PyVarObject*)defaults)->ob_size);
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(defaults); i++) to.insert(&PyTuple_GET_ITEM(defaults, i));
}

void add_told(PyObject* object, const std::unordered_set<const void*>& unchanged, std::unordered_set<const void*>& to) {
  to.insert(&object->ob_type);
  if (PyFunction_Check(object) && hears_of_functions()) return add_function((PyFunctionObject*)object, to);
  PyObject* dict = attributes_at(object);
  if (dict && unchanged.contains(dict) && dict_is_told(Py_TYPE(object))) to.insert((PyObject**)object - 3);
}

}  // namespace framelift
