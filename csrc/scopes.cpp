// Blocks that end whatever strikes them.  The interpreter raises exceptions from outside (outside.cpp) between two
// instructions of Python code, also where a context manager or a `finally` block puts back what it changed.  It never
// does so in C code, nor between the end of a `with` block and the call of an `__exit__` that is written in C.
#include <ATen/ThreadLocalState.h>

#include <algorithm>
#include <memory>

#include "barrier.h"
#include "main_thread.h"
#include "reference.h"
#include "rehearsal.h"
#include "state.h"
#include "torch_state.h"

// Declared here because their header pulls in all of ATen.
namespace at::autocast {
TORCH_API int increment_nesting();
TORCH_API int decrement_nesting();
TORCH_API void clear_cache();
}  // namespace at::autocast

namespace framelift {

// ---- insist ----

constexpr int kMostTries = 16;

// insist(function): calls it until it ends well, then raises what struck it.  For functions that put something back,
// and may do so again from the start.  An error of its own comes at every try, and leaves with the last.
static PyObject* insist(PyObject*, PyObject* function) {
  Ref struck, result;
  for (int i = 0; i < kMostTries && !result; i++) {
    result = Ref::steal(PyObject_CallNoArgs(function));
    if (result) break;
    SavedError error;
    error.normalize();
    PyObject* value = error.value();
    if (!value || !PyExceptionInstance_Check(value)) return nullptr;
    if (error.traceback()) PyException_SetTraceback(value, error.traceback());
    struck = Ref::new_ref(value);
  }
  if (!struck) return result.release();
  PyErr_SetObject((PyObject*)Py_TYPE(struck.get()), struck.get());
  return nullptr;
}

// ---- the collector ----

// count_as_young(number): the collector takes so many objects to have been made since it ran.
static PyObject* count_as_young(PyObject*, PyObject* number) {
  long count = PyLong_AsLong(number);
  if (count == -1 && PyErr_Occurred()) return nullptr;
  young_objects() = (int)std::clamp(count, 0L, 1L << 30);
  Py_RETURN_NONE;
}

// ---- Scope: a generator as a context manager ----

struct ScopeObject {
  PyObject_HEAD PyObject* generator;
};
static PyTypeObject Scope_Type = {PyVarObject_HEAD_INIT(nullptr, 0)};
static PyObject* const name_throw = interned("throw");

static PyObject* scope_create(PyTypeObject* type, PyObject* args, PyObject*) {
  PyObject* generator;
  if (!PyArg_ParseTuple(args, "O!", &PyGen_Type, &generator)) return nullptr;
  ScopeObject* self = (ScopeObject*)type->tp_alloc(type, 0);
  if (self) self->generator = Py_NewRef(generator);
  return (PyObject*)self;
}

static PyObject* scope_enter(PyObject* self, PyObject*) {
  PyObject* value = nullptr;
  Ref generator = Ref::new_ref(((ScopeObject*)self)->generator);
  PySendResult how = PyIter_Send(generator.get(), Py_None, &value);
  if (how == PYGEN_RETURN) {
    Py_XDECREF(value);
    return PyErr_Format(PyExc_RuntimeError, "the generator of a scope did not yield");
  }
  return value;
}

static PyObject* went_on(Ref value) {
  return PyErr_Format(PyExc_RuntimeError, "the generator of a scope yielded twice");
}

// Whether the exception that is set is this one, or what a generator makes of a StopIteration that passes through it.
static bool is_same(PyObject* error, PyObject* given) {
  if (error == given) return true;
  if (!PyErr_GivenExceptionMatches(given, PyExc_StopIteration) ||
      !PyErr_GivenExceptionMatches(error, PyExc_RuntimeError))
    return false;
  Ref cause = Ref::steal(PyException_GetCause(error));
  return cause.get() == given;
}

// As contextlib does it.
static PyObject* scope_exit(PyObject* self, PyObject* const* args, Py_ssize_t n) {
  if (n != 3) return PyErr_Format(PyExc_TypeError, "__exit__(type, value, traceback)");
  Ref generator = Ref::new_ref(((ScopeObject*)self)->generator);
  if (args[0] == Py_None) {
    PyObject* value = nullptr;
    PySendResult how = PyIter_Send(generator.get(), Py_None, &value);
    Ref given = Ref::steal(value);
    if (how == PYGEN_ERROR) return nullptr;
    if (how == PYGEN_NEXT) return went_on(std::move(given));
    Py_RETURN_FALSE;
  }
  Ref given = Ref::new_ref(args[1]), traceback = Ref::new_ref(args[2]);
  PyObject* thrown[] = {generator.get(), given.get()};
  Ref value = Ref::steal(PyObject_VectorcallMethod(name_throw, thrown, 2, nullptr));
  if (value) return went_on(std::move(value));
  SavedError error;
  error.normalize();
  if (is_same(error.value(), given.get())) {
    PyException_SetTraceback(given.get(), traceback.get());
    Py_RETURN_FALSE;
  }
  if (PyErr_GivenExceptionMatches(error.type(), PyExc_StopIteration)) Py_RETURN_TRUE;
  error.restore();
  return nullptr;
}

static MethodTable scope_methods({
    method<scope_enter, METH_NOARGS>("__enter__"),
    method<scope_exit>("__exit__"),
});

// ---- TorchKept: torch's state after a block is what it was before ----

struct Kept {
  at::ThreadLocalState thread;  // with the stacks of modes, transforms and hooks
  TorchState state = TorchState::now();
  int nesting;
  Kept() {
    at::autocast::increment_nesting();
    nesting = at::autocast::decrement_nesting();
  }
  void put_back() const {
    at::ThreadLocalState::setThreadLocalState(thread);
    state.put_back();
    int present = at::autocast::increment_nesting();
    for (present = at::autocast::decrement_nesting(); present < nesting;) present = at::autocast::increment_nesting();
    while (present > nesting) present = at::autocast::decrement_nesting();
    if (!nesting) at::autocast::clear_cache();
  }
};

struct KeptObject {
  PyObject_HEAD std::unique_ptr<Kept> kept;
};
static PyTypeObject Kept_Type = {PyVarObject_HEAD_INIT(nullptr, 0)};

static PyObject* kept_create(PyTypeObject* type, PyObject*, PyObject*) {
  KeptObject* self = (KeptObject*)type->tp_alloc(type, 0);
  if (self) new (&self->kept) std::unique_ptr<Kept>();
  return (PyObject*)self;
}
static void kept_dealloc(PyObject* self) {
  ((KeptObject*)self)->kept.~unique_ptr();
  Py_TYPE(self)->tp_free(self);
}
static PyObject* kept_enter(PyObject* self, PyObject*) {
  ((KeptObject*)self)->kept = std::make_unique<Kept>();
  Py_RETURN_NONE;
}
static PyObject* kept_exit(PyObject* self, PyObject* const* args, Py_ssize_t n) {
  std::unique_ptr<Kept> kept = std::move(((KeptObject*)self)->kept);
  if (!kept) Py_RETURN_FALSE;
  bool may_differ = !n || args[0] != Py_None || kept->state.function_modes || TorchState::now() != kept->state;
  if (may_differ) kept->put_back();
  Py_RETURN_FALSE;
}
static MethodTable kept_methods({
    method<kept_enter, METH_NOARGS>("__enter__"),
    method<kept_exit>("__exit__"),
});

// ---- SignalsWait: signal handlers run when a block is over ----

// Torch calls Python code in places where an exception ends the process: the end of a dispatch mode, for one.  The
// interpreter runs handlers in the main thread alone, so for the length of the block no thread is that.  Other threads
// are not the main thread either way.
struct WaitObject {
  PyObject_HEAD unsigned long main_thread;  // 0: another thread, or a block within a block
};
static PyTypeObject Wait_Type = {PyVarObject_HEAD_INIT(nullptr, 0)};
static unsigned long waiting_thread = 0;  // the main thread, while the interpreter has none

static PyObject* wait_enter(PyObject* self, PyObject*) {
  unsigned long here = PyThread_get_thread_ident();
  bool is_main = main_thread_ident() == here;
  ((WaitObject*)self)->main_thread = is_main ? here : 0;
  if (is_main) waiting_thread = here, main_thread_ident() = 0;
  Py_RETURN_NONE;
}
static PyObject* wait_exit(PyObject* self, PyObject* const*, Py_ssize_t) {
  unsigned long before = std::exchange(((WaitObject*)self)->main_thread, 0);
  if (!before) Py_RETURN_FALSE;
  main_thread_ident() = before;
  if (Py_MakePendingCalls() < 0) return nullptr;
  Py_RETURN_FALSE;
}
static MethodTable wait_methods({
    method<wait_enter, METH_NOARGS>("__enter__"),
    method<wait_exit>("__exit__"),
});

// ---- SignalsRun: within a block where they wait, one where they do not ----

static PyTypeObject Run_Type = {PyVarObject_HEAD_INIT(nullptr, 0)};

static PyObject* run_enter(PyObject* self, PyObject*) {
  unsigned long here = PyThread_get_thread_ident();
  bool waits = !main_thread_ident() && waiting_thread == here;
  ((WaitObject*)self)->main_thread = waits ? here : 0;
  if (waits) main_thread_ident() = here;
  Py_RETURN_NONE;
}
static PyObject* run_exit(PyObject* self, PyObject* const*, Py_ssize_t) {
  if (std::exchange(((WaitObject*)self)->main_thread, 0)) main_thread_ident() = 0;
  Py_RETURN_FALSE;
}
static MethodTable run_methods({
    method<run_enter, METH_NOARGS>("__enter__"),
    method<run_exit>("__exit__"),
});

// ---- Capturing: frames that begin within a block are captured ----

struct CapturingObject {
  PyObject_HEAD PyObject* compiled;  // on whose behalf
  std::unique_ptr<HookScope> hook;
  ThreadState before;
  unsigned long thread;
};
static PyTypeObject Capturing_Type = {PyVarObject_HEAD_INIT(nullptr, 0)};

static PyObject* capturing_create(PyTypeObject* type, PyObject* args, PyObject*) {
  PyObject* compiled;
  if (!PyArg_ParseTuple(args, "O", &compiled)) return nullptr;
  if (!is_compiled(compiled)) return PyErr_Format(PyExc_TypeError, "Capturing(compiled callable)");
  CapturingObject* self = (CapturingObject*)type->tp_alloc(type, 0);
  if (!self) return nullptr;
  new (&self->hook) std::unique_ptr<HookScope>();
  self->compiled = Py_NewRef(compiled);
  return (PyObject*)self;
}
static void capturing_dealloc(PyObject* self) {
  ((CapturingObject*)self)->hook.~unique_ptr();
  Py_XDECREF(((CapturingObject*)self)->compiled);
  Py_TYPE(self)->tp_free(self);
}
static PyObject* capturing_enter(PyObject* object, PyObject*) {
  CapturingObject* self = (CapturingObject*)object;
  if (self->hook) return PyErr_Format(PyExc_RuntimeError, "this block has begun already");
  self->hook = std::make_unique<HookScope>();
  self->before = thread_state();
  self->thread = PyThread_get_thread_ident();
  if (self->before.mode == Mode::Off || self->before.mode == Mode::Capture) {
    thread_state().mode = Mode::Capture;
    thread_state().context = self->compiled;
  }
  Py_RETURN_NONE;
}
static PyObject* capturing_exit(PyObject* object, PyObject* const*, Py_ssize_t) {
  CapturingObject* self = (CapturingObject*)object;
  if (self->hook && self->thread == PyThread_get_thread_ident()) thread_state() = self->before;
  self->hook.reset();
  Py_RETURN_FALSE;
}
static MethodTable capturing_methods({
    method<capturing_enter, METH_NOARGS>("__enter__"),
    method<capturing_exit>("__exit__"),
});

static MethodTable scope_functions({
    method<insist, METH_O>("insist", "insist(function): call it until it ends well, then raise what struck it"),
    method<count_as_young, METH_O>("count_as_young", "(number): so many objects were made since the last collection"),
});

bool init_scopes(PyObject* module) {
  define<ScopeObject>(Scope_Type, "framelift._core.Scope", slot<scope_create>, Py_TPFLAGS_HAVE_GC,
         "Scope(generator): a context manager, as contextlib makes them, that no exception from outside keeps from "
         "ending.");
  Members<ScopeObject, &ScopeObject::generator>::put_in(Scope_Type);
  Scope_Type.tp_methods = scope_methods.rows;
  define<KeptObject>(Kept_Type, "framelift._core.TorchKept", slot<kept_create>, 0,
         "TorchKept(): a context manager after which torch's state of this thread is what it was before.");
  Kept_Type.tp_dealloc = slot<kept_dealloc>;
  Kept_Type.tp_methods = kept_methods.rows;
  define<WaitObject>(Wait_Type, "framelift._core.SignalsWait", PyType_GenericNew, 0,
         "SignalsWait(): a context manager; handlers of signals run, and raise, at its end.");
  Wait_Type.tp_methods = wait_methods.rows;
  define<WaitObject>(Run_Type, "framelift._core.SignalsRun", PyType_GenericNew, 0,
         "SignalsRun(): a context manager within which handlers of signals run, also where they wait.");
  Run_Type.tp_methods = run_methods.rows;
  define<CapturingObject>(Capturing_Type, "framelift._core.Capturing", slot<capturing_create>, 0,
         "Capturing(compiled): a context manager; frames that begin within it are captured.");
  Capturing_Type.tp_dealloc = slot<capturing_dealloc>;
  Capturing_Type.tp_methods = capturing_methods.rows;
  for (PyTypeObject* type : {&Scope_Type, &Capturing_Type, &Kept_Type, &Wait_Type, &Run_Type})
    if (PyModule_AddType(module, type) < 0) return false;
  return add_functions(module, scope_functions);
}

}  // namespace framelift
