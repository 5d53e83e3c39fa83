// Probes of attributes: what is found on an object, on its class, and which writes are pending effects.
#include "connections.h"
#include "handle_reads.h"
#include "probes.h"
#include "resume.h"

namespace framelift {

static PyObject* const name_deny_finalised = interned("deny_finalised");
static PyObject* const name_cell_contents = interned("cell_contents");
static PyObject *const name_class_attribute = interned("class_attribute"), *const name_code = interned("__code__");
static PyObject *const name_ag_code = interned("ag_code"), *const name_cr_code = interned("cr_code");
static PyObject *const name_delete_attr = interned("delete_attr"), *const name_fall_back = interned("fall_back");
static PyObject *const name_gi_code = interned("gi_code"), *const name_load_attr = interned("load_attr");
static PyObject *const name_load_tensor = interned("load_tensor"), *const name_store_attr = interned("store_attr");
static PyObject *const name_tb_lasti = interned("tb_lasti"), *const name_tb_lineno = interned("tb_lineno");
static PyObject *const name_tb_next = interned("tb_next"), *const name_test_attr = interned("test_attr");

// Objects of static C types that are external where they are marked so.
static bool is_open_by_mark(PyObject* obj) {
  return PyExceptionInstance_Check(obj) || Py_IS_TYPE(obj, &PyTraceBack_Type) || PyWeakref_CheckProxy(obj) ||
         is_compiled(obj);
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
    case Answer::Native:  // safe: the session found what decides the answer, guarded it, and frames that it starts are
                          // watched
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
  if (found != r->attributes.end()) return answer(r, found->second, obj, name);
  PyObject* value = is_heap_type(Py_TYPE(obj))          ? read_handle(r, obj, name)
                    : Py_IS_TYPE(obj, &PySuper_Type) ? read_inherited(r, obj, name)
                                                     : nullptr;
  return value || PyErr_Occurred() ? value : ask_for(r, obj, name);
}

// What the class of an instance made inside holds under a name is external, and guarded once.  NULL with an exception
// set.
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
static PyObject* sealed_types = nullptr;  // a tuple
static Connections connections({{"sealed_types", &sealed_types}});

static bool is_sealed(PyTypeObject* type) {
  for (Py_ssize_t i = 0; sealed_types && i < PyTuple_GET_SIZE(sealed_types); i++)
    if (PyType_IsSubtype(type, (PyTypeObject*)PyTuple_GET_ITEM(sealed_types, i))) return true;
  return false;
}

static bool is_external_cell(Rehearsal* r, PyObject* obj, PyObject* name) {
  return Py_IS_TYPE(obj, &PyCell_Type) && name == name_cell_contents && r->cells.count(obj);
}

static bool shows_code(PyTypeObject* type, PyObject* name) {
  if (type == &PyFunction_Type) return name == name_code;
  if (type == &PyTraceBack_Type) return name == name_tb_lasti || name == name_tb_lineno || name == name_tb_next;
  return (type == &PyGen_Type && name == name_gi_code) || (type == &PyCoro_Type && name == name_cr_code) ||
         (type == &PyAsyncGen_Type && name == name_ag_code);
}

PyObject* read_attribute(Rehearsal* r, PyObject* obj, PyObject* name) {
  PyTypeObject* type = Py_TYPE(obj);
  if (PyType_Check(obj)) return load_of_external(r, obj, name);
  if (!is_heap_type(type)) {
    if (is_open_static(type) && !r->internal.count(obj)) return load_of_external(r, obj, name);
    if (shows_code(type, name)) return ask_for(r, obj, name);
    if (is_open_by_mark(obj) && r->external.count(obj)) return load_of_external(r, obj, name);
    if (is_external_cell(r, obj, name)) return read_contents(r, obj, name);
    if (type == &Py_GenericAliasType) return ask_for(r, obj, name);  // it passes reads on to its class
    // Safe: instances of the static C types that are left are values (numbers, texts, code, descriptors, ...), whose
    // attributes never change, or were made inside (shadows of containers, iterators, exceptions).
    return PyObject_GetAttr(obj, name);
  }
  if (is_tensor(obj)) {
    // An external tensor may get an attribute that hides the method: the session guards that for each of them.
    bool outside = r->tensors.count(obj);
    const auto& known = outside ? r->attributes : r->class_attributes;
    auto found = known.find({outside ? obj : (PyObject*)type, name});
    // Safe: the session found a C method there and guarded it; it is bound to the stand-in, and calling it is the
    // recorder's.
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

PyObject* load_attr(PyObject*, PyObject* const* a, Py_ssize_t n) {
  PROBE(2)
  return r ? read_attribute(r, a[0], a[1]) : PyObject_GetAttr(a[0], a[1]);  // without a rehearsal: plain Python
}

// As load_attr.  The value is asked for its truth alone, which of some objects the session knows without an import.
PyObject* test_attr(PyObject*, PyObject* const* a, Py_ssize_t n) {
  PROBE(2)
  if (!r) return PyObject_GetAttr(a[0], a[1]);  // plain Python
  bool is_handle = is_heap_type(Py_TYPE(a[0])) && r->external.count(a[0]) && !PyType_Check(a[0]) && !is_tensor(a[0]);
  if (!is_handle || r->attributes.count({a[0], a[1]})) return read_attribute(r, a[0], a[1]);
  switch (test_table(r, a[0], a[1])) {
    case Tested::Failed:
      return nullptr;
    case Tested::Empty:
      Py_RETURN_FALSE;
    case Tested::NoTable:
      return read_attribute(r, a[0], a[1]);
    case Tested::Unknown:
      return ask_session(r, name_test_attr, a, 2);
  }
  Py_UNREACHABLE();
}

// Whether writes to the object are pending effects rather than done at once.
static bool is_external_target(Rehearsal* r, PyObject* obj) {
  PyTypeObject* type = Py_TYPE(obj);
  if (PyType_Check(obj)) return true;  // those made inside too: what was remembered of their attributes is forgotten
  if (r->internal.count(obj)) return false;
  if (is_sealed(type)) return true;
  if (!is_heap_type(type)) return is_open_static(type) || (is_open_by_mark(obj) && r->external.count(obj));
  return is_tensor(obj) || PyModule_Check(obj) || r->external.count(obj);
}

PyObject* store_attr(PyObject*, PyObject* const* a, Py_ssize_t n) {
  PROBE(3)
  if (r && is_external_target(r, a[1])) {
    PyObject* args[] = {a[1], a[2], a[0]};
    return ask_session(r, name_store_attr, args, 3);
  }
  if (r && is_external_cell(r, a[1], a[2])) return store_cell(r, a[1], a[0]);
  if (r && is_heap_type(Py_TYPE(a[1])) && !known_of_class(r, (PyObject*)Py_TYPE(a[1]), a[2])) return nullptr;
  if (r && has_finaliser(a[0]) && PyUnicode_CompareWithASCIIString(a[2], "__class__") == 0) {
    PyObject* args[] = {a[0], Py_None};
    return ask_session(r, name_deny_finalised, args, 2);  // it would run when the rehearsal lets go of the object
  }
  // Safe: the object was made inside, or is an instance of a static C type that has no attributes to write to and
  // raises.
  if (PyObject_SetAttr(a[1], a[2], a[0]) < 0) return nullptr;
  Py_RETURN_NONE;
}

PyObject* delete_attr(PyObject*, PyObject* const* a, Py_ssize_t n) {
  PROBE(2)
  if (r && is_external_target(r, a[0])) return ask_session(r, name_delete_attr, a, 2);
  if (r && is_external_cell(r, a[0], a[1])) return delete_cell(r, a[0], a[1]);
  if (r && is_heap_type(Py_TYPE(a[0])) && !known_of_class(r, (PyObject*)Py_TYPE(a[0]), a[1])) return nullptr;
  if (PyObject_SetAttr(a[0], a[1], nullptr) < 0) return nullptr;  // safe: as in store_attr
  Py_RETURN_NONE;
}

}  // namespace framelift
