// Compiled: the callable that stands for a captured function.  It binds arguments, runs the first entry whose guards
// hold (entries.cpp), and asks the driver on a miss.
#include "barrier.h"
#include "compiled_binding.h"
#include "connections.h"
#include "frame_access.h"
#include "guard.h"
#include "resume.h"

namespace framelift {

// ---- the callable ----

struct CompiledObject {
  PyObject_HEAD vectorcallfunc vectorcall;
  PyObject *function, *bound, *miss, *entries, *frames, *dict, *weakrefs;
  // Of a callable object: the object, what its class had as `__call__` when `function` was taken from that, the
  // version of the class where this was last looked at, and what is called while the class has another one.
  PyObject *receiver, *call_then, *successor;
  unsigned int version;
  unsigned long long hits;
};
static PyTypeObject Compiled_Type = {PyVarObject_HEAD_INIT(nullptr, 0)};

bool is_compiled(PyObject* obj) { return Py_IS_TYPE(obj, &Compiled_Type); }
static bool disabled = false;

// Why the first of some entries is not used, in words; none, without an exception, when nothing can be said.
static Ref words_for_miss(PyObject* entries, PyObject* const* locals, Py_ssize_t n) {
  Ref module = Ref::steal(PyImport_ImportModule("framelift.guards.sentences"));
  Ref arguments = tuple_of(locals, n), sentences;
  if (module && arguments && entries)
    sentences = Ref::steal(PyObject_CallMethod(module.get(), "explain_all", "OO", entries, arguments.get()));
  Ref first = Ref::steal(sentences ? PySequence_GetItem(sentences.get(), 0) : nullptr);
  PyErr_Clear();
  return first;
}

static void raise_second_miss(CompiledObject* self, PyObject* entries, PyObject* const* locals, Py_ssize_t n) {
  Ref words = words_for_miss(entries, locals, n);
  Ref module = Ref::steal(PyImport_ImportModule("framelift.exc"));
  // Safe: a module of framelift.
  Ref error = Ref::steal(module ? PyObject_GetAttrString(module.get(), "InternalError") : nullptr);
  PyErr_Clear();
  PyErr_Format(error ? error.get() : PyExc_RuntimeError,
               "%U was captured, but its guards do not hold for the very call they came from: %S",
               ((PyFunctionObject*)self->function)->func_qualname, words ? words.get() : Py_None);
}

// The driver's answer: an entry it made for this call; True: look again, another thread made some; None: run plainly,
// with all that is called; anything else: run plainly.
static Ref ask_driver(CompiledObject* self, PyObject* const* locals, Py_ssize_t n) {
  if (thread_state().mode == Mode::RunOnly || self->miss == Py_None) return Ref::new_ref(Py_False);
  Ref tuple = tuple_of(locals, n), miss = Ref::new_ref(self->miss);
  if (!tuple) return nullptr;
  PyObject* arguments[] = {nullptr, (PyObject*)self, tuple.get()};
  ExtraDepth depth(ExtraDepth::kCapture);
  return Ref::steal(PyObject_Vectorcall(miss.get(), arguments + 1, 2 | PY_VECTORCALL_ARGUMENTS_OFFSET, nullptr));
}

// Guards, entries and the driver are framelift's own code: frames below them are not the surrounding capture's
// business.
struct OwnCode {
  PyObject* context = thread_state().context;
  OwnCode() { thread_state().context = nullptr; }
  ~OwnCode() { thread_state().context = context; }
};

static constexpr int kOwnRounds = 3;       // an entry that waits for a compiler says no when that is done
static constexpr int kOtherRounds = 1000;  // each time another thread captured what is not for this call

// 1: *result is set; 2: run plainly; 3: with all that is called; -1: exception.
static int look_up(CompiledObject* self, const Binding& binding, PyObject** result) {
  OwnCode scope;
  PyObject* const* locals = binding.locals();
  Py_ssize_t n = binding.count();
  Ref entries = Ref::new_ref(self->entries);
  int verdict = choose_entry((PyObject*)self, entries.get(), locals, n, result);
  for (int own = 0, others = 0; verdict == 0;) {
    Ref answer = ask_driver(self, locals, n);
    if (!answer) return -1;
    if (is_entry(answer.get())) {  // not looked for in the list: another thread may have emptied that
      entries = Ref::steal(PyTuple_Pack(1, answer.get()));
      verdict = entries ? try_entry(answer.get(), locals, n, result) : -1;
      own++;
    } else {
      entries = Ref::new_ref(self->entries);  // the driver may have put another list there
      verdict = answer.get() == Py_None   ? 3
                : answer.get() == Py_True ? try_entries(entries.get(), locals, n, result)
                                          : 2;
      others++;
    }
    if (verdict == 0 && (own == kOwnRounds || others == kOtherRounds)) {
      raise_second_miss(self, entries.get(), locals, n);
      return -1;
    }
  }
  if (verdict == 1) self->hits++;
  return verdict;
}

// ---- the stance ----

static PyObject* redirect = nullptr;  // Python: (compiled, args, kwargs) runs in place of a lookup, under some stances
static PyObject* follow_torch = nullptr;  // Python: called with TorchDynamo's record of the stance when that changed
static PyObject* const torch_module_name = interned("torch._dynamo.eval_frame");
static PyObject *const torch_record_name = interned("_stance"), *const call_name = interned("__call__");

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
  Ref found = Ref::new_ref(record);
  if (!Ref::steal(PyObject_CallOneArg(follow_torch, found.get()))) return false;  // asked again at the next call
  Py_XSETREF(seen, found.release());
  return true;
}

