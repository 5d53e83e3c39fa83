// Compiled: the callable that stands for a captured function.  It binds arguments, runs the first entry whose guards
// hold (entries.cpp), and asks the driver on a miss.
#include <cstring>

#include "compiled_binding.h"
#include "guard.h"
#include "resume.h"

namespace framelift {

// ---- the callable ----

struct CompiledObject {
  PyObject_HEAD
  vectorcallfunc vectorcall;
  PyObject *function, *bound, *miss, *entries, *frames, *dict, *weakrefs;
  unsigned long long hits;
};
static PyTypeObject Compiled_Type = {PyVarObject_HEAD_INIT(nullptr, 0)};

bool is_compiled(PyObject* obj) { return Py_IS_TYPE(obj, &Compiled_Type); }
static bool disabled = false;

static PyObject* tuple_of(PyObject* const* items, Py_ssize_t n) {
  PyObject* tuple = PyTuple_New(n);
  for (Py_ssize_t i = 0; tuple && i < n; i++) PyTuple_SET_ITEM(tuple, i, Py_NewRef(items[i]));
  return tuple;
}

// Why the first entry is not used, in words; NULL without an exception when nothing can be said.
static PyObject* words_for_miss(CompiledObject* self, PyObject* const* locals, Py_ssize_t n) {
  PyObject* module = PyImport_ImportModule("framelift.guard.explain");
  PyObject* arguments = tuple_of(locals, n);
  PyObject* sentences = nullptr;
  if (module && arguments) sentences = PyObject_CallMethod(module, "explain_all", "OO", self->entries, arguments);
  PyObject* first = sentences ? PySequence_GetItem(sentences, 0) : nullptr;
  Py_XDECREF(module);
  Py_XDECREF(arguments);
  Py_XDECREF(sentences);
  PyErr_Clear();
  return first;
}

static void raise_second_miss(CompiledObject* self, PyObject* const* locals, Py_ssize_t n) {
  PyObject* words = words_for_miss(self, locals, n);
  PyObject* module = PyImport_ImportModule("framelift.exc");
  PyObject* error = module ? PyObject_GetAttrString(module, "InternalError") : nullptr;
  PyErr_Clear();
  PyErr_Format(error ? error : PyExc_RuntimeError,
               "%U was captured, but its guards do not hold for the very call they came from: %S",
               ((PyFunctionObject*)self->function)->func_qualname, words ? words : Py_None);
  for (PyObject* object : {words, module, error}) Py_XDECREF(object);
}

void more_depth(int n);   // resume.cpp

static int ask_driver(CompiledObject* self, PyObject* const* locals, Py_ssize_t n) {
  PyObject* tuple = tuple_of(locals, n);
  if (!tuple) return -1;
  PyObject* miss = Py_NewRef(self->miss);
  PyObject* arguments[] = {nullptr, (PyObject*)self, tuple};
  constexpr int kDepthOfCapture = 500;   // of framelift and torch
  more_depth(kDepthOfCapture);
  PyObject* answer = PyObject_Vectorcall(miss, arguments + 1, 2 | PY_VECTORCALL_ARGUMENTS_OFFSET, nullptr);
  more_depth(-kDepthOfCapture);
  int captured = answer ? PyObject_IsTrue(answer) : -1;
  Py_XDECREF(answer);
  Py_DECREF(miss);
  Py_DECREF(tuple);
  return captured;
}

// Guards, entries and the driver are framelift's own code: frames below them are not the surrounding capture's business.
struct OwnCode {
  PyObject* context = thread_state().context;
  OwnCode() { thread_state().context = nullptr; }
  ~OwnCode() { thread_state().context = context; }
};

static constexpr int kRounds = 3;

// 1: *result is set; 2: run plainly; -1: exception.
static int look_up(CompiledObject* self, const Binding& binding, PyObject** result) {
  OwnCode scope;
  PyObject* entries = Py_NewRef(self->entries);
  PyObject* const* locals = binding.locals();
  Py_ssize_t n = binding.count();
  int verdict = try_entries(entries, locals, n, result);
  for (int round = 0; verdict == 0; round++) {  // an entry made by another thread may look further and say no: ask once more
    if (round == kRounds) {
      raise_second_miss(self, locals, n);
      verdict = -1;
      break;
    }
    int captured = thread_state().mode == Mode::RunOnly || self->miss == Py_None ? 0 : ask_driver(self, locals, n);
    Py_SETREF(entries, Py_NewRef(self->entries));  // the driver may have put another list there
    verdict = captured < 0 ? -1 : captured == 0 ? 2 : try_entries(entries, locals, n, result);
  }
  if (verdict == 1) self->hits++;
  Py_DECREF(entries);
  return verdict;
}

// ---- the stance ----

static PyObject* redirect = nullptr;       // Python: (compiled, args, kwargs) runs in place of a lookup, under some stances
static PyObject* follow_torch = nullptr;   // Python: told of TorchDynamo's record of the stance when that changed
static PyObject *torch_module_name, *torch_record_name;

// torch.compiler.set_stance writes to a variable of TorchDynamo, which may be imported at any time or never.
static bool follow_torch_stance() {
  static PyObject *variables = nullptr, *seen = nullptr;
  if (!variables) {
    PyObject* module = PyDict_GetItemWithError(PyImport_GetModuleDict(), torch_module_name);
    if (!module || !PyModule_Check(module)) return true;
    variables = Py_NewRef(PyModule_GetDict(module));
  }
  PyObject* record = PyDict_GetItemWithError(variables, torch_record_name);
  if (!record || record == seen || !follow_torch) return true;
  Py_XSETREF(seen, Py_NewRef(record));
  PyObject* done = PyObject_CallOneArg(follow_torch, record);
  Py_XDECREF(done);
  return done != nullptr;
}

static PyObject* call_redirect(CompiledObject* self, PyObject* const* args, size_t nargsf, PyObject* kwnames) {
  Py_ssize_t given = PyVectorcall_NARGS(nargsf);
  PyObject* positional = tuple_of(args, given);
  PyObject* named = PyDict_New();
  for (Py_ssize_t i = 0; named && kwnames && i < PyTuple_GET_SIZE(kwnames); i++)
    if (PyDict_SetItem(named, PyTuple_GET_ITEM(kwnames, i), args[given + i]) < 0) Py_CLEAR(named);
  PyObject* callable = Py_NewRef(redirect);
  PyObject* result = positional && named ? PyObject_CallFunctionObjArgs(callable, (PyObject*)self, positional, named, nullptr) : nullptr;
  Py_DECREF(callable);
  Py_XDECREF(positional);
  Py_XDECREF(named);
  return result;
}

static PyObject* call_with(CompiledObject* self, PyObject* const* args, size_t nargsf, PyObject* kwnames, bool direct = false) {
  PyObject* function = Py_NewRef(self->function);
  PyObject* result = nullptr;
  Mode mode = thread_state().mode;
  bool watched = !disabled && mode != Mode::Rehearse && mode != Mode::Paused;
  if (watched && !follow_torch_stance()) {
    Py_DECREF(function);
    return nullptr;
  }
  if (watched && redirect && !direct) {
    result = call_redirect(self, args, nargsf, kwnames);
    Py_DECREF(function);
    return result;
  }
  if (disabled || mode == Mode::Rehearse || mode == Mode::Paused) {
    result = PyObject_Vectorcall(function, args, nargsf, kwnames);
  } else {
    Py_INCREF(self);
    int verdict = 2;
    bool bound;
    {
      Binding binding(function);
      bound = binding.bind(args, PyVectorcall_NARGS(nargsf), kwnames);
      if (bound) verdict = look_up(self, binding, &result);
    }
    if (verdict == 1 && is_handover(result)) result = drive((PyObject*)self, function, result);
    if (!bound) result = PyObject_Vectorcall(function, args, nargsf, kwnames);  // CPython raises its own TypeError
    else if (verdict == 2) {
      PyObject* failure = take_failure();
      result = run_plain((PyObject*)self, function, args, nargsf, kwnames);
      tell_failure(failure, &result);
    }
    Py_DECREF(self);
  }
  Py_DECREF(function);
  return result;
}

static PyObject* compiled_vectorcall(PyObject* object, PyObject* const* args, size_t nargsf, PyObject* kwnames) {
  CompiledObject* self = (CompiledObject*)object;
  if (!self->function || !self->bound || !self->entries) {
    PyErr_SetString(PyExc_RuntimeError, "the compiled function was already cleared by the garbage collector");
    return nullptr;
  }
  Py_ssize_t before = PyTuple_GET_SIZE(self->bound);
  if (before == 0) return call_with(self, args, nargsf, kwnames);
  Py_ssize_t given = PyVectorcall_NARGS(nargsf);
  Py_ssize_t total = before + given + (kwnames ? PyTuple_GET_SIZE(kwnames) : 0);
  PyObject* bound = Py_NewRef(self->bound);
  std::vector<PyObject*> all(1 + (size_t)total);  // the first is room for a callee to use
  for (Py_ssize_t i = 0; i < before; i++) all[1 + i] = PyTuple_GET_ITEM(bound, i);
  for (Py_ssize_t i = before; i < total; i++) all[1 + i] = args[i - before];
  PyObject* result = call_with(self, all.data() + 1, (size_t)(before + given) | PY_VECTORCALL_ARGUMENTS_OFFSET, kwnames);
  Py_DECREF(bound);
  return result;
}

// As functools.update_wrapper: the compiled function looks like the one it stands for.
static bool mirror(CompiledObject* self, PyObject* name) {
  self->dict = PyDict_New();
  if (!self->dict) return false;
  PyObject* own = PyObject_GetAttrString(self->function, "__dict__");
  bool ok = own && PyDict_Update(self->dict, own) == 0;
  Py_XDECREF(own);
  for (const char* attribute : {"__name__", "__qualname__", "__doc__", "__module__", "__annotations__", "__type_params__"}) {
    PyObject* value = ok ? PyObject_GetAttrString(self->function, attribute) : nullptr;
    if (value) ok = PyDict_SetItemString(self->dict, attribute, value) == 0;
    else PyErr_Clear();
    Py_XDECREF(value);
  }
  ok = ok && PyDict_SetItemString(self->dict, "__wrapped__", self->function) == 0;
  if (name != Py_None) ok = ok && PyDict_SetItemString(self->dict, "__name__", name) == 0;
  return ok;
}

static PyObject* compiled_create(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
  static const char* names[] = {"function", "miss", "bound", "name", nullptr};
  PyObject *function, *miss, *bound = nullptr, *name = Py_None;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!O|O!O", (char**)names, &PyFunction_Type, &function, &miss, &PyTuple_Type,
                                   &bound, &name))
    return nullptr;
  CompiledObject* self = (CompiledObject*)type->tp_alloc(type, 0);
  if (!self) return nullptr;
  self->vectorcall = compiled_vectorcall;
  self->function = Py_NewRef(function);
  self->miss = Py_NewRef(miss);
  self->bound = bound ? Py_NewRef(bound) : PyTuple_New(0);
  self->entries = PyList_New(0);
  self->frames = PyDict_New();
  if (!self->bound || !self->entries || !self->frames || !mirror(self, name)) Py_CLEAR(self);
  return (PyObject*)self;
}

