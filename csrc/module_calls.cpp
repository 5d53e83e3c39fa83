// Calls of module wrappers (capture/module_wrapper.py): straight to the callable that a wrapper holds.
#include "barrier.h"
#include "frames.h"
#include "reference.h"
#include "state.h"

namespace framelift {

static PyTypeObject* wrapper = nullptr;  // the class, kept; its `__call__` is a property that reads `held_name`
static PyObject* held_name = nullptr;
static ternaryfunc by_lookup = nullptr;  // what CPython does for a class with this `__call__`
static unsigned version = 0;             // of the class, when it had nothing of that name itself

// As the property reads it: from the object's own dictionary, while the class has nothing of this name.  Borrowed.
static PyObject* held_by(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  if (type != wrapper) return nullptr;
  if (!version || type_version(type) != version) {
    if (_PyType_Lookup(type, held_name)) return nullptr;
    version = type_version(type);  // the lookup has given the class a version, where there are any left
  }
  PyObject** dict = _PyObject_GetDictPtr(self);
  return dict && *dict && dict_has_only_strings(*dict) ? PyDict_GetItemWithError(*dict, held_name) : nullptr;
}

static PyObject* call_held(PyObject* self, PyObject* args, PyObject* keywords) {
  Ref held = Ref::new_ref(held_by(self));
  if (!held || !is_compiled(held.get())) return by_lookup(self, args, keywords);
  return call_whole(held.get(), args, keywords);
}

// call_through(class, name): calls of its instances are calls of what they hold under this name, as its `__call__`
// says, a property.  CPython puts its own way back when `__call__` is set, and gives it to subclasses.
static PyObject* call_through(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (n != 2 || wrapper || !PyType_Check(args[0]) || !PyUnicode_CheckExact(args[1]))
    return PyErr_Format(PyExc_TypeError, "call_through(class, name), once");
  wrapper = (PyTypeObject*)Py_NewRef(args[0]);
  held_name = Py_NewRef(args[1]);
  PyUnicode_InternInPlace(&held_name);
  by_lookup = wrapper->tp_call;
  wrapper->tp_call = slot<call_held>;
  Py_RETURN_NONE;
}

static MethodTable methods({
    method<call_through>("call_through", "call_through(class, name): its instances are called as what they hold"),
});

bool init_module_calls(PyObject* module) { return add_functions(module, methods); }

}  // namespace framelift
