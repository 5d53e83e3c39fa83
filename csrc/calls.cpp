// The numbered call rule.  What a C callable is comes from the Python tables, asked once per callable and remembered.
#include "calls.h"
#include "orders.h"

#include <torch/csrc/autograd/python_variable.h>

#include <cstring>

namespace framelift {

enum class Kind : int {
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
  Kind kind;
  PyObject* payload;
};

static std::unordered_map<const void*, Verdict> verdicts;       // by method definition or object; owned payloads
static std::unordered_set<PyTypeObject*> safe_receivers;       // C types whose methods are pure on internal receivers
static std::unordered_set<const void*> special_methods;         // their methods that are not simply pure: asked one by one
static std::unordered_set<PyObject*> unordered;                 // callables for which the order of a set given to them is nothing
static PyObject *name_classify, *name_deny, *name_unwrap, *name_deny_handle, *name_note_unbound, *name_new, *name_init;

// What identifies a C callable for good: the method definition where there is one, else the object itself.
static const void* identity(PyObject* callable) {
  // All types share one definition of __new__, and slot wrappers of one name share theirs: there only the object tells.
  if (PyCFunction_Check(callable)) {
    PyMethodDef* definition = ((PyCFunctionObject*)callable)->m_ml;
    return strcmp(definition->ml_name, "__new__") ? (const void*)definition : callable;
  }
  if (Py_IS_TYPE(callable, &PyMethodDescr_Type) || Py_IS_TYPE(callable, &PyClassMethodDescr_Type))
    return ((PyMethodDescrObject*)callable)->d_method;
  if (Py_IS_TYPE(callable, &PyWrapperDescr_Type)) return callable;
  if (PyType_Check(callable) && !(((PyTypeObject*)callable)->tp_flags & Py_TPFLAGS_HEAPTYPE)) return callable;
  return nullptr;
}

// Under which key the verdict on a callable is kept: a method and the same one bound to an object share their definition.
static const void* verdict_key(PyObject* callable) {
  const char* found = (const char*)identity(callable);
  bool unbound = Py_IS_TYPE(callable, &PyMethodDescr_Type) || Py_IS_TYPE(callable, &PyClassMethodDescr_Type);
  return found && unbound ? found + 1 : found;
}

// `keep` receives a payload that is not remembered and must be released by the caller.
static bool find_verdict(Rehearsal* r, PyObject* callable, Verdict* out, PyObject** keep) {
  *keep = nullptr;
  const void* key = verdict_key(callable);
  if (key) {
    auto found = verdicts.find(key);
    if (found != verdicts.end()) {
      *out = found->second;
      return true;
    }
  }
  PyObject* args[] = {callable};
  PyObject* answer = ask_session(r, name_classify, args, 1);
  if (!answer) return false;
  long kind = PyLong_AsLong(PyTuple_GET_ITEM(answer, 0));
  *out = {(Kind)kind, Py_NewRef(PyTuple_GET_ITEM(answer, 1))};
  Py_DECREF(answer);
  if (key) {
    verdicts[key] = *out;
    if (key == callable) Py_INCREF(callable);  // an address is an identity only while the object lives
  } else {
    *keep = out->payload;
  }
  return true;
}

static PyObject* deny(Rehearsal* r, PyObject* method, PyObject* callable, PyObject* detail) {
  PyObject* args[] = {callable, detail ? detail : Py_None};
  PyObject* never = ask_session(r, method, args, 2);
  Py_XDECREF(never);
  return nullptr;
}

static PyObject* call_handler(Rehearsal* r, PyObject* handler, PyObject* callable, PyObject* receiver, PyObject* const* args,
                              Py_ssize_t nargs, PyObject* kwnames) {
  Py_ssize_t first = receiver ? 1 : 0;
  PyObject* positional = PyTuple_New(nargs + first);
  PyObject* keywords = PyDict_New();
  PyObject* result = nullptr;
  if (positional && keywords) {
    if (receiver) PyTuple_SET_ITEM(positional, 0, Py_NewRef(receiver));
    for (Py_ssize_t i = 0; i < nargs; i++) PyTuple_SET_ITEM(positional, first + i, Py_NewRef(args[i]));
    bool ok = true;
    for (Py_ssize_t i = 0; ok && kwnames && i < PyTuple_GET_SIZE(kwnames); i++)
      ok = PyDict_SetItem(keywords, PyTuple_GET_ITEM(kwnames, i), args[nargs + i]) == 0;
    if (ok) {
      PyObject* stack[] = {r->session, callable, positional, keywords};
      PausedScope paused;
      result = PyObject_Vectorcall(handler, stack, 4, nullptr);
    }
  }
  if (!result) note_interrupt(r);
  Py_XDECREF(positional);
  Py_XDECREF(keywords);
  return result;
}

static Py_ssize_t total(Py_ssize_t nargs, PyObject* kwnames) { return nargs + (kwnames ? PyTuple_GET_SIZE(kwnames) : 0); }

// C callables handed to a higher-order function are called behind the probes: they must be declared pure or record themselves.
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
    PyObject* keep;
    if (!find_verdict(r, a, &v, &keep)) return false;
    Kind kind = v.kind;
    Py_XDECREF(keep);
    if (kind == Kind::Pure || kind == Kind::Bound || kind == Kind::Higher || kind == Kind::Native) continue;
    deny(r, name_deny, a, nullptr);
    return false;
  }
  return true;
}

