// The steps of paths: the native twin of origins.STEPS.  Each takes one step from a base value, and writes the records
// that prove later that the step still leads to the same value.
#include <cstring>

#include "guard.h"

namespace framelift {

PyTypeObject* deque_type = nullptr;
static PyTypeObject* local_type = nullptr;  // its instances have a dictionary for each thread

static Outcome found(Visit& v, PyObject* borrowed, bool trusted) {
  if (!borrowed) return Outcome::Fails;
  v.value = Py_NewRef(borrowed);
  v.trusted = trusted;
  return Outcome::Holds;
}

// An item of a tuple that is known to be at its address; what lies behind its end is not read.
static void tuple_item(Visit& v, PyObject* tuple, Py_ssize_t index) {
  v.load(&((PyVarObject*)tuple)->ob_size, (const void*)PyTuple_GET_SIZE(tuple));
  v.load(&PyTuple_GET_ITEM(tuple, index), PyTuple_GET_ITEM(tuple, index));
}

// A field of the base's struct: read again at every run unless neither it nor the base can have changed.
static Outcome field(Visit& v, PyObject* const* at, bool constant_field) {
  if (!*at) return Outcome::Fails;
  bool trusted = constant_field && v.parent().trusted;
  if (!trusted) v.load(at, *at);
  return found(v, *at, trusted);
}

// What only Python code can tell.  An exception that is an error of the program means the path ends.
static Outcome answer(Visit& v, PyObject* owned_or_null) {
  v.walk.ran_code = true;
  v.recordable = false;
  v.value = owned_or_null;
  if (owned_or_null) return Outcome::Holds;
  if (!PyErr_ExceptionMatches(PyExc_Exception)) return Outcome::Error;
  PyErr_Clear();
  return Outcome::Fails;
}

static Outcome by_getattr(Visit& v, PyObject* base, const char* name) {
  // Safe: `answer` notes that code may have run; nothing of this visit is trusted at the next call.
  return answer(v, PyObject_GetAttrString(base, name));
}

static Outcome passed(Visit& v, PyObject* value) {
  if (!v.node.lone) v.add(Op::Argument, nullptr, (uint64_t)value, v.node.local);
  return found(v, value, false);
}

static Outcome take_argument(Visit& v, PyObject*) {
  PyObject* value = v.walk.local(v.node.local);
  if (!value) return Outcome::Fails;
  if (v.node.spread >= 0) {
    const Check& check = v.node.checks[(size_t)v.node.spread];
    size_t from = (size_t)check.other;
    bool is_tuple = PyTuple_Check(value);
    v.add(is_tuple ? Op::SpreadTuple : Op::SpreadDict, (const void*)from, (uint64_t)&check, v.node.local);
    // Where it is neither, or has other items, the checks fail.
    is_tuple ? v.walk.items.take_tuple(value, check, from) : v.walk.items.take_dict(value, check, from);
    return found(v, value, false);
  }
  return passed(v, value);
}

static Outcome take_constant(Visit& v, PyObject*) {
  if (v.walk.program.dead()) return Outcome::Fails;  // Python code that ran in this evaluation may have ended it
  return found(v, v.node.key, true);
}

static Outcome take_dict(Visit& v, PyObject* base) {
  if (PyType_Check(base)) return by_getattr(v, base, "__dict__");  // a mapping proxy
  if (PyType_IsSubtype(Py_TYPE(base), local_type)) {  // past any __getattribute__ of a subclass
    Ref name = Ref::steal(PyUnicode_InternFromString("__dict__"));
    return answer(v, name ? local_type->tp_getattro(base, name.get()) : nullptr);
  }
  PyObject** slot = instance_dict_at(base);
  v.surely_dict = slot != nullptr;
  if (slot) return field(v, slot, false);
  Outcome outcome = by_getattr(v, base, "__dict__");  // some C types pass the question on to another object
  return outcome == Outcome::Holds && v.value == Py_None ? Outcome::Fails : outcome;
}

static Outcome take_dict_item(Visit& v, PyObject* base) {
  PyObject* key = v.node.key;
  v.before_lookup(v.parent(), base, key);
  PyObject* value = PyDict_GetItemWithError(base, key);
  if (!value && PyErr_Occurred()) return answer(v, nullptr);
  if (v.node.passed) return value ? passed(v, value) : Outcome::Fails;
  if (!v.parent().reading) v.recordable = false;
  return found(v, value, v.parent().reading != 0);
}

// The key or the value at a place of a dictionary.
static Outcome take_entry(Visit& v, PyObject* base, bool wants_key) {
  if (!PyDict_Check(base) || v.node.number < 0) return Outcome::Fails;
  if (!v.parent().reading) v.recordable = false;
  PyObject *key = nullptr, *value = nullptr;
  Py_ssize_t position = 0;
  for (Py_ssize_t left = v.node.number; left >= 0; left--)
    if (!PyDict_Next(base, &position, &key, &value)) return Outcome::Fails;
  return found(v, wants_key ? key : value, v.parent().reading != 0);
}

// An element of a deque, whatever a subclass makes of __getitem__ and __len__.
static PyObject* deque_item(PyObject* base, PyObject* key) {
  Py_ssize_t index = PyLong_AsSsize_t(key);
  if (index == -1 && PyErr_Occurred()) return nullptr;
  PySequenceMethods* own = deque_type->tp_as_sequence;
  return own->sq_item(base, index < 0 ? index + own->sq_length(base) : index);
}

static Outcome take_item(Visit& v, PyObject* base) {
  if (PyDict_Check(base)) return take_dict_item(v, base);
  bool is_list = PyList_Check(base), is_tuple = PyTuple_Check(base);
  if (!PyLong_CheckExact(v.node.key) || !(is_list || is_tuple)) {
    bool quiet = PyType_IsSubtype(Py_TYPE(base), deque_type) && PyLong_CheckExact(v.node.key),
         ran_code = v.walk.ran_code;
    Outcome outcome = answer(v, quiet ? deque_item(base, v.node.key) : PyObject_GetItem(base, v.node.key));
    if (quiet) v.walk.ran_code = ran_code;
    return outcome;
  }
  Py_ssize_t size = Py_SIZE(base), index = PyLong_AsSsize_t(v.node.key);
  if (index == -1 && PyErr_Occurred()) return answer(v, nullptr);
  if (index < 0) {
    index += size;
    v.recordable = false;  // counts from an end that may move
  }
  if (index < 0 || index >= size) return Outcome::Fails;
  PyObject* value = is_list ? PyList_GET_ITEM(base, index) : PyTuple_GET_ITEM(base, index);
  if (v.node.passed) return passed(v, value);
  bool trusted = is_tuple && v.parent().trusted;
  if (is_list)
    v.add(Op::ListItem, base, (uint64_t)value, (uint32_t)index);
  else if (!trusted)
    tuple_item(v, base, index);
  return found(v, value, trusted);
}

static Outcome take_slot(Visit& v, PyObject* base) {
  PyTypeObject* type = Py_TYPE(base);
  PyObject* descriptor = _PyType_Lookup(type, v.node.key);
  if (!descriptor) return Outcome::Fails;
  unsigned version = type_version(type);
  PyObject** at = member_at(descriptor, base);
  if (!at || !*at) {  // no plain member, or unset: the descriptor itself knows what that means
    Ref held = Ref::new_ref(descriptor);
    descrgetfunc get = Py_TYPE(descriptor)->tp_descr_get;
    if (!get) PyErr_SetString(PyExc_AttributeError, "__get__");
    return answer(v, get ? get(descriptor, base, (PyObject*)type) : nullptr);
  }
  v.load(&base->ob_type, type);
  if (version)
    v.add(Op::TypeVersion, type, version);
  else
    v.recordable = false;
  return field(v, at, false);
}

// The length of a list or dictionary: a new number each time.
static Outcome take_length(Visit& v, PyObject* base) {
  if (!PyList_Check(base) && !PyDict_Check(base)) return Outcome::Fails;
  v.recordable = false;
  v.value = PyLong_FromSsize_t(PyList_Check(base) ? PyList_GET_SIZE(base) : ((PyDictObject*)base)->ma_used);
  return v.value ? Outcome::Holds : Outcome::Error;
}

static Outcome take_type(Visit& v, PyObject* base) {
  PyObject* type = (PyObject*)Py_TYPE(base);
  v.load(&base->ob_type, type);
  return found(v, type, false);
}

static Outcome take_lookup(Visit& v, PyObject* base) {
  if (!PyType_Check(base) || !PyUnicode_Check(v.node.key)) return Outcome::Fails;
  if (!v.parent().reading) v.recordable = false;
  return found(v, _PyType_Lookup((PyTypeObject*)base, v.node.key), v.parent().reading != 0);
}

static Outcome take_globals(Visit& v, PyObject* base) {
  if (!PyFunction_Check(base)) return by_getattr(v, base, "__globals__");
  return field(v, &((PyFunctionObject*)base)->func_globals, true);
}

static Outcome take_builtins(Visit& v, PyObject* base) {
  if (!PyFunction_Check(base)) return by_getattr(v, base, "__builtins__");
  return field(v, &((PyFunctionObject*)base)->func_builtins, true);
}

// getattr(base, name)[key] where base is no plain function.
static Outcome by_getattr_item(Visit& v, PyObject* base, const char* name) {
  // Safe: as in by_getattr.
  Ref holder = Ref::steal(PyObject_GetAttrString(base, name));
  return answer(v, holder ? PyObject_GetItem(holder.get(), v.node.key) : nullptr);
}

static Outcome position(Visit& v, PyObject* const* tuple_at, bool constant_field) {
  PyObject* tuple = *tuple_at;
  Py_ssize_t index = v.node.number;
  if (!tuple || index < 0 || index >= PyTuple_GET_SIZE(tuple)) return Outcome::Fails;
  PyObject* value = PyTuple_GET_ITEM(tuple, index);
  bool trusted = constant_field && v.parent().trusted;
  if (!trusted) {
    v.load(tuple_at, tuple);
    tuple_item(v, tuple, index);
  }
  return found(v, value, trusted);
}

static Outcome take_default(Visit& v, PyObject* base) {
  if (!PyFunction_Check(base) || v.node.number < 0) return by_getattr_item(v, base, "__defaults__");
  return position(v, &((PyFunctionObject*)base)->func_defaults, false);
}

static Outcome take_kwdefault(Visit& v, PyObject* base) {
  if (!PyFunction_Check(base)) return by_getattr_item(v, base, "__kwdefaults__");
  PyObject* const* at = &((PyFunctionObject*)base)->func_kwdefaults;
  PyObject* dict = *at;
  if (!dict || !PyDict_Check(dict)) return Outcome::Fails;
  uint64_t version = dict_version(dict);
  if (!has_leaf_keys(dict) || !PyUnicode_CheckExact(v.node.key)) v.walk.ran_code = true;
  PyObject* value = PyDict_GetItemWithError(dict, v.node.key);
  if (!value && PyErr_Occurred()) return answer(v, nullptr);
  v.load(at, dict);
  v.add(Op::DictVersion, dict, version);
  if (!version) v.recordable = false;
  return found(v, value, version != 0);
}

static Outcome take_cell(Visit& v, PyObject* base) {
  if (!PyFunction_Check(base) || v.node.number < 0) return by_getattr_item(v, base, "__closure__");
  return position(v, &((PyFunctionObject*)base)->func_closure, true);
}

static Outcome take_contents(Visit& v, PyObject* base) {
  if (!PyCell_Check(base)) return by_getattr(v, base, "cell_contents");
  return field(v, &((PyCellObject*)base)->ob_ref, false);
}

static Outcome take_self(Visit& v, PyObject* base) {
  if (PyMethod_Check(base)) return field(v, &((PyMethodObject*)base)->im_self, true);
  if (PyCFunction_CheckExact(base) && PyCFunction_GET_SELF(base))
    return field(v, &((PyCFunctionObject*)base)->m_self, true);
  return by_getattr(v, base, "__self__");
}

static Outcome take_func(Visit& v, PyObject* base) {
  if (PyMethod_Check(base)) return field(v, &((PyMethodObject*)base)->im_func, true);
  return by_getattr(v, base, "__func__");
}

// Where a function or a class keeps one of its own attributes; NULL for others.
static PyObject** own_field(PyObject* base, PyObject* name) {
  struct Row {
    const char* name;
    size_t offset;
  };
  static const Row functions[] = {{"__name__", offsetof(PyFunctionObject, func_name)},
                                  {"__qualname__", offsetof(PyFunctionObject, func_qualname)},
                                  {"__defaults__", offsetof(PyFunctionObject, func_defaults)},
                                  {"__kwdefaults__", offsetof(PyFunctionObject, func_kwdefaults)},
                                  {"__annotations__", offsetof(PyFunctionObject, func_annotations)}};
  static const Row classes[] = {{"__name__", offsetof(PyHeapTypeObject, ht_name)},
                                {"__qualname__", offsetof(PyHeapTypeObject, ht_qualname)}};
  auto find = [&](const auto& rows) -> PyObject** {
    for (const Row& row : rows)
      if (PyUnicode_CompareWithASCIIString(name, row.name) == 0) return (PyObject**)((char*)base + row.offset);
    return nullptr;
  };
  if (Py_TYPE(base) == &PyFunction_Type) return find(functions);
  return PyType_Check(base) && is_heap_type((PyTypeObject*)base) ? find(classes)
                                                                 : nullptr;  // the metaclass keeps to type's own reads
}

// What C code says of itself never changes.
static bool fixed_by_c(PyObject* base, PyObject* name) {
  bool named = PyUnicode_CompareWithASCIIString(name, "__name__") == 0 ||
               PyUnicode_CompareWithASCIIString(name, "__qualname__") == 0;
  if (!named) return false;
  bool is_wrapper = Py_IS_TYPE(base, method_wrapper_type());
  return PyCFunction_CheckExact(base) || Py_TYPE(base) == &PyMethodDescr_Type || is_wrapper;
}

PyObject* read_attribute_unseen(PyObject* base, PyObject* name);  // tensor_reads.cpp

// Whether a metaclass that Python code may change leaves reads of this name to `type`, or to what the class has under
// the name: its version says when it no longer does.
static bool metaclass_leaves(Visit& v, PyObject* base, bool text_is_fine) {
  PyTypeObject* metaclass = Py_TYPE(base);
  if (!PyType_Check(base) || !is_heap_type((PyTypeObject*)base)) return false;
  if (metaclass->tp_getattro != PyType_Type.tp_getattro) return false;
  PyObject* there = _PyType_Lookup(metaclass, v.node.key);
  bool types_own = there == _PyType_Lookup(&PyType_Type, v.node.key);
  if (!types_own && !(text_is_fine && there && PyUnicode_CheckExact(there))) return false;
  if (metaclass->tp_flags & Py_TPFLAGS_IMMUTABLETYPE) return true;
  unsigned version = type_version(metaclass);
  if (!version) return false;
  v.load(&base->ob_type, metaclass);
  v.add(Op::TypeVersion, metaclass, version);
  return true;
}

// The name of a class, or of its module, read without running code.  False: something else has a say.
static bool take_shown_by_class(Visit& v, PyObject* base, Outcome* outcome) {
  if (!PyType_Check(base)) return false;
  PyObject** at = own_field(base, v.node.key);
  if (at) {
    if (!*at || !metaclass_leaves(v, base, false)) return false;
    *outcome = field(v, at, false);
    return true;
  }
  PyTypeObject* cls = (PyTypeObject*)base;
  if (PyUnicode_CompareWithASCIIString(v.node.key, "__module__") || !metaclass_leaves(v, base, true)) return false;
  unsigned version = ensure_type_version(cls, v.node.key);
  PyObject* own = PyDict_GetItemWithError(cls->tp_dict, v.node.key);  // its keys are plain texts
  if (!version || !own || !PyUnicode_CheckExact(own)) return false;
  v.add(Op::TypeVersion, cls, version);
  *outcome = found(v, own, true);
  return true;
}

// What a class, or the first class of its MRO that has the name, holds: members of enumerations, constants, classes.
// The metaclass has nothing under the name, and no code runs when the class hands the object out.
static bool take_class_entry(Visit& v, PyObject* base, Outcome* outcome) {
  static PyObject* const reader = PyUnicode_InternFromString("__getattribute__");
  if (!PyType_Check(base) || !reader) return false;
  PyTypeObject *cls = (PyTypeObject*)base, *metaclass = Py_TYPE(base);
  bool reads_as_type = _PyType_Lookup(metaclass, reader) == _PyType_Lookup(&PyType_Type, reader);
  if (!reads_as_type || _PyType_Lookup(metaclass, v.node.key)) return false;
  PyObject* own = _PyType_Lookup(cls, v.node.key);
  if (!own || Py_TYPE(own)->tp_descr_get) return false;
  auto changes = [](PyTypeObject* type) { return !(type->tp_flags & Py_TPFLAGS_IMMUTABLETYPE); };
  for (PyTypeObject* type : {metaclass, cls, Py_TYPE(own)})
    if (changes(type) && !ensure_type_version(type, v.node.key)) return false;
  auto version = [&](PyTypeObject* type) {
    if (changes(type)) v.add(Op::TypeVersion, type, type_version(type));
  };
  v.load(&base->ob_type, metaclass);
  version(metaclass);
  version(cls);  // from here on it holds `own`
  v.load(&own->ob_type, Py_TYPE(own));
  version(Py_TYPE(own));
  *outcome = found(v, own, true);
  return true;
}

// Fields that C code keeps on a type nobody can change are read without running Python code.
static Outcome take_attr(Visit& v, PyObject* base) {
  PyTypeObject* type = Py_TYPE(base);
  bool usual = type->tp_getattro == PyObject_GenericGetAttr || type->tp_getattro == PyType_Type.tp_getattro;
  bool fixed = (type->tp_flags & Py_TPFLAGS_IMMUTABLETYPE) && usual;
  PyObject* descriptor = fixed ? _PyType_Lookup(type, v.node.key) : nullptr;
  PyObject** at = member_at(descriptor, base);
  if (at && *at) return field(v, at, false);
  Outcome shown;
  if (take_shown_by_class(v, base, &shown) || take_class_entry(v, base, &shown)) return shown;
  at = fixed ? own_field(base, v.node.key) : nullptr;
  if (at && *at &&
      (*at == Py_None || !PyTuple_Check(*at) || PyUnicode_CompareWithASCIIString(v.node.key, "__defaults__") == 0))
    return field(v, at, false);  // annotations may still be a tuple, which reading turns into a dictionary
  if (at && !*at && PyUnicode_CompareWithASCIIString(v.node.key, "__annotations__")) {
    v.load(at, nullptr);
    return found(v, Py_None, true);
  }
  if (!descriptor || Py_TYPE(descriptor) != &PyGetSetDescr_Type)
    return answer(v, read_attribute_unseen(base, v.node.key));
  CollectorPause pause;
  bool ran_code = v.walk.ran_code, recordable = v.recordable;
  // Safe: a getter in C is what the class has under the name.
  Outcome outcome = answer(v, PyObject_GetAttr(base, v.node.key));
  v.walk.ran_code = ran_code;
  if (outcome == Outcome::Holds && v.parent().trusted && fixed_by_c(base, v.node.key)) {
    v.recordable = recordable;
    v.trusted = PyUnicode_CheckExact(v.value);
    if (v.trusted && v.walk.live()) v.node.text = Ref::new_ref(v.value);
  }
  return outcome;
}

// What a weak reference leads to: CPython puts None there when the object dies.
static Outcome take_target(Visit& v, PyObject* base) {
  if (!PyWeakref_CheckRef(base)) return Outcome::Fails;
  if (Py_REFCNT(((PyWeakReference*)base)->wr_object) == 0) return Outcome::Fails;  // it is about to
  return field(v, &((PyWeakReference*)base)->wr_object, false);
}

// What only a Python function can tell of the base: the key is that function.
static Outcome take_ask(Visit& v, PyObject* base) { return answer(v, PyObject_CallOneArg(v.node.key, base)); }

static const StepRow kSteps[] = {
    {"arg", take_argument},
    {"const", take_constant},
    {"dict", take_dict},
    {"item", take_item},
    {"key", [](Visit& v, PyObject* base) { return take_entry(v, base, true); }},
    {"value", [](Visit& v, PyObject* base) { return take_entry(v, base, false); }},
    {"slot", take_slot},
    {"len", take_length},
    {"type", take_type},
    {"lookup", take_lookup},
    {"globals", take_globals},
    {"builtins", take_builtins},
    {"default", take_default},
    {"kwdefault", take_kwdefault},
    {"cell", take_cell},
    {"contents", take_contents},
    {"self", take_self},
    {"func", take_func},
    {"attr", take_attr},
    {"target", take_target},
    {"ask", take_ask},
};

bool init_steps() {
  if (deque_type) return true;
  auto found = [](const char* module_name, const char* name) {  // kept for the life of the process
    Ref module = Ref::steal(PyImport_ImportModule(module_name));
    // Safe: once, when framelift is loaded.
    return (PyTypeObject*)(module ? PyObject_GetAttrString(module.get(), name) : nullptr);
  };
  return (deque_type = found("collections", "deque")) && (local_type = found("_thread", "_local"));
}

const StepRow* find_step(const char* name) {
  for (const StepRow& row : kSteps)
    if (!strcmp(row.name, name)) return &row;
  return nullptr;
}

Ref step_names() { return names_of(kSteps); }

}  // namespace framelift
