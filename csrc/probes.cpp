// The probes: C functions that twins call in place of a dozen opcodes.  An internal object costs a look-up; only
// external objects reach the Python session, and only at the first read.  Outside a rehearsal a probe does what its
// opcode does.
#include "probes.h"

#include <cstring>

#include "barrier.h"
#include "connections.h"
#include "frame_access.h"
#include "resume.h"
#include "set_order.h"

namespace framelift {

static PyObject *const mark_address = interned(" at 0x"), *const mark_class = interned("<class '");
static PyObject *const mark_star = interned("*"), *const name_check_with = interned("check_with");
static PyObject *const name_contains_tensor = interned("contains_tensor"), *const name_cut = interned("cut");
static PyObject* const name_formatted = interned("formatted");
static PyObject *const name_import_from = interned("import_from"), *const name_import_name = interned("import_name");
static PyObject* const name_match_class = interned("match_class");
static PyObject *const name_match_kind = interned("match_kind"), *const name_same_object = interned("same_object");
static PyObject *const name_shows_address = interned("shows_address"), *const name_spread = interned("spread");
static std::unordered_set<PyTypeObject*> leaf_types;               // whose instances hold nothing
static PyObject* number_types[3] = {nullptr, nullptr, nullptr};  // symbolic ints, floats and truth values

static Connections connections({{"symbolic_int", &number_types[0]},
                                {"symbolic_float", &number_types[1]},
                                {"symbolic_bool", &number_types[2]},
                                {"leaf_types", nullptr, take_classes<leaf_types>}});

void count_probe(Rehearsal* r) {
  if (current_frame(PyThreadState_Get()) == r->root_frame) r->root_probes++;
}

bool raise_again(Rehearsal* r) {
  check_hook(r);
  if (r->stopped) {
    raise_stop();
    return true;
  }
  if (!r->interrupt) return false;
  PyErr_SetObject((PyObject*)Py_TYPE(r->interrupt), r->interrupt);
  return true;
}

static PyObject* import_name(PyObject*, PyObject* const* a, Py_ssize_t n) {
  PROBE(3)
  PyObject* globals = PyEval_GetGlobals();
  if (r) {
    PyObject* args[] = {globals, a[0], a[1], a[2]};
    return ask_session(r, name_import_name, args, 4);
  }
  // Without a rehearsal: plain Python.
  PyObject* imports = PyDict_GetItemString(PyEval_GetBuiltins(), "__import__");
  if (!imports) return PyErr_SetString(PyExc_ImportError, "__import__ not found"), nullptr;
  PyObject* args[] = {a[2], globals, Py_None, a[1], a[0]};
  return PyObject_Vectorcall(imports, args, 5, nullptr);
}

static PyObject* import_from(PyObject*, PyObject* const* a, Py_ssize_t n) {
  PROBE(2)
  // Without a rehearsal: plain Python.
  return r ? ask_session(r, name_import_from, a, 2) : PyObject_GetAttr(a[0], a[1]);
}

static PyObject* before_with(PyObject*, PyObject* const* a, Py_ssize_t n) {
  PROBE(1)
  if (r) {
    if (is_heap_type(Py_TYPE(a[0])) && note_class(r, (PyObject*)Py_TYPE(a[0])) < 0) return nullptr;
    Ref other = Ref::steal(ask_session(r, name_check_with, a, 1));  // None: the manager itself
    if (other.get() != Py_None) return other.release();
  }
  return Py_NewRef(a[0]);
}

static PyObject* match_class(PyObject*, PyObject* const* a, Py_ssize_t n) {
  Rehearsal* r = current_rehearsal();
  if (!r) return PyErr_Format(PyExc_SystemError, "match_class outside a rehearsal");
  if (raise_again(r)) return nullptr;
  return ask_session(r, name_match_class, a, n);
}

// Whether a pattern takes it for a sequence or mapping is decided by flags of its class, which C code looks at.
static PyObject* match_kind(PyObject*, PyObject* const* a, Py_ssize_t n) {
  PROBE(1)
  if (r && is_heap_type(Py_TYPE(a[0]))) {
    if (!Ref::steal(ask_session(r, name_match_kind, a, 1))) return nullptr;
  }
  return Py_NewRef(a[0]);
}

static PyObject* make_function(PyObject*, PyObject* const* a, Py_ssize_t n) {
  PROBE(1)
  if (r) r->internal.insert(a[0]);
  return Py_NewRef(a[0]);
}

// Texts that CPython makes of objects without a text of their own show where they lie: "<object object at 0x7f...>".
bool shows_address(PyObject* text) {
  static const char mark[] = " at 0x";
  const char* data = nullptr;
  Py_ssize_t size = 0;
  if (PyUnicode_Check(text)) {
    if (PyUnicode_GET_LENGTH(text) < (Py_ssize_t)strlen(mark)) return false;
    return PyUnicode_Find(text, mark_address, 0, PyUnicode_GET_LENGTH(text), 1) >= 0;
  }
  if (PyBytes_Check(text)) data = PyBytes_AS_STRING(text), size = PyBytes_GET_SIZE(text);
  if (PyByteArray_Check(text)) data = PyByteArray_AS_STRING(text), size = PyByteArray_GET_SIZE(text);
  return data && memmem(data, size, mark, strlen(mark));
}

// Texts of classes: "<class 'module.Name'>".
static bool shows_class(PyObject* text) {
  return PyUnicode_Check(text) && PyUnicode_GET_LENGTH(text) >= PyUnicode_GET_LENGTH(mark_class) &&
         PyUnicode_Find(text, mark_class, 0, PyUnicode_GET_LENGTH(text), 1) >= 0;
}

// The text that an f-string or `%` made of a value: it must not show where an object made inside lies in memory, and
// names of classes that it shows are guarded.
static PyObject* check_text(PyObject*, PyObject* const* a, Py_ssize_t n) {
  PROBE(1)
  if (!r || !(shows_address(a[0]) || shows_class(a[0]))) return Py_NewRef(a[0]);
  return ask_session(r, name_shows_address, a, 1);
}

static bool is_truth_type(PyTypeObject* t) { return (PyObject*)t == number_types[2]; }
static bool is_number_type(PyTypeObject* t) {
  return (PyObject*)t == number_types[0] || (PyObject*)t == number_types[1] || is_truth_type(t);
}

// Whether two external objects that are alike are one object may differ from call to call: mutable ones are guarded
// to be different, of the others the session has to hear.
static bool is_identity_a_question(Rehearsal* r, PyObject* x, PyObject* y) {
  PyTypeObject* type = Py_TYPE(x);
  if (r->tensors_meet && is_tensor(x) && is_tensor(y)) return true;
  if (type != Py_TYPE(y)) return is_symbolic_number(x) || is_symbolic_number(y);
  if (type == &PyLong_Type) {  // small ints exist once
    int beyond = 0;
    long value = PyLong_AsLongAndOverflow(x, &beyond);
    return beyond || value < -5 || value > 256;
  }
  if (type == &PyUnicode_Type) return PyUnicode_GET_LENGTH(x) == PyUnicode_GET_LENGTH(y) && PyUnicode_GET_LENGTH(x) > 1;
  if (PyType_Check(x)) return false;  // classes are guarded by identity
  if (type == &PyTuple_Type) return PyTuple_GET_SIZE(x) == PyTuple_GET_SIZE(y) && PyTuple_GET_SIZE(x) > 0;
  if (!is_heap_type(type))
    return !(is_open_static(type) && type != &PyMethod_Type) && type != &PyList_Type && type != &PyDict_Type &&
           type != &PySet_Type;
  return PyTuple_Check(x) || is_number_type(type) || type->tp_dealloc != Py_TYPE(r->session)->tp_dealloc;
}

static PyObject* same_object(PyObject*, PyObject* const* a, Py_ssize_t n) {
  PROBE(2)
  bool single = a[0] == Py_None || a[1] == Py_None || PyBool_Check(a[0]) || PyBool_Check(a[1]);
  if (single && (is_truth_type(Py_TYPE(a[0])) || is_truth_type(Py_TYPE(a[1])))) single = false;
  if (r && !single && is_identity_a_question(r, a[0], a[1])) return ask_session(r, name_same_object, a, 2);
  return PyBool_FromLong(a[0] == a[1]);
}

// C code would ask each comparison with a tensor for its truth, which only the graph may know.
static bool compares_tensors(PyObject* item, PyObject* o) {
  if (is_tensor(o)) return true;
  if (!PyList_CheckExact(o) && !PyTuple_CheckExact(o)) return false;
  if (is_tensor(item)) return true;
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(o); i++)
    if (is_tensor(PySequence_Fast_GET_ITEM(o, i))) return true;
  return false;
}