static PyObject* call_redirect(CompiledObject* self, PyObject* const* args, size_t nargsf, PyObject* kwnames) {
  Py_ssize_t given = PyVectorcall_NARGS(nargsf);
  Ref positional = tuple_of(args, given), named = Ref::steal(PyDict_New()), callable = Ref::new_ref(redirect);
  if (!positional || !named) return nullptr;
  for (Py_ssize_t i = 0; kwnames && i < PyTuple_GET_SIZE(kwnames); i++)
    if (PyDict_SetItem(named.get(), PyTuple_GET_ITEM(kwnames, i), args[given + i]) < 0) return nullptr;
  return PyObject_CallFunctionObjArgs(callable.get(), (PyObject*)self, positional.get(), named.get(), nullptr);
}

// Arguments that came as a tuple and a dictionary, as an array and names.
struct Flat {
  std::vector<PyObject*> all{nullptr};  // borrowed; the first is room for a callee to use
  Ref names;
  size_t nargsf;
  Flat(PyObject* bound, PyObject* args, PyObject* keywords)
      : names(Ref::steal(PyTuple_New(keywords ? PyDict_GET_SIZE(keywords) : 0))) {
    for (PyObject* some : {bound, args})
      for (Py_ssize_t i = 0; some && i < PyTuple_GET_SIZE(some); i++) all.push_back(PyTuple_GET_ITEM(some, i));
    nargsf = (all.size() - 1) | PY_VECTORCALL_ARGUMENTS_OFFSET;
    PyObject *key, *value;
    for (Py_ssize_t at = 0, n = 0; keywords && names && PyDict_Next(keywords, &at, &key, &value);) {
      PyTuple_SET_ITEM(names.get(), n++, Py_NewRef(key));
      all.push_back(value);
    }
  }
  PyObject* const* values() const { return all.data() + 1; }
};

// No entry ran: the frame runs eagerly, as the verdict says.
static PyObject* call_plainly(CompiledObject* self, int verdict, PyObject* function, PyObject* const* args,
                              size_t nargsf, PyObject* kwnames) {
  if (verdict == 3) return run_off(function, args, nargsf, kwnames);
  PyObject* failure = take_failure();
  PyObject* result = run_plain((PyObject*)self, function, args, nargsf, kwnames);
  report_failure(failure, &result);
  return result;
}

static PyObject* call_with(CompiledObject* self, PyObject* const* args, size_t nargsf, PyObject* kwnames,
                           bool direct = false) {
  Ref held_function = Ref::new_ref(self->function);
  PyObject* function = held_function.get();
  Mode mode = thread_state().mode;
  if (disabled || mode == Mode::Rehearse || mode == Mode::Paused)
    return PyObject_Vectorcall(function, args, nargsf, kwnames);
  if (!follow_torch_stance()) return nullptr;
  if (redirect && !direct) return call_redirect(self, args, nargsf, kwnames);
  Ref held_self = Ref::new_ref((PyObject*)self);
  PyObject* result = nullptr;
  int verdict = 0;
  bool bound;
  {
    Binding binding(function);
    bound = binding.bind(args, PyVectorcall_NARGS(nargsf), kwnames);
    if (bound) verdict = look_up(self, binding, &result);
  }
  if (!bound) return PyObject_Vectorcall(function, args, nargsf, kwnames);  // CPython raises its own TypeError
  if (verdict == 1 && is_handover(result)) return drive((PyObject*)self, function, result);
  return verdict >= 2 ? call_plainly(self, verdict, function, args, nargsf, kwnames) : result;
}

