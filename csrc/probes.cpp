// The probes: C functions that twins call in place of a dozen opcodes.  An internal object costs a look-up; only external
// objects reach the Python session, and only at the first read.  Outside a rehearsal a probe does what its opcode does.
#include <torch/csrc/autograd/python_variable.h>

#include <cstring>

#include "barrier.h"
#include "calls.h"
#include "frame_access.h"
#include "resume.h"
#include "set_order.h"

namespace framelift {

static PyObject *name_load_global, *name_store_global, *name_delete_global, *name_load_attr, *name_test_attr, *name_fall_back, *name_store_attr, *name_delete_attr,
    *name_class_attribute, *name_load_cell, *name_store_cell, *name_delete_cell, *name_import_name, *name_import_from,
    *name_check_with, *name_match_class, *name_match_kind, *name_load_tensor, *name_gi_code, *name_tb_lasti, *name_shows_address, *name_spread, *name_same_object, *name_contains, *name_dunder_contains, *name_is_new, *name_cell_contents, *name_callback, *mark_address, *mark_star, *mark_stars;
static PyObject* number_types[3] = {nullptr, nullptr, nullptr};  // symbolic ints, floats and truth values

void set_number_types(PyObject* ints, PyObject* floats, PyObject* truths) {
  Py_XSETREF(number_types[0], Py_NewRef(ints));
  Py_XSETREF(number_types[1], Py_NewRef(floats));
  Py_XSETREF(number_types[2], Py_NewRef(truths));
}

// The rehearsal a probe serves, or NULL: then the opcode's plain meaning holds (a generator that outlived its rehearsal).
#define PROBE(count)                                                                              \
  Rehearsal* r = current_rehearsal();                                                             \
  if (n != (count)) return PyErr_Format(PyExc_SystemError, "%s: wrong use of a probe", __func__); \
  if (r && raise_again(r)) return nullptr;                                                        \
  if (r) count_probe(r);

static void count_probe(Rehearsal* r) {
  r->probes++;
  if (current_frame(PyThreadState_Get()) == r->root_frame) r->root_probes++;
}

static bool raise_again(Rehearsal* r) {
  check_hook(r);
  if (r->stopped) {
    raise_stop();
    return true;
  }
  if (!r->interrupt) return false;
  PyErr_SetObject((PyObject*)Py_TYPE(r->interrupt), r->interrupt);
  return true;
}

static bool is_heap(PyTypeObject* t) { return t->tp_flags & Py_TPFLAGS_HEAPTYPE; }

// Objects of static C types whose attributes are external state: modules, functions, methods, super objects.
// Classes are too, whatever their metaclass is: PyType_Check finds them.
static bool is_open_static(PyTypeObject* t) {
  return t == &PyModule_Type || t == &PyFunction_Type || t == &PyMethod_Type || t == &PySuper_Type ||
         t == &PyProperty_Type || t == &PyStaticMethod_Type || t == &PyClassMethod_Type || t == &PyFrame_Type;
}

// Objects of static C types that are external where they are marked so.
static bool is_open_by_mark(PyObject* obj) {
  return PyExceptionInstance_Check(obj) || Py_IS_TYPE(obj, &PyTraceBack_Type) || PyWeakref_CheckProxy(obj) || is_compiled(obj);
}

// By type alone: `isinstance` would ask the object's `__class__`, which is user code.
static bool is_tensor(PyObject* obj) { return PyType_IsSubtype(Py_TYPE(obj), (PyTypeObject*)THPVariableClass); }

static PyObject* global_of_frame(PyObject* name) {
  PyObject* globals = PyEval_GetGlobals();
  PyObject* value = globals ? PyDict_GetItemWithError(globals, name) : nullptr;
  if (!value && !PyErr_Occurred()) value = PyDict_GetItemWithError(PyEval_GetBuiltins(), name);
  if (!value && !PyErr_Occurred()) PyErr_Format(PyExc_NameError, "name '%U' is not defined", name);
  return Py_XNewRef(value);
}

static PyObject* read_global(Rehearsal* r, PyObject* globals, PyObject* name) {
  if (r->internal.count(globals)) {  // a namespace made inside (exec) is a dictionary like any other; the built-ins behind it are not
    PyObject* value = PyDict_GetItemWithError(globals, name);
    if (value || PyErr_Occurred()) return Py_XNewRef(value);
    PyObject* builtins = PyEval_GetBuiltins();
    return read_global(r, PyDict_CheckExact(builtins) ? builtins : PyModule_GetDict(PyImport_AddModule("builtins")), name);
  }
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

static PyObject* load_global(PyObject*, PyObject* const* a, Py_ssize_t n) {
  PROBE(1)
  return r ? read_global(r, PyEval_GetGlobals(), a[0]) : global_of_frame(a[0]);
}

static PyObject* from_mapping(PyObject* mapping, PyObject* name) {
  PyObject* value = PyObject_GetItem(mapping, name);  // safe: the namespace of a class body, made inside
  if (!value && PyErr_ExceptionMatches(PyExc_KeyError)) PyErr_Clear();
  return value;
}

static PyObject* load_name(PyObject*, PyObject* const* a, Py_ssize_t n) {
  PROBE(1)
  PyObject* locals = PyEval_GetLocals();
  if (!locals) return nullptr;
  PyObject* value = locals == PyEval_GetGlobals() ? nullptr : from_mapping(locals, a[0]);
  if (value || PyErr_Occurred()) return value;
  return r ? read_global(r, PyEval_GetGlobals(), a[0]) : global_of_frame(a[0]);
}

static PyObject* load_from_dict_or_globals(PyObject*, PyObject* const* a, Py_ssize_t n) {
  PROBE(2)
  PyObject* value = from_mapping(a[0], a[1]);
  if (value || PyErr_Occurred()) return value;
  return r ? read_global(r, PyEval_GetGlobals(), a[1]) : global_of_frame(a[1]);
}

static PyObject* store_global(PyObject*, PyObject* const* a, Py_ssize_t n) {
  PROBE(2)
  PyObject* globals = PyEval_GetGlobals();
  if (!r || r->internal.count(globals)) {
    if (PyDict_SetItem(globals, a[1], a[0]) < 0) return nullptr;
    Py_RETURN_NONE;
  }
  PyObject* args[] = {globals, a[1], a[0]};
  return ask_session(r, name_store_global, args, 3);
}

static PyObject* delete_global(PyObject*, PyObject* const* a, Py_ssize_t n) {
  PROBE(1)
  PyObject* globals = PyEval_GetGlobals();
  if (!r || r->internal.count(globals)) {
    if (PyDict_DelItem(globals, a[0]) < 0) return nullptr;
    Py_RETURN_NONE;
  }
  PyObject* args[] = {globals, a[0]};
  return ask_session(r, name_delete_global, args, 2);
}

// A getter raised AttributeError: `__getattr__` is asked, where the class has one; else the error stays.
static PyObject* fall_back(Rehearsal* r, PyObject* obj, PyObject* name) {
  SavedError missing;
  PyObject* args[] = {obj, name};
  Ref answers = Ref::steal(ask_session(r, name_fall_back, args, 2));
  bool found = answers && PyTuple_GET_SIZE(answers.get());
  if (answers && !found) missing.restore();
  return found ? Py_NewRef(PyTuple_GET_ITEM(answers.get(), 0)) : nullptr;
}

static PyObject* ask_for(Rehearsal* r, PyObject* obj, PyObject* name) {
  PyObject* args[] = {obj, name};
  return ask_session(r, name_load_attr, args, 2);
}

// The answer may run code that changes the table it was found in.
static PyObject* answer(Rehearsal* r, const Known& known, PyObject* obj, PyObject* name) {
  Ref kept = Ref::new_ref(known.payload.get());
  PyObject* payload = kept.get();
  switch (known.answer) {
    case Answer::Value:
      return kept.release();
    case Answer::Method:
      return PyMethod_New(payload, obj);
    case Answer::Native:  // safe: the session found what decides the answer, guarded it, and frames that it starts are watched
      return PyObject_GetAttr(obj, name);
    case Answer::Getter: {
      PyObject* args[] = {obj};
      PyObject* value = dispatch(r, payload, args, 1, nullptr);
      return value || !PyErr_ExceptionMatches(PyExc_AttributeError) ? value : fall_back(r, obj, name);
    }
    case Answer::Instance: {
      PyObject** dict = _PyObject_GetDictPtr(obj);
      PyObject* own = dict && *dict ? PyDict_GetItemWithError(*dict, name) : nullptr;
      if (!own && PyErr_Occurred()) return nullptr;
      return Py_NewRef(own ? own : payload);
    }
    case Answer::Ask:
      return ask_for(r, obj, name);
  }
  Py_UNREACHABLE();
}

static PyObject* load_of_external(Rehearsal* r, PyObject* obj, PyObject* name) {
  auto found = r->attributes.find({obj, name});
  return found != r->attributes.end() ? answer(r, found->second, obj, name) : ask_for(r, obj, name);
}

// What the class of an instance made inside holds under a name is external, and guarded once.  NULL with an exception set.
static const Known* known_of_class(Rehearsal* r, PyObject* type, PyObject* name) {
  auto found = r->class_attributes.find({type, name});
  if (found == r->class_attributes.end()) {
    if (note_class(r, type) < 0) return nullptr;
    PyObject* args[] = {type, name};
    Ref row = Ref::steal(ask_session(r, name_class_attribute, args, 2));
    if (!row) return nullptr;
    Known known{(Answer)PyLong_AsLong(PyTuple_GET_ITEM(row.get(), 0)), Ref::new_ref(PyTuple_GET_ITEM(row.get(), 1))};
    r->kept.insert(type);
    r->kept.insert(name);
    found = r->class_attributes.emplace(Pair{type, name}, std::move(known)).first;
  }
  return &found->second;
}

// An instance made inside: CPython's own algorithm, but what it finds on the class is external and guarded.
static PyObject* load_of_internal(Rehearsal* r, PyObject* obj, PyObject* name) {
  const Known* known = known_of_class(r, (PyObject*)Py_TYPE(obj), name);
  return known ? answer(r, *known, obj, name) : nullptr;
}

// Classes whose instances are themselves inside, whatever they have for attributes: (class, ...).
static PyObject* sealed_types = nullptr;
void set_sealed_types(PyObject* types) { Py_XSETREF(sealed_types, Py_NewRef(types)); }

static bool is_sealed(PyTypeObject* type) {
  for (Py_ssize_t i = 0; sealed_types && i < PyTuple_GET_SIZE(sealed_types); i++)
    if (PyType_IsSubtype(type, (PyTypeObject*)PyTuple_GET_ITEM(sealed_types, i))) return true;
  return false;
}

static PyObject* read_contents(Rehearsal* r, PyObject* cell, PyObject* name);
static PyObject* store_cell(Rehearsal* r, PyObject* cell, PyObject* value);
static PyObject* delete_cell(Rehearsal* r, PyObject* cell, PyObject* name);
static bool is_external_cell(Rehearsal* r, PyObject* obj, PyObject* name) {
  return Py_IS_TYPE(obj, &PyCell_Type) && name == name_cell_contents && r->cells.count(obj);
}

// What a class made inside inherits is external: the session is asked each time, since any class on the way may be written to.
static PyObject* read_class_attribute(Rehearsal* r, PyObject* cls, PyObject* name) {
  return r->internal.count(cls) ? ask_for(r, cls, name) : load_of_external(r, cls, name);
}

PyObject* read_attribute(Rehearsal* r, PyObject* obj, PyObject* name) {
  PyTypeObject* type = Py_TYPE(obj);
  if (PyType_Check(obj)) return read_class_attribute(r, obj, name);
  if (!is_heap(type)) {
    if (is_open_static(type) && !r->internal.count(obj)) return load_of_external(r, obj, name);
    if ((type == &PyGen_Type && name == name_gi_code) || (type == &PyTraceBack_Type && name == name_tb_lasti))
      return ask_for(r, obj, name);  // they show the twin
    if (is_open_by_mark(obj) && r->external.count(obj)) return load_of_external(r, obj, name);
    if (is_external_cell(r, obj, name)) return read_contents(r, obj, name);
    // A generic alias passes reads on to its class; a weak reference shows the callback that it holds.
    if (type == &Py_GenericAliasType || (type == &_PyWeakref_RefType && name == name_callback)) return ask_for(r, obj, name);
    // Safe: instances of the static C types that are left are values (numbers, texts, code, descriptors, ...), whose attributes
    // never change, or were made inside (shadows of containers, iterators, exceptions).
    return PyObject_GetAttr(obj, name);
  }
  if (is_tensor(obj)) {
    // A tensor from outside may get an attribute that hides the method: the session guards that for each of them.
    bool outside = r->tensors.count(obj);
    const auto& known = outside ? r->attributes : r->class_attributes;
    auto found = known.find({outside ? obj : (PyObject*)type, name});
    // Safe: the session found a C method there and guarded it; it is bound to the stand-in, and calling it is the recorder's.
    if (found != known.end() && found->second.answer == Answer::Native) return PyObject_GetAttr(obj, name);
    PyObject* args[] = {obj, name};
    return ask_session(r, name_load_tensor, args, 2);
  }
  // A symbolic number has attributes of its own, which the number that it stands for has not.
  if (is_symbolic_number(obj)) return ask_for(r, obj, name);
  if (r->external.count(obj) || PyModule_Check(obj)) return load_of_external(r, obj, name);
  if (is_sealed(type) && !r->internal.count(obj)) return ask_for(r, obj, name);
  return load_of_internal(r, obj, name);
}

static PyObject* load_attr(PyObject*, PyObject* const* a, Py_ssize_t n) {
  PROBE(2)
  return r ? read_attribute(r, a[0], a[1]) : PyObject_GetAttr(a[0], a[1]);  // without a rehearsal: plain Python
}

// As load_attr.  The value is asked for its truth alone, which of some objects the session knows without an import.
static PyObject* test_attr(PyObject*, PyObject* const* a, Py_ssize_t n) {
  PROBE(2)
  if (!r) return PyObject_GetAttr(a[0], a[1]);  // plain Python
  bool is_handle = is_heap(Py_TYPE(a[0])) && r->external.count(a[0]) && !PyType_Check(a[0]) && !is_tensor(a[0]);
  return is_handle && !r->attributes.count({a[0], a[1]}) ? ask_session(r, name_test_attr, a, 2) : read_attribute(r, a[0], a[1]);
}

// Whether writes to the object are pending effects rather than done at once.
static bool is_external_target(Rehearsal* r, PyObject* obj) {
  PyTypeObject* type = Py_TYPE(obj);
  if (PyType_Check(obj)) return true;  // those made inside too: what was remembered of their attributes is forgotten
  if (r->internal.count(obj)) return false;
  if (is_sealed(type)) return true;
  if (!is_heap(type)) return is_open_static(type) || (is_open_by_mark(obj) && r->external.count(obj));
  return is_tensor(obj) || PyModule_Check(obj) || r->external.count(obj);
}

static PyObject* store_attr(PyObject*, PyObject* const* a, Py_ssize_t n) {
  PROBE(3)
  if (r && is_external_target(r, a[1])) {
    PyObject* args[] = {a[1], a[2], a[0]};
    return ask_session(r, name_store_attr, args, 3);
  }
  if (r && is_external_cell(r, a[1], a[2])) return store_cell(r, a[1], a[0]);
  if (r && is_heap(Py_TYPE(a[1])) && !known_of_class(r, (PyObject*)Py_TYPE(a[1]), a[2])) return nullptr;
  // Safe: the object was made inside, or is an instance of a static C type that has no attributes to write to and raises.
  if (PyObject_SetAttr(a[1], a[2], a[0]) < 0) return nullptr;
  Py_RETURN_NONE;
}

static PyObject* delete_attr(PyObject*, PyObject* const* a, Py_ssize_t n) {
  PROBE(2)
  if (r && is_external_target(r, a[0])) return ask_session(r, name_delete_attr, a, 2);
  if (r && is_external_cell(r, a[0], a[1])) return delete_cell(r, a[0], a[1]);
  if (r && is_heap(Py_TYPE(a[0])) && !known_of_class(r, (PyObject*)Py_TYPE(a[0]), a[1])) return nullptr;
  if (PyObject_SetAttr(a[0], a[1], nullptr) < 0) return nullptr;  // safe: as in store_attr
  Py_RETURN_NONE;
}

static PyObject* unbound_cell(PyObject* name) {
  if (PyTuple_Check(name))
    return PyErr_Format(PyExc_UnboundLocalError, "cannot access local variable '%U' where it is not associated with a value", PyTuple_GET_ITEM(name, 0));
  return PyErr_Format(PyExc_NameError, "cannot access free variable '%U' where it is not associated with a value in enclosing scope", name);
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

static PyObject* load_deref(PyObject*, PyObject* const* a, Py_ssize_t n) {
  PROBE(2)
  return read_cell(r, a[0], a[1]);
}

static PyObject* load_classderef(PyObject*, PyObject* const* a, Py_ssize_t n) {
  PROBE(2)
  PyObject* locals = PyEval_GetLocals();
  PyObject* value = locals ? from_mapping(locals, a[1]) : nullptr;
  if (value || PyErr_Occurred()) return value;
  return read_cell(r, a[0], a[1]);
}

static PyObject* load_from_dict_or_deref(PyObject*, PyObject* const* a, Py_ssize_t n) {
  PROBE(3)
  PyObject* value = from_mapping(a[0], a[2]);
  if (value || PyErr_Occurred()) return value;
  return read_cell(r, a[1], a[2]);
}

static PyObject* store_cell(Rehearsal* r, PyObject* cell, PyObject* value) {
  PyObject* args[] = {cell, value};
  Ref done = Ref::steal(ask_session(r, name_store_cell, args, 2));
  if (done) r->cells[cell] = Ref::new_ref(value);
  return done.release();
}

static PyObject* delete_cell(Rehearsal* r, PyObject* cell, PyObject* name) {
  PyObject* args[] = {cell, name};
  Ref done = Ref::steal(ask_session(r, name_delete_cell, args, 2));
  if (done) r->cells[cell].reset();
  return done.release();
}

// `cell.cell_contents` of an external cell, as its variable would be read; an empty one raises as the attribute does.
static PyObject* read_contents(Rehearsal* r, PyObject* cell, PyObject* name) {
  PyObject* value = read_cell(r, cell, name);
  if (!value && !r->interrupt && PyErr_ExceptionMatches(PyExc_NameError)) PyErr_SetString(PyExc_ValueError, "Cell is empty");
  return value;
}

static PyObject* store_deref(PyObject*, PyObject* const* a, Py_ssize_t n) {
  PROBE(2)
  if (r && r->cells.count(a[1])) return store_cell(r, a[1], a[0]);
  PyCell_Set(a[1], a[0]);
  Py_RETURN_NONE;
}

static PyObject* delete_deref(PyObject*, PyObject* const* a, Py_ssize_t n) {
  PROBE(2)
  if (r && r->cells.count(a[0])) return delete_cell(r, a[0], a[1]);
  if (!PyCell_GET(a[0])) return unbound_cell(a[1]);
  PyCell_Set(a[0], nullptr);
  Py_RETURN_NONE;
}

static PyObject* import_name(PyObject*, PyObject* const* a, Py_ssize_t n) {
  PROBE(3)
  PyObject* globals = PyEval_GetGlobals();
  if (r) {
    PyObject* args[] = {globals, a[0], a[1], a[2]};
    return ask_session(r, name_import_name, args, 4);
  }
  return PyImport_ImportModuleLevelObject(a[2], globals, nullptr, a[1], (int)PyLong_AsLong(a[0]));
}

static PyObject* import_from(PyObject*, PyObject* const* a, Py_ssize_t n) {
  PROBE(2)
  // Without a rehearsal: plain Python.
  return r ? ask_session(r, name_import_from, a, 2) : PyObject_GetAttr(a[0], a[1]);
}

static PyObject* before_with(PyObject*, PyObject* const* a, Py_ssize_t n) {
  PROBE(1)
  if (r) {
    if (is_heap(Py_TYPE(a[0])) && note_class(r, (PyObject*)Py_TYPE(a[0])) < 0) return nullptr;
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

// Whether a pattern takes it for a sequence or mapping is told by flags of its class, which C code looks at.
static PyObject* match_kind(PyObject*, PyObject* const* a, Py_ssize_t n) {
  PROBE(1)
  if (r && is_heap(Py_TYPE(a[0]))) {
    if (!Ref::steal(ask_session(r, name_match_kind, a, 1))) return nullptr;
  }
  return Py_NewRef(a[0]);
}

static PyObject* make_function(PyObject*, PyObject* const* a, Py_ssize_t n) {
  PROBE(1)
  if (r) r->internal.insert(a[0]);
  return Py_NewRef(a[0]);
}

// The text that an f-string or `%` made of a value: it must not show where an object lies in memory.
static PyObject* check_text(PyObject*, PyObject* const* a, Py_ssize_t n) {
  PROBE(1)
  bool shows = r && PyUnicode_Check(a[0]) && PyUnicode_GET_LENGTH(a[0]) > 6 &&
               PyUnicode_Find(a[0], mark_address, 0, PyUnicode_GET_LENGTH(a[0]), 1) >= 0;
  if (r && PyBytes_Check(a[0])) shows = strstr(PyBytes_AS_STRING(a[0]), " at 0x") != nullptr;
  if (shows) {
    Ref::steal(ask_session(r, name_shows_address, a, 1));
    return nullptr;
  }
  return Py_NewRef(a[0]);
}

static bool is_truth_type(PyTypeObject* t) { return (PyObject*)t == number_types[2]; }
static bool is_number_type(PyTypeObject* t) { return (PyObject*)t == number_types[0] || (PyObject*)t == number_types[1] || is_truth_type(t); }

// Whether two objects from outside that are alike are one object may differ from call to call: mutable ones are guarded to be
// different, of the others the session has to hear.
static bool is_identity_a_question(Rehearsal* r, PyObject* x, PyObject* y) {
  PyTypeObject* type = Py_TYPE(x);
  if (type != Py_TYPE(y)) return is_symbolic_number(x) || is_symbolic_number(y);
  if (type == &PyLong_Type) {  // small ints exist once
    int beyond = 0;
    long value = PyLong_AsLongAndOverflow(x, &beyond);
    return beyond || value < -5 || value > 256;
  }
  if (type == &PyUnicode_Type) return PyUnicode_GET_LENGTH(x) == PyUnicode_GET_LENGTH(y) && PyUnicode_GET_LENGTH(x) > 1;
  if (PyType_Check(x)) return false;  // classes are guarded by identity
  if (type == &PyTuple_Type) return PyTuple_GET_SIZE(x) == PyTuple_GET_SIZE(y) && PyTuple_GET_SIZE(x) > 0;
  if (!is_heap(type)) return !(is_open_static(type) && type != &PyMethod_Type) && type != &PyList_Type && type != &PyDict_Type && type != &PySet_Type;
  return PyTuple_Check(x) || is_number_type(type) || type->tp_dealloc != Py_TYPE(r->session)->tp_dealloc;
}

static PyObject* same_object(PyObject*, PyObject* const* a, Py_ssize_t n) {
  PROBE(2)
  bool single = a[0] == Py_None || a[1] == Py_None || PyBool_Check(a[0]) || PyBool_Check(a[1]);
  if (single && (is_truth_type(Py_TYPE(a[0])) || is_truth_type(Py_TYPE(a[1])))) single = false;
  if (r && !single && is_identity_a_question(r, a[0], a[1])) return ask_session(r, name_same_object, a, 2);
  return PyBool_FromLong(a[0] == a[1]);
}

// A table finds its keys by hash, which of a symbolic number is known only as a constant.
static bool is_table(PyObject* o) {
  if (is_view(o) || PyDictKeys_Check(o)) return true;
  PyTypeObject* solid = PyDict_Check(o) ? &PyDict_Type : PySet_Check(o) ? &PySet_Type : PyFrozenSet_Check(o) ? &PyFrozenSet_Type : nullptr;
  return solid && (Py_IS_TYPE(o, solid) || _PyType_Lookup(Py_TYPE(o), name_dunder_contains) == _PyType_Lookup(solid, name_dunder_contains));
}

// A number that was counted out to be a key like no other: it looks itself who asks for its hash.
static bool is_new_number(PyObject* number) {
  Ref is_new = Ref::steal(PyObject_GetAttr(number, name_is_new));  // safe: framelift's own class
  if (!is_new) PyErr_Clear();
  return is_new.get() == Py_True;
}

static PyObject* contains(PyObject*, PyObject* const* a, Py_ssize_t n) {
  PROBE(2)
  if (r && is_number_type(Py_TYPE(a[0])) && is_table(a[1]) && !is_new_number(a[0])) return ask_session(r, name_contains, a, 2);
  int found = PySequence_Contains(a[1], a[0]);
  return found < 0 ? nullptr : PyBool_FromLong(found);
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
                           : r ? dispatch(r, a[0], pair, flags & 2 ? 2 : 0, nullptr) : PyObject_Vectorcall(a[0], pair, flags & 2 ? 2 : 0, nullptr));
  if (!object) return nullptr;
  // Without a rehearsal: plain Python.
  return r ? read_attribute(r, object.get(), a[3]) : PyObject_GetAttr(object.get(), a[3]);
}

// f(*args, **kwargs): the arguments come as two keyword values with marker names.
static PyObject* call_spread(Rehearsal* r, PyObject* callable, PyObject* const* values, Py_ssize_t count) {
  PyObject* args = values[0];
  bool exact = PyTuple_CheckExact(args);
  if (!exact && !Py_TYPE(args)->tp_iter && !PySequence_Check(args))
    return PyErr_Format(PyExc_TypeError, "Value after * must be an iterable, not %.200s", Py_TYPE(args)->tp_name);
  Ref tuple = exact ? Ref::new_ref(args) : Ref::steal(PySequence_Tuple(args)), copy;
  if (!tuple) return nullptr;
  PyObject* kwargs = count > 1 ? values[1] : nullptr;
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
    if (first == mark_star || PyUnicode_Compare(first, mark_star) == 0) return call_spread(r, a[0], a + 1, PyTuple_GET_SIZE(kwnames));
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
    method<noted<call>>("call"), method<noted<load_global>>("load_global"), method<noted<load_name>>("load_name"),
    method<noted<store_global>>("store_global"), method<noted<delete_global>>("delete_global"), method<noted<load_attr>>("load_attr"), method<noted<test_attr>>("test_attr"),
    method<noted<store_attr>>("store_attr"), method<noted<delete_attr>>("delete_attr"), method<noted<load_deref>>("load_deref"),
    method<noted<load_classderef>>("load_classderef"), method<noted<store_deref>>("store_deref"),
    method<noted<delete_deref>>("delete_deref"), method<noted<load_from_dict_or_globals>>("load_from_dict_or_globals"),
    method<noted<load_from_dict_or_deref>>("load_from_dict_or_deref"), method<noted<import_name>>("import_name"),
    method<noted<import_from>>("import_from"), method<noted<before_with>>("before_with"), method<noted<match_class>>("match_class"),
    method<noted<match_kind>>("match_kind"), method<noted<make_function>>("make_function"),
    method<noted<load_super_attr>>("load_super_attr"), method<noted<check_text>>("check_text"), method<noted<spread>>("spread"),
    method<noted<same_object>>("same_object"), method<noted<contains>>("contains"), method<noted<iterate>>("iterate"),
});

bool init_probes(PyObject* module) {
  if (!init_calls(module) || !init_set_order() || !init_class_facts(module) || !init_session_calls(module)) return false;
  Ref table = Ref::steal(PyDict_New());
  if (!table) return false;
  for (PyMethodDef* d = probes.rows; d->ml_name; d++) {
    Ref f = Ref::steal(PyCFunction_New(d, nullptr));
    if (!f || PyDict_SetItemString(table.get(), d->ml_name, f.get()) < 0) return false;
  }
  if (PyModule_AddObjectRef(module, "PROBES", table.get()) < 0) return false;
  if (PyModule_AddIntConstant(module, "INTERNAL_GLOBALS", 1) < 0) return false;
  struct { PyObject** slot; const char* text; } names[] = {
      {&name_load_global, "load_global"}, {&name_store_global, "store_global"}, {&name_delete_global, "delete_global"},
      {&name_load_attr, "load_attr"}, {&name_test_attr, "test_attr"}, {&name_fall_back, "fall_back"}, {&name_store_attr, "store_attr"}, {&name_delete_attr, "delete_attr"},
      {&name_class_attribute, "class_attribute"}, {&name_load_cell, "load_cell"}, {&name_store_cell, "store_cell"},
      {&name_delete_cell, "delete_cell"}, {&name_import_name, "import_name"}, {&name_import_from, "import_from"},
      {&name_check_with, "check_with"}, {&name_match_class, "match_class"}, {&name_match_kind, "match_kind"}, {&name_load_tensor, "load_tensor"}, {&name_gi_code, "gi_code"}, {&name_shows_address, "shows_address"}, {&name_spread, "spread"}, {&name_same_object, "same_object"}, {&name_contains, "contains"}, {&name_dunder_contains, "__contains__"}, {&name_is_new, "is_new"},
      {&name_cell_contents, "cell_contents"}, {&name_callback, "__callback__"}, {&mark_address, " at 0x"}, {&name_tb_lasti, "tb_lasti"},
      {&mark_star, "*"}, {&mark_stars, "**"}};
  for (auto& n : names)
    if (!(*n.slot = PyUnicode_InternFromString(n.text))) return false;
  return true;
}

}  // namespace framelift
