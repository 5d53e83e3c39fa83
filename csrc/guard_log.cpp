// The guards of a rehearsal as they are made: Predicate, the fields under a Guard (guards/kinds.py), and GuardLog,
// which adds each once (boundary/world.py).  In C, since a capture makes thousands, and asks for more.
#include "guard_log.h"

#include <structmember.h>

#include <unordered_set>

#include "barrier.h"
#include "paths.h"
#include "places.h"
#include "reference.h"
#include "state.h"

namespace framelift {

// ---- Predicate ----

struct PredicateObject {
  PyObject_HEAD
  PyObject *origin, *kind, *value, *line;
};
static PyTypeObject Predicate_Type = {PyVarObject_HEAD_INIT(nullptr, 0)};
static PyObject *const name_is = interned("IS"), *const name_dunders = interned("DUNDERS");
static PyObject* const name_tensor = interned("TENSOR");

static Ref make_predicate(PyTypeObject* type, PyObject* origin, PyObject* kind, PyObject* value, PyObject* line) {
  Ref made = Ref::steal(type->tp_alloc(type, 0));
  if (!made) return nullptr;
  PredicateObject* self = (PredicateObject*)made.get();
  self->origin = Py_NewRef(origin);
  self->kind = Py_NewRef(kind);
  self->value = Py_NewRef(value);
  self->line = Py_NewRef(line);
  untrack_simple(made.get(), {origin, value, line});
  return made;
}

static PyObject* create_predicate(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
  static const char* names[] = {"origin", "kind", "value", "line", nullptr};
  static PyObject* const no_line = interned("");
  PyObject *origin, *kind, *value, *line = no_line;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OUO|O", (char**)names, &origin, &kind, &value, &line)) return nullptr;
  return make_predicate(type, origin, kind, value, line).release();
}

using PredicateMembers = Members<PredicateObject, &PredicateObject::origin, &PredicateObject::kind,
                                 &PredicateObject::value, &PredicateObject::line>;

static int clear_predicate(PyObject* object) noexcept {
  PredicateObject* self = (PredicateObject*)object;
  for (PyObject** field : {&self->origin, &self->value, &self->line})
    if (*field) Py_SETREF(*field, Py_NewRef(Py_None));  // never NULL: a finaliser may still look at it
  return 0;
}

static PyMemberDef fields[] = {
    {"origin", T_OBJECT_EX, offsetof(PredicateObject, origin), READONLY, "where the value is"},
    {"kind", T_OBJECT_EX, offsetof(PredicateObject, kind), READONLY, "what is asked of it"},
    {"value", T_OBJECT_EX, offsetof(PredicateObject, value), READONLY, "what it is compared with"},
    {"line", T_OBJECT_EX, offsetof(PredicateObject, line), READONLY, "whose read made it"},
    {nullptr}};

bool take_apart(PyObject* guard, GuardParts* parts) {
  if (!PyObject_TypeCheck(guard, &Predicate_Type)) {
    PyErr_Format(PyExc_TypeError, "%R is no guard", guard);
    return false;
  }
  const PredicateObject* self = (PredicateObject*)guard;
  *parts = {self->origin, self->kind, self->value, self->line};
  return true;
}

// ---- what guards name ----

static bool may_be_called(PyObject* value) {
  return PyFunction_Check(value) || PyMethod_Check(value) || PyObject_TypeCheck(value, &PyStaticMethod_Type) ||
         PyObject_TypeCheck(value, &PyClassMethod_Type);
}

// What guards name, each once.
struct Named {
  Ref found = Ref::steal(PyList_New(0));
  std::unordered_set<PyObject*> met;