// The methods of built-in types that call an argument.
static bool takes_callback(const char* name) {
  return !strcmp(name, "sort") || !strcmp(name, "sub") || !strcmp(name, "subn");
}

static PyObject* prepend(Rehearsal* r, PyObject* callable, PyObject* receiver, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames) {
  std::vector<PyObject*> stack{receiver};
  stack.insert(stack.end(), args, args + total(nargs, kwnames));
  return dispatch(r, callable, stack.data(), nargs + 1, kwnames);
}

static PyObject* unwrap(Rehearsal* r, PyObject* callable, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames) {
  PyObject* positional = PyTuple_New(nargs);
  PyObject* keywords = PyDict_New();
  if (!positional || !keywords) return nullptr;
  for (Py_ssize_t i = 0; i < nargs; i++) PyTuple_SET_ITEM(positional, i, Py_NewRef(args[i]));
  for (Py_ssize_t i = 0; kwnames && i < PyTuple_GET_SIZE(kwnames); i++)
    PyDict_SetItem(keywords, PyTuple_GET_ITEM(kwnames, i), args[nargs + i]);
  PyObject* question[] = {callable, positional, keywords};
  PyObject* next = ask_session(r, name_unwrap, question, 3);
  Py_DECREF(positional);
  Py_DECREF(keywords);
  if (!next) return nullptr;
  PyObject* result = nullptr;
  if (!Py_EnterRecursiveCall(" while calling a Python object")) {  // `__call__` may be an instance of its own class
    result = dispatch_spread(r, PyTuple_GET_ITEM(next, 0), PyTuple_GET_ITEM(next, 1), PyTuple_GET_ITEM(next, 2));
    Py_LeaveRecursiveCall();
  }
  Py_DECREF(next);
  return result;
}

// Symbolic numbers: C code that is handed one would take its value, so the session decides what becomes of the call.
static std::unordered_set<PyTypeObject*> number_types;
static PyObject *builtin_len = nullptr, *number_handler = nullptr;

bool is_symbolic_number(PyObject* value) { return number_types.count(Py_TYPE(value)) != 0; }

static bool meets_number(PyObject* callable, PyObject* const* args, Py_ssize_t n) {
  if (number_types.empty()) return false;
  for (Py_ssize_t i = 0; i < n; i++)
    if (is_symbolic_number(args[i])) return true;
  return n == 1 && (callable == builtin_len || callable == (PyObject*)&PyLong_Type || callable == (PyObject*)&PyFloat_Type) && PyType_IsSubtype(Py_TYPE(args[0]), (PyTypeObject*)THPVariableClass);
}