static int compiled_traverse(PyObject* object, visitproc visit, void* arg) {
  CompiledObject* self = (CompiledObject*)object;
  for (PyObject* member : {self->function, self->bound, self->miss, self->entries, self->frames, self->dict}) Py_VISIT(member);
  return 0;
}

static int compiled_clear(PyObject* object) {
  CompiledObject* self = (CompiledObject*)object;
  for (PyObject** member : {&self->function, &self->bound, &self->miss, &self->entries, &self->frames, &self->dict})
    Py_CLEAR(*member);
  return 0;
}

static void compiled_dealloc(PyObject* object) {
  PyObject_GC_UnTrack(object);
  if (((CompiledObject*)object)->weakrefs) PyObject_ClearWeakRefs(object);
  compiled_clear(object);
  Py_TYPE(object)->tp_free(object);
}

static PyObject* compiled_get(PyObject* self, PyObject* instance, PyObject*) {
  return !instance || instance == Py_None ? Py_NewRef(self) : PyMethod_New(self, instance);
}

static PyObject* compiled_repr(PyObject* object) {
  CompiledObject* self = (CompiledObject*)object;
  if (!self->function || !self->entries) return PyUnicode_FromString("<compiled, cleared>");
  return PyUnicode_FromFormat("<compiled %U, %zd entries>", ((PyFunctionObject*)self->function)->func_qualname,
                              PyList_GET_SIZE(self->entries));
}

