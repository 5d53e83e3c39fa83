// The native side of one rehearsal: what the probes remember, and how framelift's own Python code is called from them.
#pragma once

#include <algorithm>
#include <memory>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "reference.h"
#include "state.h"
#include "times.h"
#include "torch_functions.h"

namespace framelift {

struct Pair {
  PyObject *a, *b;
  bool operator==(const Pair& o) const { return a == o.a && b == o.b; }
};
struct PairHash {
  size_t operator()(const Pair& p) const { return ((size_t)p.a >> 4) * 0x9E3779B97F4A7C15ull ^ ((size_t)p.b >> 4); }
};

// What an attribute read gives, once known.
enum class Answer : int {
  Value = 0,     // payload itself
  Method = 1,    // payload bound to the object
  Native = 2,    // CPython's own getattr
  Instance = 3,  // the instance's own entry if it has one, else payload
  Getter = 4,    // call payload with the object (a property)
  Ask = 5,       // ask the session at every read
};
struct Known {
  Answer answer;
  Ref payload;
};

// A default value of a function's parameter, and what captured code gets in its place.
struct Default {
  int slot;
  Ref original, imported;
};

// Objects by their addresses, kept alive: an address is an identity only while its object lives.
class KeptSet {
 public:
  KeptSet() = default;
  KeptSet(const KeptSet&) = delete;
  ~KeptSet() {
    for (PyObject* object : objects_) Py_DECREF(object);
  }
  // Whether it is new.
  bool insert(PyObject* object) {
    if (!objects_.insert(object).second) return false;
    Py_INCREF(object);
    return true;
  }
  size_t count(PyObject* object) const { return objects_.count(object); }

 private:
  std::unordered_set<PyObject*> objects_;
};

// What the world of the rehearsal knows, as boundary/world.py keeps it: its own dictionaries, sets and lists.
struct WorldTables {
  Ref world, readers;  // readers: of the session
  Ref guard, memo, by_seen, written, looked_up, generic, read_first, tested, distinct, read_through, keep, inherited;
  bool quiet = false;  // no number is symbolic
};

using KnownTable = std::unordered_map<Pair, Known, PairHash>;

// Tables go by addresses.  Whoever adds a row to one that is no KeptSet puts its keys into `kept`.
struct Rehearsal {
  PyObject* session;              // borrowed: an argument of `rehearse`, which outlives this
  PyObject* interrupt = nullptr;  // owned: the first interrupt raised; once set every probe raises it again
  KeptSet kept;                   // keys of the tables below
  KeptSet external;               // handles
  KeptSet tensors;                // stand-ins of external tensors
  KeptSet internal;               // functions made in this rehearsal
  KeptSet classes;                // classes already noted
  std::unique_ptr<WorldTables> world;                             // from the start of the session on
  KnownTable attributes;                                          // (object, name) of external objects
  KnownTable class_attributes;                                    // (class, name) met through internal instances
  std::unordered_map<Pair, Ref, PairHash> globals;                // (globals dict, name) -> value
  std::unordered_map<PyObject*, Ref> cells;                       // external cell -> value, none: not read yet
  std::unordered_map<PyObject*, std::vector<Default>> functions;  // noted functions -> defaults to replace
  std::unordered_map<PyObject*, Ref> marked;                      // noted functions that bear a mark -> handler
  std::unordered_set<Pair, PairHash> receivers;  // (class of the first argument, function) already noted
  bool tensors_meet = false;  // what stands for two tensors may stand for one (`Storage.shared`)
  // Where the root stands: what a break needs to stop a second rehearsal at the same place.
  struct _PyInterpreterFrame* root_frame = nullptr;
  PyObject* root_code = nullptr;                 // borrowed: the twin the root runs
  long root_probes = 0;                          // calls of probes by the root's own frame
  long stop_at = -1;                             // stop when the root called this many probes; -1: never
  bool stopped = false;                          // the root was stopped: no captured code runs any more
  std::vector<Ref> made_generators;              // weak references; coroutines themselves
  std::vector<std::pair<int, long>> generators;  // (root's code unit, root_probes) when a generator was made
  long losses = 0;                               // `hook_losses` when it began
  bool has_handlers = true;  // signal handlers of Python's may strike it: the hook sees their frames begin
  std::unordered_set<PyObject*> thrown;  // what generators were resumed with, by address (only compared)
  Ref outside;  // an exception from outside of the program, which leaves the rehearsal as itself
  // The last probe that raised: where, and what type (borrowed; only compared).
  PyObject* failed_type = nullptr;
  PyObject* failed_code = nullptr;
  int failed_unit = -1;
  Times times;
  ~Rehearsal();
};

// What was known before is let go of last: that may run code which looks at the table.
inline void put_known(Rehearsal* r, KnownTable& table, PyObject* object, PyObject* name, Answer answer,
                      PyObject* payload) {
  r->kept.insert(object);
  r->kept.insert(name);
  Known& at = table[{object, name}];
  at.answer = answer;
  at.payload = Ref::new_ref(payload);
}

Rehearsal* current_rehearsal();
void set_current_rehearsal(Rehearsal* r);

// The scope of framelift's own code inside a rehearsal: frames run plainly, torch functions are not intercepted.
struct PausedScope {
  Mode before;
  TorchFunctions torch_before;
  PausedScope();
  ~PausedScope();
};
// The scope of captured code called from framelift's own code.
struct RehearseScope {
  Mode before;
  TorchFunctions torch_before;
  RehearseScope();
  ~RehearseScope();
};

// Captured code runs no more: generators of the rehearsal that wait somewhere never go on, not even to clean up.
void end_generators(Rehearsal* r);

// The root's current instruction in its twin (code unit), or -1.
int root_unit(Rehearsal* r);

// Remember the interrupt if one is set as the current exception.
void note_interrupt(Rehearsal* r);
// A coroutine that waits or was never started; borrowed, or NULL.
PyObject* open_coroutine(Rehearsal* r);
// End the rehearsal where frames may have been evaluated past the hook; called by every probe.
void check_hook(Rehearsal* r);
// A probe raised: such an exception is the program's or ours.
void note_failed(Rehearsal* r);
// Call a method of the Python session, paused.  New reference, or NULL with an exception set.
PyObject* ask_session(Rehearsal* r, PyObject* method, PyObject* const* args, size_t n);

// hook.cpp
PyObject* run_python_function(Rehearsal* r, PyObject* function, PyObject* const* args, size_t nargsf,
                              PyObject* kwnames);
bool is_twin(PyObject* code);
int note_function(Rehearsal* r, PyObject* function);
int note_class(Rehearsal* r, PyObject* cls);
// Holds the frame hook installed while it lives.
struct HookScope {
  HookScope();
  ~HookScope();
};

}  // namespace framelift