// Containers that import an entry when it is asked for by their methods: to C code that looks inside they are empty, or no containers.
static std::unordered_set<PyTypeObject*> view_types;
static PyObject* view_handler = nullptr;

bool is_view(PyObject* value) { return PyType_HasFeature(Py_TYPE(value), Py_TPFLAGS_HEAPTYPE) && view_types.count(Py_TYPE(value)); }

static bool meets_view(PyObject* callable, PyObject* const* args, Py_ssize_t n) {
  if (PyCFunction_Check(callable) && PyCFunction_GET_SELF(callable) && view_types.count(Py_TYPE(PyCFunction_GET_SELF(callable)))) return true;
  for (Py_ssize_t i = 0; i < n; i++)
    if (is_view(args[i])) return true;
  return false;
}

// A function of Python's that might be the one whose parameters did not fit what it was given.
static int note_unbound(Rehearsal* r, PyObject* callable) {
  if (PyMethod_Check(callable)) callable = PyMethod_GET_FUNCTION(callable);
  if (PyType_Check(callable)) {
    PyObject* makers[] = {_PyType_Lookup((PyTypeObject*)callable, name_new), _PyType_Lookup((PyTypeObject*)callable, name_init)};
    for (PyObject* maker : makers) {
      // Safe: the class was noted, so its special methods are guarded; what a staticmethod holds never changes.
      PyObject* function = maker && Py_IS_TYPE(maker, &PyStaticMethod_Type) ? PyObject_GetAttrString(maker, "__func__") : Py_XNewRef(maker);
      int failed = function && PyFunction_Check(function) ? note_unbound(r, function) : 0;
      Py_XDECREF(function);
      if (failed) return -1;
    }
    return 0;
  }
  if (!PyFunction_Check(callable) || r->internal.count(callable)) return 0;
  PyObject* answer = ask_session(r, name_note_unbound, &callable, 1);
  if (!answer) return -1;
  Py_DECREF(answer);
  return 0;
}

// Arguments that do not fit raise before there is a frame, so before anything is guarded: what decides it is noted then.
static PyObject* failed_call(Rehearsal* r, PyObject* callable, PyObject* const* args, Py_ssize_t n) {
  PyObject *kind, *error, *trace;
  PyErr_Fetch(&kind, &error, &trace);
  bool failed = false;
  if (kind && !trace && PyErr_GivenExceptionMatches(kind, PyExc_TypeError)) {
    failed = note_unbound(r, callable) < 0;
    for (Py_ssize_t i = 0; i < n && !failed; i++) failed = note_unbound(r, args[i]) < 0;
  }
  if (!failed) {
    PyErr_Restore(kind, error, trace);
  } else {
    Py_XDECREF(kind);
    Py_XDECREF(error);
    Py_XDECREF(trace);
  }
  return nullptr;
}

static PyObject* by_rule(Rehearsal* r, PyObject* callable, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames);

PyObject* dispatch(Rehearsal* r, PyObject* callable, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames) {
  PyObject* result = by_rule(r, callable, args, nargs, kwnames);
  return result ? result : failed_call(r, callable, args, total(nargs, kwnames));
}