// Reports are written in Python: print(compiled) and compiled.report() ask these.
static PyObject *str_function = nullptr, *report_function = nullptr, *recompiles_function = nullptr;

static PyObject* compiled_str(PyObject* self) { return str_function ? PyObject_CallOneArg(str_function, self) : compiled_repr(self); }

static PyObject* compiled_recompiles(PyObject* self, PyObject*) {
  if (recompiles_function) return PyObject_CallOneArg(recompiles_function, self);
  PyErr_SetString(PyExc_RuntimeError, "framelift's records are not loaded");
  return nullptr;
}

static PyObject* set_recompiles(PyObject*, PyObject* function) {
  Py_XSETREF(recompiles_function, Py_NewRef(function));
  Py_RETURN_NONE;
}

static PyObject* compiled_report(PyObject* self, PyObject*) {
  if (report_function) return PyObject_CallOneArg(report_function, self);
  PyErr_SetString(PyExc_RuntimeError, "framelift's reports are not loaded");
  return nullptr;
}

// As functions: copies are the object itself, and pickles name it.
static PyObject* compiled_reduce(PyObject* object, PyObject*) {
  CompiledObject* self = (CompiledObject*)object;
  PyObject* name = self->dict ? PyDict_GetItemString(self->dict, "__qualname__") : nullptr;
  return name ? Py_NewRef(name) : PyErr_Format(PyExc_TypeError, "a compiled callable without a name cannot be pickled");
}