static PyObject* contains(PyObject*, PyObject* const* a, Py_ssize_t n) {
  PROBE(2)
  if (r && compares_tensors(a[0], a[1])) return ask_session(r, name_contains_tensor, a, 2);
  int found = PySequence_Contains(a[1], a[0]);
  return found < 0 ? nullptr : PyBool_FromLong(found);
}

// Whether the text of a value, or of those in a tuple, names no class and no address.
static bool has_text_of_its_own(PyObject* value) {
  if (PyTuple_CheckExact(value)) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(value); i++)
      if (!has_text_of_its_own(PyTuple_GET_ITEM(value, i))) return false;
    return true;
  }
  return leaf_types.count(Py_TYPE(value)) || is_symbolic_number(value) || is_tensor(value);
}

// Whether C code would cut the text that it makes of a value (`%.3s`), so that nobody sees all that it shows.
static bool may_cut(PyObject* how, PyObject* value) {
  bool has_point = PyUnicode_Check(how)  ? PyUnicode_FindChar(how, '.', 0, PyUnicode_GET_LENGTH(how), 1) >= 0
                   : PyBytes_Check(how) && memchr(PyBytes_AS_STRING(how), '.', PyBytes_GET_SIZE(how));
  return has_point && !has_text_of_its_own(value);
}