static PyObject* by_rule(Rehearsal* r, PyObject* callable, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames) {
  if (PyFunction_Check(callable)) return PyObject_Vectorcall(callable, args, nargs, kwnames);
  if (PyMethod_Check(callable)) {
    if (PyFunction_Check(PyMethod_GET_FUNCTION(callable))) return PyObject_Vectorcall(callable, args, nargs, kwnames);
    return prepend(r, PyMethod_GET_FUNCTION(callable), PyMethod_GET_SELF(callable), args, nargs, kwnames);
  }
  if (!unordered.count(callable) && note_orders(r, callable, args, nargs) < 0) return nullptr;
  if (PyCFunction_Check(callable)) {
    PyObject* receiver = PyCFunction_GET_SELF(callable);
    if (receiver && safe_receivers.count(Py_TYPE(receiver)) && !special_methods.count(((PyCFunctionObject*)callable)->m_ml)) {
      if (takes_callback(((PyCFunctionObject*)callable)->m_ml->ml_name) && !callbacks_declared(r, args, total(nargs, kwnames))) return nullptr;
      return PyObject_Vectorcall(callable, args, nargs, kwnames);
    }
  }
  if (PyType_Check(callable) && (((PyTypeObject*)callable)->tp_flags & Py_TPFLAGS_HEAPTYPE) && !r->internal.count(callable)) {
    if (note_class(r, callable) < 0) return nullptr;
  }
  Verdict v;
  PyObject* keep;
  if (!find_verdict(r, callable, &v, &keep)) return nullptr;
  PyObject* result = nullptr;
  bool native = v.kind == Kind::OnInternals || v.kind == Kind::Pure || v.kind == Kind::Native || v.kind == Kind::Higher;
  if (native && view_handler && meets_view(callable, args, total(nargs, kwnames))) {
    result = call_handler(r, view_handler, callable, nullptr, args, nargs, kwnames);
    Py_XDECREF(keep);
    return result;
  }
  switch (v.kind) {
    case Kind::OnInternals: {
      bool handle = false;
      for (Py_ssize_t i = 0; i < total(nargs, kwnames); i++) handle |= r->external.count(args[i]) != 0;
      if (PyCFunction_Check(callable) && PyCFunction_GET_SELF(callable)) handle |= r->external.count(PyCFunction_GET_SELF(callable)) != 0;
      if (handle) {
        deny(r, name_deny_handle, callable, nullptr);
        break;
      }
      [[fallthrough]];
    }
    case Kind::Pure:
      if (meets_number(callable, args, total(nargs, kwnames))) {
        result = call_handler(r, number_handler, callable, nullptr, args, nargs, kwnames);
        break;
      }
      [[fallthrough]];
    case Kind::Native:
      result = PyObject_Vectorcall(callable, args, nargs, kwnames);
      break;
    case Kind::Higher:
      if (!callbacks_declared(r, args, total(nargs, kwnames))) break;
      result = meets_number(callable, args, total(nargs, kwnames)) ? call_handler(r, number_handler, callable, nullptr, args, nargs, kwnames)
                                                                   : PyObject_Vectorcall(callable, args, nargs, kwnames);
      break;
    case Kind::Handler:
      result = call_handler(r, v.payload, callable, nullptr, args, nargs, kwnames);
      break;
    case Kind::Bound:
      result = call_handler(r, PyTuple_GET_ITEM(v.payload, 0), PyTuple_GET_ITEM(v.payload, 1),
                            PyCFunction_Check(callable) ? PyCFunction_GET_SELF(callable) : nullptr, args, nargs, kwnames);
      break;
    case Kind::Unwrap:
      result = unwrap(r, callable, args, nargs, kwnames);
      break;
    case Kind::Denied:
      deny(r, name_deny, callable, v.payload);
      break;
  }
  Py_XDECREF(keep);
  return result;
}

PyObject* dispatch_spread(Rehearsal* r, PyObject* callable, PyObject* args, PyObject* kwargs) {
  Py_ssize_t n = PyTuple_GET_SIZE(args);
  if (!kwargs || kwargs == Py_None || PyDict_GET_SIZE(kwargs) == 0) return dispatch(r, callable, &PyTuple_GET_ITEM(args, 0), n, nullptr);
  std::vector<PyObject*> stack(&PyTuple_GET_ITEM(args, 0), &PyTuple_GET_ITEM(args, 0) + n);
  PyObject* names = PyTuple_New(PyDict_GET_SIZE(kwargs));
  if (!names) return nullptr;
  Py_ssize_t position = 0, i = 0;
  PyObject *key, *value;
  while (PyDict_Next(kwargs, &position, &key, &value)) {
    if (!PyUnicode_Check(key)) {
      Py_DECREF(names);
      PyErr_SetString(PyExc_TypeError, "keywords must be strings");
      return nullptr;
    }
    PyTuple_SET_ITEM(names, i++, Py_NewRef(key));
    stack.push_back(Py_NewRef(value));  // the dict may change while the call runs
  }
  PyObject* result = dispatch(r, callable, stack.data(), n, names);
  for (size_t j = n; j < stack.size(); j++) Py_DECREF(stack[j]);
  Py_DECREF(names);
  return result;
}