static PyMethodDef compiled_methods[] = {
    {"__reduce__", compiled_reduce, METH_NOARGS, "By name, as functions."},
    {"recompiles", compiled_recompiles, METH_NOARGS, "Why it was captured again: a list of framelift.Recompile."},
    {"report", compiled_report, METH_NOARGS, "All that is known of what was captured: a framelift.report.Report."},
    {nullptr, nullptr, 0, nullptr}};

static PyObject* set_reporting(PyObject*, PyObject* args) {
  PyObject *text, *report;
  if (!PyArg_ParseTuple(args, "OO", &text, &report)) return nullptr;
  Py_XSETREF(str_function, Py_NewRef(text));
  Py_XSETREF(report_function, Py_NewRef(report));
  Py_RETURN_NONE;
}

static PyMemberDef compiled_members[] = {
    {"function", T_OBJECT, offsetof(CompiledObject, function), READONLY, "the function it stands for"},
    {"bound", T_OBJECT, offsetof(CompiledObject, bound), READONLY, "arguments put before those of a call"},
    {"miss", T_OBJECT, offsetof(CompiledObject, miss), 0, "miss(compiled, locals) -> whether an entry was put in front"},
    {"frames", T_OBJECT, offsetof(CompiledObject, frames), READONLY, "code -> entries of frames met in plain runs"},
    {"hits", T_ULONGLONG, offsetof(CompiledObject, hits), 0, "calls that an entry served"},
    {nullptr, 0, 0, 0, nullptr}};
static PyObject* get_entries(PyObject* self, void*) {
  PyObject* entries = ((CompiledObject*)self)->entries;
  return Py_NewRef(entries ? entries : Py_None);
}

static int set_entries(PyObject* self, PyObject* value, void*) {
  if (!value || !PyList_Check(value)) {
    PyErr_SetString(PyExc_TypeError, "entries are a list");
    return -1;
  }
  Py_SETREF(((CompiledObject*)self)->entries, Py_NewRef(value));
  return 0;
}

// To isinstance and inspect it is the function it stands for; type() tells the truth.
static PyObject* get_class(PyObject*, void*) { return Py_NewRef((PyObject*)&PyFunction_Type); }

static PyObject* get_of_function(PyObject* object, void* name) {
  PyObject* function = ((CompiledObject*)object)->function;
  return PyObject_GetAttrString(function ? function : Py_None, (const char*)name);
}

static PyGetSetDef compiled_getters[] = {{"__class__", get_class, nullptr, nullptr, nullptr},
                                         {"__code__", get_of_function, nullptr, nullptr, (void*)"__code__"},
                                         {"__globals__", get_of_function, nullptr, nullptr, (void*)"__globals__"},
                                         {"__closure__", get_of_function, nullptr, nullptr, (void*)"__closure__"},
                                         {"__defaults__", get_of_function, nullptr, nullptr, (void*)"__defaults__"},
                                         {"__kwdefaults__", get_of_function, nullptr, nullptr, (void*)"__kwdefaults__"},
                                         {"entries", get_entries, set_entries, "The entries, first tried first.", nullptr},
                                         {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, nullptr, nullptr},
                                         {nullptr, nullptr, nullptr, nullptr, nullptr}};