  // The value of a guard, or what its path begins at, where it is a class or a function.
  bool add(PyObject* value, bool with_classes) {
    if (!may_be_called(value) && !(with_classes && PyType_Check(value))) return true;
    return !met.insert(value).second || PyList_Append(found.get(), value) == 0;
  }
};

// What C code may find and call unseen: the special methods of a class that a guard lists, as (name, method).
static bool add_methods(Named& named, PyObject* value) {
  PyObject* methods = PyTuple_Check(value) && PyTuple_GET_SIZE(value) > 1 ? PyTuple_GET_ITEM(value, 1) : nullptr;
  for (Py_ssize_t i = 0; methods && PyTuple_Check(methods) && i < PyTuple_GET_SIZE(methods); i++) {
    PyObject* row = PyTuple_GET_ITEM(methods, i);
    if (PyTuple_Check(row) && PyTuple_GET_SIZE(row) == 2 && !named.add(PyTuple_GET_ITEM(row, 1), false))
      return false;
  }
  return true;
}

// named_by_guards(guards, start): the classes and functions that they name from there on, in their order.
PyObject* named_by_guards(PyObject*, PyObject* args) {
  PyObject* guards;
  Py_ssize_t start;
  if (!PyArg_ParseTuple(args, "O!n", &PyList_Type, &guards, &start)) return nullptr;
  Named named;
  for (Py_ssize_t i = start; named.found && i < PyList_GET_SIZE(guards); i++) {
    GuardParts parts;
    if (!take_apart(PyList_GET_ITEM(guards, i), &parts)) return nullptr;
    PathParts root{parts.origin, nullptr, nullptr};
    while (root.base)
      if (!take_apart(root.base, &root)) return nullptr;
    if (!named.add(parts.value, true) || !named.add(root.key, true)) return nullptr;
    if (is_text(parts.kind, name_dunders) && !add_methods(named, parts.value)) return nullptr;
  }
  return named.found.release();
}

// ---- GuardLog ----

struct LogObject {
  PyObject_HEAD
  PyObject *guard_type, *met;             // the class of guards; called with a function that one names, and its origin
  PyObject *guards, *tensors, *known;     // a list; origin of a tensor -> its place there; keys of all
  PyObject* line;                         // the place of reads that no frame of the program makes, or None
  vectorcallfunc call;
};
static PyTypeObject Log_Type = {PyVarObject_HEAD_INIT(nullptr, 0)};
static PyObject* zero;

bool is_guard_log(PyObject* object) { return Py_IS_TYPE(object, &Log_Type); }

bool add_guard(PyObject* log, PyObject* origin, PyObject* kind, PyObject* value, PyObject* tag) {
  LogObject* self = (LogObject*)log;
  Ref key = Ref::steal(PyTuple_Pack(3, origin, kind, tag ? tag : zero));
  Py_ssize_t before = PySet_GET_SIZE(self->known);
  if (!key || PySet_Add(self->known, key.get()) < 0) return false;
  if (PySet_GET_SIZE(self->known) == before) return true;
  if (PyFunction_Check(value) && is_text(kind, name_is)) {
    PyObject* given[] = {value, origin};
    if (!Ref::steal(PyObject_Vectorcall(self->met, given, 2, nullptr))) return false;
  }
  if (is_text(kind, name_tensor)) {
    Ref place = Ref::steal(PyLong_FromSsize_t(PyList_GET_SIZE(self->guards)));
    if (!place || PyDict_SetItem(self->tensors, origin, place.get()) < 0) return false;
  }
  Ref line = self->line == Py_None ? Ref::steal(innermost_place()) : Ref::new_ref(self->line);
  if (!line) return false;
  Ref made = make_predicate((PyTypeObject*)self->guard_type, origin, kind, value, line.get());
  return made && PyList_Append(self->guards, made.get()) == 0;
}

// guard(origin, kind, value, tag=0)
static PyObject* guard(PyObject* object, PyObject* const* args, size_t flags, PyObject* kwnames) {
  Py_ssize_t n = PyVectorcall_NARGS(flags);
  if (n < 3 || n > 4 || (kwnames && PyTuple_GET_SIZE(kwnames)) || !PyUnicode_Check(args[1]))
    return PyErr_Format(PyExc_TypeError, "guard(origin, kind, value, tag=0)");
  if (!add_guard(object, args[0], args[1], args[2], n == 4 ? args[3] : nullptr)) return nullptr;
  Py_RETURN_NONE;
}

static PyObject* create_log(PyTypeObject* type, PyObject* args, PyObject*) {
  PyObject *guard_type, *met;
  if (!PyArg_ParseTuple(args, "O!O", &PyType_Type, &guard_type, &met)) return nullptr;
  if (!PyType_IsSubtype((PyTypeObject*)guard_type, &Predicate_Type))
    return PyErr_Format(PyExc_TypeError, "guards are predicates");
  Ref made = Ref::steal(type->tp_alloc(type, 0));
  if (!made) return nullptr;
  LogObject* self = (LogObject*)made.get();
  self->guard_type = Py_NewRef(guard_type);
  self->met = Py_NewRef(met);
  self->line = Py_NewRef(Py_None);
  self->call = slot<guard>;
  self->guards = PyList_New(0);
  self->tensors = PyDict_New();
  self->known = PySet_New(nullptr);
  return self->guards && self->tensors && self->known ? made.release() : nullptr;
}

using LogMembers = Members<LogObject, &LogObject::guard_type, &LogObject::met, &LogObject::guards, &LogObject::tensors,
                           &LogObject::known, &LogObject::line>;

// What it calls leads back to it; the rest holds nothing of it.
static int clear_log(PyObject* object) noexcept {
  LogObject* self = (LogObject*)object;
  if (self->met) Py_SETREF(self->met, Py_NewRef(Py_None));
  return 0;
}

static PyMemberDef parts[] = {
    {"guards", T_OBJECT_EX, offsetof(LogObject, guards), READONLY, "all, in the order of their reads"},
    {"tensors", T_OBJECT_EX, offsetof(LogObject, tensors), READONLY, "origin of a tensor -> place of its guard"},
    {"line", T_OBJECT_EX, offsetof(LogObject, line), 0, "the place of reads that no frame of the program makes"},
    {nullptr}};

static MethodTable log_functions({
    method<named_by_guards, METH_VARARGS>("named_by_guards",
                                          "named_by_guards(guards, start): the classes and functions that they name "
                                          "from there on, in their order"),
});

bool init_guard_log(PyObject* module) {
  zero = PyLong_FromLong(0);
  define<PredicateObject>(Predicate_Type, "framelift._core.Predicate", slot<create_predicate>,
         Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_BASETYPE,
         "Predicate(origin, kind, value, line=''): the fields of a guard.");
  PredicateMembers::put_in(Predicate_Type);
  Predicate_Type.tp_clear = slot<clear_predicate>;
  Predicate_Type.tp_members = fields;
  define<LogObject>(Log_Type, "framelift._core.GuardLog", slot<create_log>,
         Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL,
         "GuardLog(class of guards, called with functions that are guarded): a callable that adds guards.");
  Log_Type.tp_call = PyVectorcall_Call;
  Log_Type.tp_vectorcall_offset = offsetof(LogObject, call);
  LogMembers::put_in(Log_Type);
  Log_Type.tp_clear = slot<clear_log>;
  Log_Type.tp_members = parts;
  return zero && add_functions(module, log_functions) && PyModule_AddType(module, &Predicate_Type) == 0 &&
         PyModule_AddType(module, &Log_Type) == 0;
}

}  // namespace framelift
