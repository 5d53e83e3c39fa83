// The numbered call rule.  What a C callable is comes from the Python tables, asked once per callable and remembered.
#include "calls.h"

#include <cstring>

#include "barrier.h"
#include "connections.h"
#include "frames.h"
#include "handle_reads.h"
#include "outside.h"
#include "set_order.h"
#include "tensor_class.h"

namespace framelift {

enum class CallKind : int {
  Pure = 1,         // native call
  OnInternals = 2,  // native call unless an argument is a handle
  Handler = 3,      // payload(session, callable, args, kwargs), paused
  Denied = 4,       // interrupt; payload is the detail
  Higher = 5,       // native call, C callables among the arguments must be declared too
  Bound = 6,        // payload = (handler, unbound callable): the receiver becomes the first argument
  Unwrap = 7,       // payload-free: session.unwrap(callable) gives (callable, args, kwargs) to start again with
  Native = 8,       // an instance or class of Python make: call it, its frames come back through the hook
};
struct Verdict {
  CallKind kind = CallKind::Denied;
  Ref payload;
};
// A verdict for the time of a call: the tables may be asked again meanwhile.
static Verdict held(const Verdict& v) { return {v.kind, Ref::new_ref(v.payload.get())}; }

// By method definition or object.  Never freed: at the end of the process there is no interpreter to give references
// back to.
static auto& verdicts = *new std::unordered_map<const void*, Verdict>;
static std::unordered_set<PyTypeObject*> safe_receivers;  // C types whose methods are pure on internal receivers
static std::unordered_set<const void*> special_methods;   // their methods that are not simply pure: asked one by one
static std::unordered_set<PyObject*> unordered;  // callables for which the order of a set given to them is nothing
static std::unordered_set<PyObject*> sorting;  // callables that give the same for texts in any order
static PyObject *generic_getter, *generic_handler;  // object.__getattribute__, and what runs in its place
static PyObject *const name_classify = interned("classify"), *const name_deny = interned("deny");
static PyObject* const name_deny_handle = interned("deny_handle");
static PyObject* const name_deny_finalised = interned("deny_finalised");
static PyObject *const name_note_unbound = interned("note_unbound"), *const name_new = interned("__new__");
static PyObject *const name_init = interned("__init__"), *const name_unwrap = interned("unwrap");

// Whether it is the `__new__` of a type in C.  All of them share one definition.
static bool is_new(PyObject* callable) {
  static PyObject* const any_new = PyObject_GetAttrString((PyObject*)&PyBaseObject_Type, "__new__");
  return PyCFunction_Check(callable) &&
         ((PyCFunctionObject*)callable)->m_ml == ((PyCFunctionObject*)any_new)->m_ml;
}

// What identifies a C callable for good: the method definition where there is one, else the object itself.
static const void* identity(PyObject* callable) {
  // All definitions of __new__ are one, and slot wrappers of one name share theirs: there only the object tells.
  if (PyCFunction_Check(callable))
    return is_new(callable) ? (const void*)callable : ((PyCFunctionObject*)callable)->m_ml;
  if (Py_IS_TYPE(callable, &PyMethodDescr_Type) || Py_IS_TYPE(callable, &PyClassMethodDescr_Type))
    return ((PyMethodDescrObject*)callable)->d_method;
  if (Py_IS_TYPE(callable, &PyWrapperDescr_Type)) return callable;
  if (PyType_Check(callable) && !(((PyTypeObject*)callable)->tp_flags & Py_TPFLAGS_HEAPTYPE)) return callable;
  return nullptr;
}

// Under which key the verdict on a callable is kept: a method and the same one bound to an object share their
// definition.
static const void* verdict_key(PyObject* callable) {
  const char* found = (const char*)identity(callable);
  bool unbound = Py_IS_TYPE(callable, &PyMethodDescr_Type) || Py_IS_TYPE(callable, &PyClassMethodDescr_Type);
  return found && unbound ? found + 1 : found;
}

// False with an exception set.
static bool find_verdict(Rehearsal* r, PyObject* callable, Verdict* out) {
  const void* key = verdict_key(callable);
  if (key) {
    auto found = verdicts.find(key);
    if (found != verdicts.end()) {
      *out = held(found->second);
      return true;
    }
  }
  PyObject* args[] = {callable};
  Ref answer = Ref::steal(ask_session(r, name_classify, args, 1));
  if (!answer) return false;
  *out = {(CallKind)PyLong_AsLong(PyTuple_GET_ITEM(answer.get(), 0)), Ref::new_ref(PyTuple_GET_ITEM(answer.get(), 1))};
  if (key) {
    if (!verdicts.count(key) && key == callable)
      Py_INCREF(callable);  // an address is an identity only while the object lives
    verdicts[key] = held(*out);
  }
  return true;
}

static PyObject* deny(Rehearsal* r, PyObject* method, PyObject* callable, PyObject* detail) {
  PyObject* args[] = {callable, detail ? detail : Py_None};
  Ref::steal(ask_session(r, method, args, 2));
  return nullptr;
}

// The keyword arguments of a call as a dictionary.
static Ref keywords_of(PyObject* const* values, PyObject* kwnames) {
  Ref keywords = Ref::steal(PyDict_New());
  for (Py_ssize_t i = 0; keywords && kwnames && i < PyTuple_GET_SIZE(kwnames); i++)
    if (PyDict_SetItem(keywords.get(), PyTuple_GET_ITEM(kwnames, i), values[i]) < 0) return nullptr;
  return keywords;
}

static PyObject* call_handler(Rehearsal* r, PyObject* handler, PyObject* callable, PyObject* receiver,
                              PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames) {
  Py_ssize_t first = receiver ? 1 : 0;
  Ref positional =
      make_tuple(nargs + first, [&](Py_ssize_t i) { return Ref::new_ref(i < first ? receiver : args[i - first]); });
  Ref keywords = keywords_of(args + nargs, kwnames), result;
  if (positional && keywords) {
    PyObject* stack[] = {r->session, callable, positional.get(), keywords.get()};
    PausedScope paused;
    result = Ref::steal(PyObject_Vectorcall(handler, stack, 4, nullptr));
  }
  left_own_code(r, result);
  return result.release();
}

static Py_ssize_t total(Py_ssize_t nargs, PyObject* kwnames) {
  return nargs + (kwnames ? PyTuple_GET_SIZE(kwnames) : 0);
}

// The class whose instance a C function makes (`object.__new__(cls)`, `cls.fromkeys(...)`), if it has a finaliser: that
// would run when the rehearsal lets go of the instance.
static PyObject* makes_finalised(PyObject* callable, PyObject* const* args, Py_ssize_t nargs) {
  if (!PyCFunction_Check(callable)) return nullptr;
  PyObject* made = is_new(callable) ? (nargs ? args[0] : nullptr) : PyCFunction_GET_SELF(callable);
  return made && has_finaliser(made) ? made : nullptr;
}

// C callables handed to a higher-order function are called behind the probes: they must be declared pure or record
// themselves.
static bool callbacks_declared(Rehearsal* r, PyObject* const* args, Py_ssize_t n) {
  for (Py_ssize_t i = 0; i < n; i++) {
    PyObject* a = args[i];
    bool c_callable = identity(a) != nullptr || (!PyFunction_Check(a) && !PyMethod_Check(a) && !PyType_Check(a) &&
                                                 PyCallable_Check(a) && !r->external.count(a));
    if (!c_callable) continue;
    if (PyCFunction_Check(a) && PyCFunction_GET_SELF(a) && safe_receivers.count(Py_TYPE(PyCFunction_GET_SELF(a))) &&
        !special_methods.count(((PyCFunctionObject*)a)->m_ml))
      continue;
    Verdict v;
    if (!find_verdict(r, a, &v)) return false;
    if (is_new(a)) v.kind = CallKind::Denied;  // what it will make nobody sees
    if (v.kind == CallKind::Pure || v.kind == CallKind::Bound || v.kind == CallKind::Higher ||
        v.kind == CallKind::Native)
      continue;
    deny(r, name_deny, a, nullptr);
    return false;
  }
  return true;
}

static PyObject* prepend(Rehearsal* r, PyObject* callable, PyObject* receiver, PyObject* const* args, Py_ssize_t nargs,
                         PyObject* kwnames) {
  std::vector<PyObject*> stack{receiver};
  stack.insert(stack.end(), args, args + total(nargs, kwnames));
  return dispatch(r, callable, stack.data(), nargs + 1, kwnames);
}

static PyObject* unwrap(Rehearsal* r, PyObject* callable, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames) {
  Ref positional = tuple_of(args, nargs), keywords = keywords_of(args + nargs, kwnames);
  if (!positional || !keywords) return nullptr;
  PyObject* question[] = {callable, positional.get(), keywords.get()};
  Ref next = Ref::steal(ask_session(r, name_unwrap, question, 3));
  if (!next || Py_EnterRecursiveCall(" while calling a Python object"))
    return nullptr;  // `__call__` may be of its own class
  struct Leave {
    ~Leave() { Py_LeaveRecursiveCall(); }
  } leave;
  PyObject* row = next.get();
  return dispatch_spread(r, PyTuple_GET_ITEM(row, 0), PyTuple_GET_ITEM(row, 1), PyTuple_GET_ITEM(row, 2));
}

// Symbolic numbers: C code that is handed one would take its value, so the session decides what becomes of the call.
static std::unordered_set<PyTypeObject*> number_types;
static PyObject *builtin_len = nullptr, *number_handler = nullptr;
// `isinstance(tensor, torch.FloatTensor)`: these classes look at the dtype and the device of the tensor itself.
static PyObject *builtin_isinstance = nullptr, *tensor_types = nullptr;

bool is_symbolic_number(PyObject* value) { return number_types.count(Py_TYPE(value)) != 0; }

static bool asks_tensor_type(PyObject* classes) {
  if ((PyObject*)Py_TYPE(classes) == tensor_types) return true;
  for (Py_ssize_t i = 0; PyTuple_Check(classes) && i < PyTuple_GET_SIZE(classes); i++)
    if (asks_tensor_type(PyTuple_GET_ITEM(classes, i))) return true;
  return false;
}

static bool meets_number(PyObject* callable, PyObject* const* args, Py_ssize_t n) {
  if (number_types.empty()) return false;
  if (callable == builtin_isinstance && n == 2 && asks_tensor_type(args[1])) return true;
  for (Py_ssize_t i = 0; i < n; i++)
    if (is_symbolic_number(args[i])) return true;
  return n == 1 &&
         (callable == builtin_len || callable == (PyObject*)&PyLong_Type || callable == (PyObject*)&PyFloat_Type ||
          callable == (PyObject*)&PyBool_Type) &&
         is_tensor(args[0]);
}

// Containers that import an entry when it is asked for by their methods: to C code that looks inside they are empty, or
// no containers.
static std::unordered_set<PyTypeObject*> view_types;
static PyObject* view_handler = nullptr;

bool is_view(PyObject* value) {
  return PyType_HasFeature(Py_TYPE(value), Py_TPFLAGS_HEAPTYPE) && view_types.count(Py_TYPE(value));
}

static bool meets_view(PyObject* callable, PyObject* const* args, Py_ssize_t n) {
  if (PyCFunction_Check(callable) && PyCFunction_GET_SELF(callable) &&
      view_types.count(Py_TYPE(PyCFunction_GET_SELF(callable))))
    return true;
  for (Py_ssize_t i = 0; i < n; i++)
    if (is_view(args[i])) return true;
  return false;
}

// A function of Python's that might be the one whose parameters did not fit what it was given.
static int note_unbound(Rehearsal* r, PyObject* callable) {
  if (PyMethod_Check(callable)) callable = PyMethod_GET_FUNCTION(callable);
  if (PyType_Check(callable)) {
    PyObject* makers[] = {_PyType_Lookup((PyTypeObject*)callable, name_new),
                          _PyType_Lookup((PyTypeObject*)callable, name_init)};
    for (PyObject* maker : makers) {
      // Safe: the class was noted, so its special methods are guarded; what a staticmethod holds never changes.
      bool is_static = maker && Py_IS_TYPE(maker, &PyStaticMethod_Type);
      Ref function = is_static ? Ref::steal(PyObject_GetAttrString(maker, "__func__")) : Ref::new_ref(maker);
      if (function && PyFunction_Check(function.get()) && note_unbound(r, function.get()) < 0) return -1;
    }
    return 0;
  }
  if (!PyFunction_Check(callable) || r->internal.count(callable)) return 0;
  return Ref::steal(ask_session(r, name_note_unbound, &callable, 1)) ? 0 : -1;
}

// Arguments that do not fit raise before there is a frame, so before anything is guarded: what decides it is noted
// then.
static PyObject* failed_call(Rehearsal* r, PyObject* callable, PyObject* const* args, Py_ssize_t n) {
  SavedError error;
  bool failed = false;
  if (error.type() && !error.traceback() && PyErr_GivenExceptionMatches(error.type(), PyExc_TypeError)) {
    failed = note_unbound(r, callable) < 0;
    for (Py_ssize_t i = 0; i < n && !failed; i++) failed = note_unbound(r, args[i]) < 0;
  }
  if (!failed) error.restore();
  return nullptr;
}

// `super().__getattribute__(name)` of a handle, where that is object's and nothing stands in its place.  NULL without
// an exception: the rule answers.  What nobody else holds bears no mark.
static PyObject* generic_read(Rehearsal* r, PyObject* callable, PyObject* const* args, Py_ssize_t nargs,
                              PyObject* kwnames) {
  if (!Py_IS_TYPE(callable, method_wrapper_type()) || Py_REFCNT(callable) != 1 || total(nargs, kwnames) != 1 || !nargs)
    return nullptr;
  const MethodWrapper* bound = (MethodWrapper*)callable;
  PyObject* obj = bound->receiver;
  if (bound->slot != generic_getter || !PyUnicode_CheckExact(args[0]) || !r->external.count(obj)) return nullptr;
  if (!is_heap_type(Py_TYPE(obj)) || PyType_Check(obj) || is_tensor(obj)) return nullptr;
  auto verdict = verdicts.find(generic_getter);
  bool is_usual = verdict != verdicts.end() && verdict->second.payload.get() == generic_handler;
  return is_usual ? read_generic(r, obj, args[0]) : nullptr;
}

static PyObject* by_rule(Rehearsal* r, PyObject* callable, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames);

PyObject* dispatch(Rehearsal* r, PyObject* callable, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames) {
  PyObject* result = by_rule(r, callable, args, nargs, kwnames);
  return result ? result : failed_call(r, callable, args, total(nargs, kwnames));
}

static PyObject* call_c_code(PyObject* callable, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames) {
  return PyObject_Vectorcall(callable, args, nargs, kwnames);
}

// Whether C code other than object's makes the instances of a class: it may read what it is given.
static bool is_made_by_c_code(PyObject* callable) {
  if (!PyType_Check(callable)) return false;
  PyTypeObject* type = (PyTypeObject*)callable;
  while (type && PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE)) type = type->tp_base;
  return type != &PyBaseObject_Type;
}