static PyObject* set_disabled(PyObject*, PyObject* value) {
  int truth = PyObject_IsTrue(value);
  if (truth < 0) return nullptr;
  bool before = disabled;
  disabled = truth;
  return PyBool_FromLong(before);
}
// call_compiled(compiled, args, kwargs): as a call, whatever the stance says.  Arguments include the bound ones.
static PyObject* call_compiled(PyObject*, PyObject* const* a, Py_ssize_t n) {
  if (n != 3 || Py_TYPE(a[0]) != &Compiled_Type || !PyTuple_Check(a[1]) || !PyDict_Check(a[2]))
    return PyErr_Format(PyExc_TypeError, "call_compiled(compiled, args, kwargs)");
  Py_ssize_t given = PyTuple_GET_SIZE(a[1]);
  std::vector<PyObject*> all{nullptr};
  for (Py_ssize_t i = 0; i < given; i++) all.push_back(PyTuple_GET_ITEM(a[1], i));
  PyObject* names = PyTuple_New(PyDict_GET_SIZE(a[2]));
  Py_ssize_t position = 0, count = 0;
  PyObject *key, *value;
  while (names && PyDict_Next(a[2], &position, &key, &value)) {
    PyTuple_SET_ITEM(names, count++, Py_NewRef(key));
    all.push_back(value);
  }
  PyObject* result = names ? call_with((CompiledObject*)a[0], all.data() + 1, (size_t)given | PY_VECTORCALL_ARGUMENTS_OFFSET, names, true) : nullptr;
  Py_XDECREF(names);
  return result;
}
static PyObject* set_redirect(PyObject*, PyObject* value) {
  Py_XSETREF(redirect, value == Py_None ? nullptr : Py_NewRef(value));
  Py_RETURN_NONE;
}
static PyObject* set_follow_torch_stance(PyObject*, PyObject* value) {
  Py_XSETREF(follow_torch, Py_NewRef(value));
  Py_RETURN_NONE;
}
static PyMethodDef functions[] = {
    {"set_recompiles", set_recompiles, METH_O, "set_recompiles(function): what compiled.recompiles() calls."},
    {"set_reporting", set_reporting, METH_VARARGS, "set_reporting(text, report): what str(compiled) and compiled.report() call."},
    {"call_compiled", (PyCFunction)(void*)call_compiled, METH_FASTCALL, "call_compiled(compiled, args, kwargs): whatever the stance says."},
    {"set_redirect", set_redirect, METH_O, "Let callable(compiled, args, kwargs) run in place of every compiled callable, or None."},
    {"set_follow_torch_stance", set_follow_torch_stance, METH_O, "Called with TorchDynamo's record of the stance when that changed."},
    {"set_disabled", set_disabled, METH_O, "Make all compiled callables run plain Python, or not; returns what was."},
    {nullptr, nullptr, 0, nullptr}};

bool init_compiled(PyObject* module) {
  torch_module_name = PyUnicode_InternFromString("torch._dynamo.eval_frame");
  torch_record_name = PyUnicode_InternFromString("_stance");
  Compiled_Type.tp_name = "framelift._core.Compiled";
  Compiled_Type.tp_basicsize = sizeof(CompiledObject);
  Compiled_Type.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL;
  Compiled_Type.tp_doc = "Compiled(function, miss, bound=(), name=None)";
  Compiled_Type.tp_new = compiled_create;
  Compiled_Type.tp_dealloc = compiled_dealloc;
  Compiled_Type.tp_traverse = compiled_traverse;
  Compiled_Type.tp_clear = compiled_clear;
  Compiled_Type.tp_vectorcall_offset = offsetof(CompiledObject, vectorcall);
  Compiled_Type.tp_call = PyVectorcall_Call;
  Compiled_Type.tp_descr_get = compiled_get;
  Compiled_Type.tp_repr = compiled_repr;
  Compiled_Type.tp_str = compiled_str;
  Compiled_Type.tp_methods = compiled_methods;
  Compiled_Type.tp_members = compiled_members;
  Compiled_Type.tp_getset = compiled_getters;
  Compiled_Type.tp_dictoffset = offsetof(CompiledObject, dict);
  Compiled_Type.tp_weaklistoffset = offsetof(CompiledObject, weakrefs);
  return PyType_Ready(&Compiled_Type) == 0 && PyModule_AddFunctions(module, functions) == 0 &&
         PyModule_AddObjectRef(module, "Compiled", (PyObject*)&Compiled_Type) == 0;
}

}  // namespace framelift