// ---- callable objects ----

static PyObject* make_successor = nullptr;  // Python: (compiled) -> what is called for its object from now on

// Python looks `__call__` up at each call of an object: whether its class still has the one whose frame is the root.
static bool is_current(CompiledObject* self) {
  PyTypeObject* type = Py_TYPE(self->receiver);
  if (type_version(type) && type_version(type) == self->version) return true;
  if (_PyType_Lookup(type, call_name) != self->call_then) return false;
  self->version = type_version(type);  // the lookup has given the class a version, where there are any left
  return true;
}

static PyObject* call_successor(CompiledObject* self, PyObject* const* args, size_t nargsf, PyObject* kwnames) {
  Ref held_self = Ref::new_ref((PyObject*)self);
  if (!self->successor) {
    Ref made = Ref::steal(PyObject_CallOneArg(make_successor, (PyObject*)self));
    if (!made) return nullptr;
    if (!self->successor) self->successor = made.release();  // another thread may have come first
  }
  Ref successor = Ref::new_ref(self->successor);
  return PyObject_Vectorcall(successor.get(), args, nargsf, kwnames);
}

static PyObject* compiled_vectorcall(PyObject* object, PyObject* const* args, size_t nargsf, PyObject* kwnames) {
  CompiledObject* self = (CompiledObject*)object;
  if (!self->function || !self->bound || !self->entries) {
    PyErr_SetString(PyExc_RuntimeError, "the compiled function was already cleared by the garbage collector");
    return nullptr;
  }
  if (self->receiver && !is_current(self)) return call_successor(self, args, nargsf, kwnames);
  Py_ssize_t before = PyTuple_GET_SIZE(self->bound);
  if (before == 0) return call_with(self, args, nargsf, kwnames);
  Py_ssize_t given = PyVectorcall_NARGS(nargsf);
  Py_ssize_t total = before + given + (kwnames ? PyTuple_GET_SIZE(kwnames) : 0);
  Ref bound = Ref::new_ref(self->bound);
  std::vector<PyObject*> all(1 + (size_t)total);  // the first is room for a callee to use
  for (Py_ssize_t i = 0; i < before; i++) all[1 + i] = PyTuple_GET_ITEM(bound.get(), i);
  for (Py_ssize_t i = before; i < total; i++) all[1 + i] = args[i - before];
  return call_with(self, all.data() + 1, (size_t)(before + given) | PY_VECTORCALL_ARGUMENTS_OFFSET, kwnames);
}

// Whether nothing but the entries decides about a call now.
static bool is_plain_to_see(CompiledObject* self) {
  Mode mode = thread_state().mode;
  if (!self->function || !self->bound || !self->entries || (self->receiver && !is_current(self))) return false;
  return !disabled && !redirect && mode != Mode::Rehearse && mode != Mode::Paused;
}

PyObject* call_whole(PyObject* compiled, PyObject* args, PyObject* keywords) {
  CompiledObject* self = (CompiledObject*)compiled;
  Ref held_self = Ref::new_ref(compiled);
  if (!follow_torch_stance()) return nullptr;
  if (!is_plain_to_see(self)) return PyVectorcall_Call(compiled, args, keywords);
  Ref function = Ref::new_ref(self->function), bound = Ref::new_ref(self->bound);
  PyObject* result = nullptr;
  int verdict = 0;
  bool is_bound;
  {
    Binding binding(function.get());
    is_bound = binding.bind_whole(bound.get(), args, keywords);
    if (is_bound) verdict = look_up(self, binding, &result);
  }
  if (!is_bound) return PyVectorcall_Call(compiled, args, keywords);
  if (verdict == 1 && is_handover(result)) return drive(compiled, function.get(), result);
  if (verdict < 2) return result;
  Flat flat(bound.get(), args, keywords);
  if (!flat.names) return nullptr;
  return call_plainly(self, verdict, function.get(), flat.values(), flat.nargsf, flat.names.get());
}