// Whether no C code looks at what this class is given for a new instance.
static bool is_made_in_python(PyObject* callable) {
  if (!PyType_Check(callable) || Py_TYPE(callable)->tp_call != PyType_Type.tp_call) return false;
  PyTypeObject* type = (PyTypeObject*)callable;
  PyObject* init = _PyType_Lookup(type, name_init);
  return type->tp_new == PyBaseObject_Type.tp_new && init && PyFunction_Check(init);
}

static PyObject* by_rule(Rehearsal* r, PyObject* callable, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames) {
  if (PyFunction_Check(callable)) return PyObject_Vectorcall(callable, args, nargs, kwnames);
  if (PyMethod_Check(callable)) {
    if (PyFunction_Check(PyMethod_GET_FUNCTION(callable))) return PyObject_Vectorcall(callable, args, nargs, kwnames);
    return prepend(r, PyMethod_GET_FUNCTION(callable), PyMethod_GET_SELF(callable), args, nargs, kwnames);
  }
  if (nargs == 1 && !kwnames && sorting.count(callable)) {
    if (Ref texts = texts_of_set(args[0])) {
      PyObject* listed = texts.get();
      return dispatch(r, callable, &listed, 1, nullptr);
    }
    if (PyErr_Occurred()) return nullptr;
  }
  if (!unordered.count(callable) && note_orders(r, callable, args, nargs) < 0) return nullptr;
  if (PyObject* made = makes_finalised(callable, args, nargs)) return deny(r, name_deny_finalised, made, nullptr);
  if (PyCFunction_Check(callable)) {
    PyObject* receiver = PyCFunction_GET_SELF(callable);
    if (receiver && safe_receivers.count(Py_TYPE(receiver)) &&
        !special_methods.count(((PyCFunctionObject*)callable)->m_ml)) {
      return PyObject_Vectorcall(callable, args, nargs, kwnames);
    }
  }
  if (PyType_Check(callable) && (((PyTypeObject*)callable)->tp_flags & Py_TPFLAGS_HEAPTYPE)) {
    if (note_class(r, callable) < 0) return nullptr;
  }
  PyObject* read = generic_read(r, callable, args, nargs, kwnames);
  if (read || PyErr_Occurred()) return read;
  Verdict v;
  if (!find_verdict(r, callable, &v)) return nullptr;
  bool native = v.kind == CallKind::OnInternals || v.kind == CallKind::Pure || v.kind == CallKind::Native ||
                v.kind == CallKind::Higher;
  Py_ssize_t all = total(nargs, kwnames);
  if (native && view_handler && meets_view(callable, args, all) && !is_made_in_python(callable))
    return call_handler(r, view_handler, callable, nullptr, args, nargs, kwnames);
  PyObject* receiver = PyCFunction_Check(callable) ? PyCFunction_GET_SELF(callable) : nullptr;
  switch (v.kind) {
    case CallKind::OnInternals: {
      bool handle = receiver && r->external.count(receiver);
      for (Py_ssize_t i = 0; i < all; i++) handle |= r->external.count(args[i]) != 0;
      if (handle) return deny(r, name_deny_handle, callable, nullptr);
      [[fallthrough]];
    }
    case CallKind::Pure:
      if (meets_number(callable, args, all))
        return call_handler(r, number_handler, callable, nullptr, args, nargs, kwnames);
      return call_c_code(callable, args, nargs, kwnames);
    case CallKind::Native:
      if (is_made_by_c_code(callable)) return call_c_code(callable, args, nargs, kwnames);
      return PyObject_Vectorcall(callable, args, nargs, kwnames);
    case CallKind::Higher:
      if (!callbacks_declared(r, args, all)) return nullptr;
      if (meets_number(callable, args, all))
        return call_handler(r, number_handler, callable, nullptr, args, nargs, kwnames);
      return call_c_code(callable, args, nargs, kwnames);
    case CallKind::Handler:
      return call_handler(r, v.payload.get(), callable, nullptr, args, nargs, kwnames);
    case CallKind::Bound:
      return call_handler(r, PyTuple_GET_ITEM(v.payload.get(), 0), PyTuple_GET_ITEM(v.payload.get(), 1), receiver, args,
                          nargs, kwnames);
    case CallKind::Unwrap:
      return unwrap(r, callable, args, nargs, kwnames);
    case CallKind::Denied:
      return deny(r, name_deny, callable, v.payload.get());
  }
  Py_UNREACHABLE();
}