// What `%` is given beside a text: C code takes a width (`%*d`) only from a plain int.
static PyObject* formatted(PyObject*, PyObject* const* a, Py_ssize_t n) {
  PROBE(2)
  PyObject* turned[] = {a[1], a[0]};
  if (r && may_cut(a[0], a[1]) && !Ref::steal(ask_session(r, name_cut, a, 2))) return nullptr;
  if (r && may_cut(a[1], a[0]) && !Ref::steal(ask_session(r, name_cut, turned, 2))) return nullptr;
  bool is_text = PyUnicode_Check(a[0]) || PyBytes_Check(a[0]) || PyByteArray_Check(a[0]);
  if (r && is_text && PyTuple_Check(a[1]))
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(a[1]); i++)
      if (is_number_type(Py_TYPE(PyTuple_GET_ITEM(a[1], i)))) return ask_session(r, name_formatted, a + 1, 1);
  return Py_NewRef(a[1]);
}

static PyObject* iterate(PyObject*, PyObject* const* a, Py_ssize_t n) {
  PROBE(1)
  if (r && note_order(r, a[0]) < 0) return nullptr;
  return Py_NewRef(a[0]);
}

// A mapping about to be merged into a dictionary: C code would ask a handle for its keys unseen.
static PyObject* spread(PyObject*, PyObject* const* a, Py_ssize_t n) {
  PROBE(1)
  return r && r->external.count(a[0]) ? ask_session(r, name_spread, a, 1) : Py_NewRef(a[0]);
}

// super(cls, self).name of 3.12's LOAD_SUPER_ATTR: build the super object, then an ordinary attribute read.
static PyObject* load_super_attr(PyObject*, PyObject* const* a, Py_ssize_t n) {
  PROBE(5)
  PyObject* pair[] = {a[1], a[2]};
  bool plain = a[0] == (PyObject*)&PySuper_Type;
  long flags = PyLong_AsLong(a[4]);
  Ref object = Ref::steal(plain ? PyObject_Vectorcall(a[0], pair, 2, nullptr)
                          : r   ? dispatch(r, a[0], pair, flags & 2 ? 2 : 0, nullptr)
                                : PyObject_Vectorcall(a[0], pair, flags & 2 ? 2 : 0, nullptr));
  if (!object) return nullptr;
  // Without a rehearsal: plain Python.
  return r ? read_attribute(r, object.get(), a[3]) : PyObject_GetAttr(object.get(), a[3]);
}

// The error of f(*args) where that cannot be iterated.  Other callables would be asked for their names.
static PyObject* not_iterable(PyObject* callable, PyObject* args) {
  if (PyFunction_Check(callable) || PyCFunction_Check(callable)) {
    // Safe: of functions themselves.
    Ref module = Ref::steal(PyObject_GetAttrString(callable, "__module__"));
    Ref name = Ref::steal(PyObject_GetAttrString(callable, "__qualname__"));
    if (!module || !name) return nullptr;
    if (PyUnicode_Check(module.get()) && PyUnicode_CompareWithASCIIString(module.get(), "builtins"))
      name = Ref::steal(PyUnicode_FromFormat("%U.%U", module.get(), name.get()));
    if (!name) return nullptr;
    return PyErr_Format(PyExc_TypeError, "%U() argument after * must be an iterable, not %.200s", name.get(),
                        Py_TYPE(args)->tp_name);
  }
  return PyErr_Format(PyExc_TypeError, "Value after * must be an iterable, not %.200s", Py_TYPE(args)->tp_name);
}