static PyObject* set_safe_receivers(PyObject*, PyObject* args) {
  PyObject *types, *special;
  if (!PyArg_ParseTuple(args, "O!O!", &PyTuple_Type, &types, &PyTuple_Type, &special)) return nullptr;
  safe_receivers.clear();
  special_methods.clear();
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(special); i++) {
    const void* key = identity(PyTuple_GET_ITEM(special, i));
    if (key) special_methods.insert(key);
  }
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(types); i++) safe_receivers.insert((PyTypeObject*)Py_NewRef(PyTuple_GET_ITEM(types, i)));
  Py_RETURN_NONE;
}
static PyObject* set_numbers(PyObject*, PyObject* args) {
  PyObject *types, *handler, *len;
  if (!PyArg_ParseTuple(args, "O!OO", &PyTuple_Type, &types, &handler, &len)) return nullptr;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(types); i++) number_types.insert((PyTypeObject*)Py_NewRef(PyTuple_GET_ITEM(types, i)));
  Py_XSETREF(number_handler, Py_NewRef(handler));
  Py_XSETREF(builtin_len, Py_NewRef(len));
  Py_RETURN_NONE;
}

static PyObject* set_views(PyObject*, PyObject* args) {
  PyObject *types, *handler;
  if (!PyArg_ParseTuple(args, "O!O", &PyTuple_Type, &types, &handler)) return nullptr;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(types); i++) view_types.insert((PyTypeObject*)Py_NewRef(PyTuple_GET_ITEM(types, i)));
  Py_XSETREF(view_handler, Py_NewRef(handler));
  Py_RETURN_NONE;
}

static PyObject* set_unordered(PyObject*, PyObject* callables) {
  PyObject* all = PySequence_Tuple(callables);  // kept: an address is an identity only while the object lives
  if (!all) return nullptr;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(all); i++) unordered.insert(PyTuple_GET_ITEM(all, i));
  Py_RETURN_NONE;
}
static PyObject* forget_verdicts(PyObject*, PyObject*) {
  for (auto& [key, v] : verdicts) Py_XDECREF(v.payload);
  verdicts.clear();
  Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"set_safe_receivers", set_safe_receivers, METH_VARARGS, "(C types whose methods are pure on internal receivers, methods that are not)"},
    {"set_numbers", set_numbers, METH_VARARGS, "(classes of symbolic numbers, handler of pure calls that are given one, len)"},
    {"set_views", set_views, METH_VARARGS, "(classes of dictionaries that C code must not look into, handler of native calls that are given one)"},
    {"set_unordered", set_unordered, METH_O, "callables for which the order of a set given to them is nothing"},
    {"forget_verdicts", forget_verdicts, METH_NOARGS, "ask the tables again"},
    {nullptr, nullptr, 0, nullptr}};

bool init_calls(PyObject* module) {
  name_classify = PyUnicode_InternFromString("classify");
  name_deny = PyUnicode_InternFromString("deny");
  name_deny_handle = PyUnicode_InternFromString("deny_handle");
  name_note_unbound = PyUnicode_InternFromString("note_unbound");
  name_new = PyUnicode_InternFromString("__new__");
  name_init = PyUnicode_InternFromString("__init__");
  name_unwrap = PyUnicode_InternFromString("unwrap");
  return PyModule_AddFunctions(module, methods) == 0;
}

}  // namespace framelift