PyObject* dispatch_spread(Rehearsal* r, PyObject* callable, PyObject* args, PyObject* kwargs) {
  Py_ssize_t n = PyTuple_GET_SIZE(args);
  Ref plain;
  if (kwargs && is_view(kwargs)) {  // a table that the program was given, and hands on as keywords: it is read whole
    plain = Ref::steal(PyObject_CallMethod(kwargs, "plain", nullptr));
    if (!(kwargs = plain.get())) return nullptr;
  }
  if (kwargs && kwargs != Py_None && !PyDict_Check(kwargs))
    return PyErr_Format(PyExc_TypeError, "keywords come in a dictionary");
  if (!kwargs || kwargs == Py_None || PyDict_GET_SIZE(kwargs) == 0)
    return dispatch(r, callable, &PyTuple_GET_ITEM(args, 0), n, nullptr);
  std::vector<PyObject*> stack(&PyTuple_GET_ITEM(args, 0), &PyTuple_GET_ITEM(args, 0) + n);
  std::vector<Ref> values;  // the dict may change while the call runs
  Ref names = Ref::steal(PyTuple_New(PyDict_GET_SIZE(kwargs)));
  if (!names) return nullptr;
  Py_ssize_t position = 0, i = 0;
  PyObject *key, *value;
  while (PyDict_Next(kwargs, &position, &key, &value)) {
    if (!PyUnicode_Check(key)) return PyErr_Format(PyExc_TypeError, "keywords must be strings");
    PyTuple_SET_ITEM(names.get(), i++, Py_NewRef(key));
    values.push_back(Ref::new_ref(value));
    stack.push_back(value);
  }
  return dispatch(r, callable, stack.data(), n, names.get());
}