// As functools.update_wrapper: the compiled function looks like the one it stands for.
static bool mirror(CompiledObject* self, PyObject* name) {
  self->dict = PyDict_New();
  if (!self->dict) return false;
  // Safe, here and below: a function's attributes are read by C code alone.
  Ref own = Ref::steal(PyObject_GetAttrString(self->function, "__dict__"));
  if (!own || PyDict_Update(self->dict, own.get()) < 0) return false;
  for (const char* attribute :
       {"__name__", "__qualname__", "__doc__", "__module__", "__annotations__", "__type_params__"}) {
    Ref value = Ref::steal(PyObject_GetAttrString(self->function, attribute));
    if (!value && !PyErr_ExceptionMatches(PyExc_AttributeError)) return false;
    if (!value)
      PyErr_Clear();
    else if (PyDict_SetItemString(self->dict, attribute, value.get()) < 0)
      return false;
  }
  if (PyDict_SetItemString(self->dict, "__wrapped__", self->function) < 0) return false;
  return name == Py_None || PyDict_SetItemString(self->dict, "__name__", name) == 0;
}

static PyObject* compiled_create(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
  static const char* names[] = {"function", "miss", "bound", "name", "receiver", nullptr};
  PyObject *function, *miss, *bound = nullptr, *name = Py_None, *receiver = Py_None;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!O|O!OO", (char**)names, &PyFunction_Type, &function, &miss,
                                   &PyTuple_Type, &bound, &name, &receiver))
    return nullptr;
  Ref made = Ref::steal(type->tp_alloc(type, 0));
  if (!made) return nullptr;
  CompiledObject* self = (CompiledObject*)made.get();
  self->vectorcall = slot<compiled_vectorcall>;
  self->function = Py_NewRef(function);
  self->miss = Py_NewRef(miss);
  self->bound = bound ? Py_NewRef(bound) : PyTuple_New(0);
  self->entries = PyList_New(0);
  self->frames = PyDict_New();
  if (receiver != Py_None) {
    self->receiver = Py_NewRef(receiver);
    self->call_then = Py_XNewRef(_PyType_Lookup(Py_TYPE(receiver), call_name));
  }
  return self->bound && self->entries && self->frames && mirror(self, name) ? made.release() : nullptr;
}

using CompiledMembers =
    Members<CompiledObject, &CompiledObject::function, &CompiledObject::bound, &CompiledObject::miss,
            &CompiledObject::entries, &CompiledObject::frames, &CompiledObject::dict, &CompiledObject::receiver,
            &CompiledObject::call_then, &CompiledObject::successor>;

