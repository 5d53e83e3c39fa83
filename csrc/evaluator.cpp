// Sharing the frame evaluator with others.  They install theirs and take it off again at any time, in any thread, and
// each remembers whom it replaced; so somebody may put CPython's own in our place (he came before us and leaves), or
// hand frames on to us after we handed them to him (he came again after us).  Rules that hold whatever the order is:
//  - a frame that comes back to us after we handed it on goes to CPython's own evaluator;
//  - what we replaced is put back only where we are still in front;
//  - in a rehearsal we look at every probe whether we are in front.  If not, and frames do not come to us by way of the
//  one who is,
//    the rehearsal is worth nothing: `hook_losses` counts that;
//  - after the first loss we stay installed: who comes after us puts us back when he leaves;
//  - where nobody else was ever seen we take ourselves off while framelift's own code runs (`rest_hook`): whoever comes
//  then takes nothing from us.
#include "evaluator.h"

#include "barrier.h"
#include "connections.h"
#include "rehearsal.h"

namespace framelift {

static _PyFrameEvalFunction ours = nullptr;
static _PyFrameEvalFunction other = nullptr;  // whom we replaced; NULL: CPython's own
static long users = 0;                        // scopes that need the hook, over all threads (under the GIL)
static thread_local long own_users = 0;       // those of this thread: all there are in a forked child
static bool stays = false;
static bool resting = false;  // we took ourselves off; `hold_hook` of any thread ends that
static PyObject* test_function =
    nullptr;  // `lambda r: r`, without a check for signals and other threads where it begins
static thread_local bool testing = false;
static PyObject* hook_lost = nullptr;  // the exception type that ends such a rehearsal; no `except Exception` meets it
long hook_losses = 0;

// The frame we handed on last, and the one that was running then.
struct Passed {
  Frame *frame = nullptr, *caller = nullptr;
};
static thread_local Passed passed;

static PyInterpreterState* interpreter() { return PyThreadState_Get()->interp; }
static _PyFrameEvalFunction in_front() { return _PyInterpreterState_GetEvalFrameFunc(interpreter()); }
static void put_in_front(_PyFrameEvalFunction f) {
  _PyInterpreterState_SetEvalFrameFunc(interpreter(), f ? f : _PyEval_EvalFrameDefault);
}

void set_evaluator(_PyFrameEvalFunction f) { ours = f; }

PyObject* pass_on(PyThreadState* ts, Frame* frame, int throwflag) {
  Frame* caller = current_frame(ts);
  // It came back to us, or what the other made of it did, before any frame began.
  bool came_back = passed.frame && (passed.frame == frame || passed.caller == caller);
  if (!other || came_back) return _PyEval_EvalFrameDefault(ts, frame, throwflag);
  Passed before = passed;
  passed = {frame, caller};
  PyObject* result = other(ts, frame, throwflag);
  passed = before;
  return result;
}

bool is_chain_test() {
  if (!testing) return false;
  testing = false;
  return true;
}

// Somebody else is in front: whether he hands frames on to us.
static bool comes_to_us() {
  if (in_front() == _PyEval_EvalFrameDefault || !test_function) return false;
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  ThreadState& state = thread_state();
  Mode before = state.mode;
  state.mode = Mode::Paused;
  testing = true;
  PyObject* done = PyObject_CallOneArg(test_function, Py_None);
  bool reached = !testing;
  testing = false;
  state.mode = before;
  Py_XDECREF(done);
  PyErr_Restore(type, value, traceback);
  return done && reached;
}

static void take_place() {
  _PyFrameEvalFunction now = in_front();
  if (now == ours) return;
  other = now == _PyEval_EvalFrameDefault ? nullptr : now;
  put_in_front(ours);
}

void hold_hook() {
  bool rested = resting;
  resting = false;
  if (in_front() == ours) return;
  if (!rested && !comes_to_us()) {
    hook_losses++;
    stays = true;
  }
  take_place();
}

void rest_hook() {
  if (users != own_users || other || stays || in_front() != ours) return;
  put_in_front(nullptr);
  resting = true;
}

void check_hook(Rehearsal* r) {
  hold_hook();
  if (hook_losses == r->losses || r->interrupt) return;
  r->interrupt = PyObject_CallNoArgs(hook_lost);
  if (!r->interrupt) PyErr_Clear();
  end_generators(r);
}

static void leave_place() {
  resting = false;
  if (in_front() == ours) {
    if (other || !stays) put_in_front(other);
    other = nullptr;
  }
}

void release_idle_hook() {
  if (users == 0) leave_place();
}

HookScope::HookScope() {
  if (users++)
    hold_hook();
  else
    take_place();
  own_users++;
}
HookScope::~HookScope() {
  own_users--;
  if (--users == 0)
    leave_place();
  else if (resting)
    hold_hook();
}

// after_fork(): in the child there is one thread; scopes of others are gone with them.
static PyObject* after_fork(PyObject*, PyObject*) {
  users = own_users;
  if (!own_users) resting = false;
  release_idle_hook();
  Py_RETURN_NONE;
}

// How many scopes hold the hook, and whether the evaluator is ours: for tests that nothing is left behind.
static PyObject* hook_users(PyObject*, PyObject*) {
  return Py_BuildValue("(lO)", users, in_front() == ours ? Py_True : Py_False);
}

// silence(on): tracing, profiling and monitoring tools hear nothing of this thread, or again what they heard.  Theirs
// is the process's state, so it is not touched.
static PyObject* silence(PyObject*, PyObject* on) {
  if (on == Py_True)
    PyThreadState_EnterTracing(PyThreadState_Get());
  else
    PyThreadState_LeaveTracing(PyThreadState_Get());
  Py_RETURN_NONE;
}

static Connections connections({{"chain_test", &test_function}});  // its frame asks whether frames come to us

static MethodTable methods({
    method<after_fork, METH_NOARGS>("after_fork", "after_fork(): for os.register_at_fork, in the child"),
    method<hook_users, METH_NOARGS>("hook_users", "(number of scopes that hold the hook, whether it is installed)"),
    method<silence, METH_O>("silence", "silence(on): whether tools hear of this thread"),
});

bool init_evaluator(PyObject* module) {
  hook_lost = PyErr_NewException("framelift._core.HookLost", PyExc_BaseException, nullptr);
  return hook_lost && PyModule_AddObjectRef(module, "HookLost", hook_lost) == 0 && add_functions(module, methods);
}

}  // namespace framelift