static bool take_special_methods(PyObject* methods) {
  Ref given = Ref::steal(PySequence_Tuple(methods));
  for (Py_ssize_t i = 0; given && i < PyTuple_GET_SIZE(given.get()); i++)
    if (const void* key = identity(PyTuple_GET_ITEM(given.get(), i))) special_methods.insert(key);
  return bool(given);
}

static Connections connections({
    {"safe_receivers", nullptr, take_classes<safe_receivers>},
    {"special_methods", nullptr, take_special_methods},
    {"unordered", nullptr, take_callables<unordered>},
    {"sorting", nullptr, take_callables<sorting>},
    {"number_types", nullptr, take_classes<number_types>},
    {"number_handler", &number_handler},
    {"builtin_len", &builtin_len},
    {"builtin_isinstance", &builtin_isinstance},
    {"tensor_types", &tensor_types},
    {"view_types", nullptr, take_classes<view_types>},
    {"view_handler", &view_handler},
    {"generic_getter", &generic_getter},
    {"generic_handler", &generic_handler},
});

static PyObject* forget_verdicts(PyObject*, PyObject*) {
  auto old = std::move(verdicts);  // lets go at its end, when the table is a new one
  verdicts.clear();
  Py_RETURN_NONE;
}

static MethodTable methods({
    method<forget_verdicts, METH_NOARGS>("forget_verdicts", "ask the tables again"),
});

bool init_calls(PyObject* module) {
  return add_functions(module, methods);
}

}  // namespace framelift