// f(*args, **kwargs): the arguments come as two keyword values with marker names.
static PyObject* call_spread(Rehearsal* r, PyObject* callable, PyObject* const* values, Py_ssize_t count) {
  PyObject* args = values[0];
  bool exact = PyTuple_CheckExact(args);
  if (!exact && !Py_TYPE(args)->tp_iter && !PySequence_Check(args)) return not_iterable(callable, args);
  Ref tuple = exact ? Ref::new_ref(args) : Ref::steal(PySequence_Tuple(args)), copy;
  if (!tuple) return nullptr;
  PyObject* kwargs = count > 1 && !PyCFunction_CheckExact(values[1]) ? values[1] : nullptr;  // since 3.14: or a probe
  if (kwargs && !PyDict_CheckExact(kwargs)) {
    copy = Ref::steal(PyDict_New());
    if (!copy || PyDict_Update(copy.get(), kwargs) < 0) return nullptr;
    kwargs = copy.get();
  }
  return r ? dispatch_spread(r, callable, tuple.get(), kwargs) : PyObject_Call(callable, tuple.get(), kwargs);
}

static PyObject* call(PyObject*, PyObject* const* a, Py_ssize_t n, PyObject* kwnames) {
  Rehearsal* r = current_rehearsal();
  if (r && raise_again(r)) return nullptr;
  if (r) count_probe(r);
  if (kwnames && n == 1) {
    PyObject* first = PyTuple_GET_ITEM(kwnames, 0);
    if (first == mark_star || PyUnicode_Compare(first, mark_star) == 0)
      return call_spread(r, a[0], a + 1, PyTuple_GET_SIZE(kwnames));
  }
  return r ? dispatch(r, a[0], a + 1, n - 1, kwnames) : PyObject_Vectorcall(a[0], a + 1, n - 1, kwnames);
}

// Each probe, and a note where it raised.
template <auto probe, typename Function = decltype(probe)>
struct Noted;
template <auto probe, typename... Args>
struct Noted<probe, PyObject* (*)(Args...)> {
  static PyObject* call(Args... args) {
    PyObject* result = probe(args...);
    Rehearsal* r = result ? nullptr : current_rehearsal();
    if (r) note_failed(r);
    return result;
  }
};
template <auto probe>
inline constexpr auto noted = &Noted<probe>::call;

static MethodTable probes({
    method<noted<call>>("call"),
    method<noted<load_global>>("load_global"),
    method<noted<store_global>>("store_global"),
    method<noted<delete_global>>("delete_global"),
    method<noted<load_attr>>("load_attr"),
    method<noted<test_attr>>("test_attr"),
    method<noted<store_attr>>("store_attr"),
    method<noted<delete_attr>>("delete_attr"),
    method<noted<load_deref>>("load_deref"),
    method<noted<store_deref>>("store_deref"),
    method<noted<delete_deref>>("delete_deref"),
    method<noted<import_name>>("import_name"),
    method<noted<import_from>>("import_from"),
    method<noted<before_with>>("before_with"),
    method<noted<match_class>>("match_class"),
    method<noted<match_kind>>("match_kind"),
    method<noted<make_function>>("make_function"),
    method<noted<load_super_attr>>("load_super_attr"),
    method<noted<check_text>>("check_text"),
    method<noted<spread>>("spread"),
    method<noted<same_object>>("same_object"),
    method<noted<contains>>("contains"),
    method<noted<formatted>>("formatted"),
    method<noted<iterate>>("iterate"),
});

bool init_probes(PyObject* module) {
  init_set_order();
  if (!init_calls(module) || !init_class_facts(module) || !init_session_calls(module)) return false;
  Ref table = Ref::steal(PyDict_New());
  if (!table) return false;
  for (PyMethodDef* d = probes.rows; d->ml_name; d++) {
    Ref f = Ref::steal(PyCFunction_New(d, nullptr));
    if (!f || PyDict_SetItemString(table.get(), d->ml_name, f.get()) < 0) return false;
  }
  return PyModule_AddObjectRef(module, "PROBES", table.get()) == 0;
}

}  // namespace framelift
