// Per-thread state of the frame hook, and what the parts of the core offer each other.  No CPython structs here.
#pragma once
#include <Python.h>

namespace framelift {

// What the hook does with frames of this thread.
enum class Mode : int {
  Off = 0,       // nothing: the hook is not ours to use
  RunOnly = 1,   // cached entries are used, nothing is captured
  Capture = 2,   // frames are looked up and captured
  Rehearse = 3,  // frames run as twins, probes are live
  Paused = 4,    // framelift's own code, or torch's internals under the recorder: frames run plainly
};

struct ThreadState {
  Mode mode = Mode::Off;
  PyObject* session = nullptr;    // borrowed: the rehearsal's session, alive while Mode is Rehearse or Paused within it
  PyObject* context = nullptr;    // borrowed: the Compiled object whose plain run we are in (Capture, RunOnly)
  PyObject* skip_code = nullptr;  // borrowed: the one code object whose next frame is to run plainly
};

ThreadState& thread_state();

// The scope of framelift's own code outside a rehearsal, and of graphs: nobody captures their frames.
struct UncapturedScope {
  Mode before = thread_state().mode;
  UncapturedScope() {
    if (before != Mode::Off) thread_state().mode = Mode::Paused;
  }
  UncapturedScope(const UncapturedScope&) = delete;
  ~UncapturedScope() { thread_state().mode = before; }
};

// hook.cpp: run `function` eagerly with its callees captured on behalf of `compiled`; vectorcall arguments.
PyObject* run_plain(PyObject* compiled, PyObject* function, PyObject* const* args, size_t nargsf, PyObject* kwnames);

// The same with its callees uncaptured, too.
PyObject* run_off(PyObject* function, PyObject* const* args, size_t nargsf, PyObject* kwnames);

// compiled.cpp: whether the object is a compiled callable.
bool is_compiled(PyObject* object);
// compiled.cpp: calls one; the keywords may be NULL.
PyObject* call_whole(PyObject* compiled, PyObject* args, PyObject* keywords);

// entries.cpp: try the entries (a list, in order) on bound locals.  Returns 1 and sets *result (new reference) when an
// entry ran; 2 when an entry says "run this frame eagerly"; 0 when none matched; -1 with an exception set.
int try_entries(PyObject* entries, PyObject* const* locals, Py_ssize_t n, PyObject** result);
// The first look of a call: as try_entries, unless a chooser is set, which then says what entry runs.  `compiled`: the
// compiled callable whose call it is; nullptr for a frame below one.
int choose_entry(PyObject* compiled, PyObject* entries, PyObject* const* locals, Py_ssize_t n, PyObject** result);
// As try_entries for one entry that the caller keeps alive.
int try_entry(PyObject* entry, PyObject* const* locals, Py_ssize_t n, PyObject** result);
bool is_entry(PyObject* object);
// After try_entries said "run plainly": the failure of a graph that led to it, or NULL (a new reference either way).
PyObject* take_failure();
// Plain Python ended with *result: where it succeeded and the graph had failed (stolen), it is reported, which may
// raise.
void report_failure(PyObject* failure, PyObject** result);

// One initialiser per file that adds names to the module; each returns false with an exception set.
bool init_hook(PyObject* module);
bool init_probes(PyObject* module);
bool init_guards(PyObject* module);
bool init_guard_tree(PyObject* module);
bool init_guard_log(PyObject* module);
bool init_compiled(PyObject* module);
bool init_entries(PyObject* module);
bool init_memory(PyObject* module);
bool init_memory_pattern(PyObject* module);
bool init_instances(PyObject* module);
bool init_resume(PyObject* module);
bool init_sets(PyObject* module);
bool init_lru_caches(PyObject* module);
bool init_tensor_reads(PyObject* module);
bool init_connections(PyObject* module);
bool init_evaluator(PyObject* module);
bool init_outside(PyObject* module);
bool init_scopes(PyObject* module);
bool init_graph_calls(PyObject* module);
bool init_module_calls(PyObject* module);

}  // namespace framelift