static void compiled_dealloc(PyObject* object) noexcept {
  PyObject_GC_UnTrack(object);
  if (((CompiledObject*)object)->weakrefs) PyObject_ClearWeakRefs(object);
  CompiledMembers::clear(object);
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
static PyObject* aot_compile_function = nullptr;

static PyObject* compiled_str(PyObject* self) {
  return str_function ? PyObject_CallOneArg(str_function, self) : compiled_repr(self);
}

// A method that is written in Python: `function` is there once that is loaded.
template <PyObject** function>
static PyObject* in_python(PyObject* self, PyObject* argument) {
  if (*function) return PyObject_CallFunctionObjArgs(*function, self, argument, nullptr);
  return PyErr_Format(PyExc_RuntimeError, "this part of framelift is not loaded");
}

// What a notebook shows.
static PyObject* compiled_html(PyObject* self, PyObject*) {
  Ref report = Ref::steal(in_python<&report_function>(self, nullptr));
  return report ? PyObject_CallMethod(report.get(), "_repr_html_", nullptr) : nullptr;
}

// As functions: copies are the object itself, and pickles name it.
static PyObject* compiled_reduce(PyObject* object, PyObject*) {
  CompiledObject* self = (CompiledObject*)object;
  PyObject* name = self->dict ? PyDict_GetItemString(self->dict, "__qualname__") : nullptr;
  return name ? Py_NewRef(name) : PyErr_Format(PyExc_TypeError, "a compiled callable without a name cannot be pickled");
}

static MethodTable compiled_methods({
    method<compiled_reduce, METH_NOARGS>("__reduce__", "By name, as functions."),
    method<in_python<&aot_compile_function>, METH_O>("aot_compile",
                                         "aot_compile((args, kwargs)): capture and compile one call now, without "
                                         "running it: a framelift.AOTCompiledFunction."),
    method<in_python<&recompiles_function>, METH_NOARGS>("recompiles",
                                                         "Why it was recompiled: a list of framelift.Recompile."),
    method<compiled_html, METH_NOARGS>("_repr_html_"),
    method<in_python<&report_function>, METH_NOARGS>("report",
                                         "All that is known of what was captured: a framelift.report.Report."),
});

static PyMemberDef compiled_members[] = {
    {"function", T_OBJECT, offsetof(CompiledObject, function), READONLY, "the function it stands for"},
    {"bound", T_OBJECT, offsetof(CompiledObject, bound), READONLY, "arguments put before those of a call"},
    {"receiver", T_OBJECT, offsetof(CompiledObject, receiver), READONLY,
     "the object whose class's __call__ it stands for"},
    {"successor", T_OBJECT, offsetof(CompiledObject, successor), READONLY,
     "called while that class has another __call__"},
    {"miss", T_OBJECT, offsetof(CompiledObject, miss), 0,
     "miss(compiled, locals) -> an entry for this call, True to look again, False to run eagerly, None with all below"},
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
  // Safe: a function's own fields, read by C code alone.
  return PyObject_GetAttrString(function ? function : Py_None, (const char*)name);
}

static GetterTable compiled_getters({
    getter<get_class>("__class__"),
    getter<get_of_function>("__code__", nullptr, (void*)"__code__"),
    getter<get_of_function>("__globals__", nullptr, (void*)"__globals__"),
    getter<get_of_function>("__closure__", nullptr, (void*)"__closure__"),
    getter<get_of_function>("__defaults__", nullptr, (void*)"__defaults__"),
    getter<get_of_function>("__kwdefaults__", nullptr, (void*)"__kwdefaults__"),
    getter<get_entries, set_entries>("entries", "The entries, first tried first."),
    getter<PyObject_GenericGetDict, PyObject_GenericSetDict>("__dict__"),
});

static PyObject* disable_all(PyObject*, PyObject* value) {
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
  Flat flat(nullptr, a[1], a[2]);
  if (!flat.names) return nullptr;
  return call_with((CompiledObject*)a[0], flat.values(), flat.nargsf, flat.names.get(), true);
}
static Connections connections({
    {"str_of_compiled", &str_function},
    {"report_of_compiled", &report_function},
    {"recompiles_of_compiled", &recompiles_function},
    {"aot_compile", &aot_compile_function},
    {"make_successor", &make_successor},  // f(compiled): what is called once its object's class has another __call__
    {"follow_torch_stance", &follow_torch},  // f(TorchDynamo's record of the stance), when that changed
    {"redirect", &redirect},  // f(compiled, args, kwargs) runs in place of every compiled callable
});

static MethodTable functions({
    method<call_compiled>("call_compiled", "call_compiled(compiled, args, kwargs): whatever the stance says."),
    method<disable_all, METH_O>("disable_all", "Make all compiled callables run eagerly, or not; returns what was."),
});

bool init_compiled(PyObject* module) {
  define<CompiledObject>(Compiled_Type, "framelift._core.Compiled", slot<compiled_create>,
         Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL,
         "Compiled(function, miss, bound=(), name=None, receiver=None)");
  CompiledMembers::put_in(Compiled_Type);
  Compiled_Type.tp_dealloc = slot<compiled_dealloc>;
  Compiled_Type.tp_vectorcall_offset = offsetof(CompiledObject, vectorcall);
  Compiled_Type.tp_call = PyVectorcall_Call;
  Compiled_Type.tp_descr_get = slot<compiled_get>;
  Compiled_Type.tp_repr = slot<compiled_repr>;
  Compiled_Type.tp_str = slot<compiled_str>;
  Compiled_Type.tp_methods = compiled_methods.rows;
  Compiled_Type.tp_members = compiled_members;
  Compiled_Type.tp_getset = compiled_getters.rows;
  Compiled_Type.tp_dictoffset = offsetof(CompiledObject, dict);
  Compiled_Type.tp_weaklistoffset = offsetof(CompiledObject, weakrefs);
  return PyModule_AddType(module, &Compiled_Type) == 0 && add_functions(module, functions);
}

}  // namespace framelift
