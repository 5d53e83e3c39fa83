// Guard programs: the paths of an entry's guards as a tree of nodes, the checks on each node, and the records that make
// an unchanged world cheap to verify.
//
// A *visit* fetches a node's value, runs its checks and visits its children.  It holds a reference to everything it
// uses, so it may run any Python code.  While it goes it writes *records*: single comparisons which together imply that
// everything below the node is as it was.  Later calls *run* the records, in the same order, parent before child, so
// that an address is only read after the object it lies in was found in its place.  Running records calls nothing and
// allocates nothing.  A record that does not hold sends just its own node to a visit again.
//
// No record keeps an object of the user alive.  An address alone may be reused by another object, so a node is
// *trusted* only if its object is known to be the same one: found in an unchanged dictionary or type (their versions
// are never reused), or equal to a constant of the program that is alive.  Below a node that is not trusted, everything
// is compared again, down to the next version.
#pragma once
#include <memory>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "frames.h"
#include "guard_addresses.h"
#include "guard_told.h"
#include "guard_watches.h"
#include "reference.h"
#include "state.h"
#include "tensor_rows.h"
#include "torch_state.h"

namespace framelift {

enum class Op : uint8_t {
  Pass,            // filler
  Fail,            // always visit
  Load,            // the 8 bytes at `at` are `expect`
  TypeVersion,     // the type at `at` has version `expect`
  ListItem,        // list `at`, item `index`
  Argument,        // local `index` is `expect`
  Tensor,          // the tensor `at` satisfies the check `expect`
  ArgumentTensor,  // local `index` satisfies the check `expect`
  Note,            // hand out the object `at`
  ArgumentNote,    // hand out local `index`
  SpreadDict,      // local `index` is a dict with the keys of the check `expect`; its items become locals from `at` on
  SpreadTuple,     // local `index` is a tuple as long as the check `expect` says; likewise
  DictVersion,     // the dictionary `at` has version `expect`
  Held,            // the tensor `at` holds what the check `expect` remembers
  Elements,        // the set `at` has the elements of the check `expect`, in their order
};

struct Record {
  const void* at;
  uint64_t expect;
  uint32_t node;
  uint32_t index;
  int32_t slot;  // where the value is handed out, or -1
  Op op;
};

// What the loop over records reads.  A Load is its own word, a tensor with a row has one that always matches; any other
// record has a word that never does, and so have all words after the last record.
struct Word {
  static constexpr uint64_t kZero = 0;
  const uint64_t* at;
  uint64_t expect;
  bool always() const { return at == &kZero && !expect; }
  bool never() const { return at == &kZero && expect; }
};

// How many words from `at` on are found; memory is fetched early.
inline const Word* run_words(const Word* at, const Word* end) {
  constexpr ptrdiff_t kAhead = 16;
  for (; end - at > kAhead; at++) {
    __builtin_prefetch(at[kAhead].at);
    if (*at->at != at->expect) return at;
  }
  while (at < end && *at->at == at->expect) at++;
  return at;
}

// A few roots: those below which an evaluation has visited nodes.
struct Roots {
  static constexpr uint32_t kMost = 4;
  uint32_t nodes[kMost] = {}, count = 0;  // kMost + 1: too many to tell
  void add(uint32_t node);
  bool operator==(const Roots& other) const;
};

// guard_settled.cpp: what is left to compare while nothing changes.
struct Settled {
  static constexpr uint32_t kMostPatience = 1 << 12;
  struct Stop {
    uint32_t word, record;  // before this word, this record has to hold
  };
  std::vector<Word> words;
  std::vector<Stop> stops;
  AlikeTensors tensors;
  std::vector<std::pair<uint32_t, uint32_t>> same;  // those of Program::same that a call may change
  std::shared_ptr<Touched> touched;                 // by a change of a dictionary that no word speaks for
  uint64_t fields = 0;                              // `fields_set` when all words that are left out were last found
  Roots asides;                                     // visited at every call, after all words
  uint32_t calls = 0, patience = 4;                 // how many have changed nothing, and how many must
  bool built = false;
  void end();
};

// The values that an evaluation hands out: owned references, or NULL.
struct SlotValues : std::vector<PyObject*> {
  explicit SlotValues(size_t count) : std::vector<PyObject*>(count) {}
  SlotValues(const SlotValues&) = delete;
  ~SlotValues() {
    for (PyObject* value : *this) Py_XDECREF(value);
  }
};

// Dictionaries of keywords and tuples of arguments are new at every call, so no version and no address tells anything
// about them.  The items of such an argument are locals of their own, numbered from kFirst on.
struct SpreadItems {
  static constexpr uint32_t kFirst = 1u << 24, kMost = 16;
  PyObject* values[kMost] = {};  // owned
  SpreadItems() = default;
  SpreadItems(const SpreadItems&) = delete;
  ~SpreadItems() {
    for (PyObject* value : values) Py_XDECREF(value);
  }
  // False: it is none, or has other keys, or another length.
  bool take_dict(PyObject* argument, const struct Check& keys, size_t from);
  bool take_tuple(PyObject* argument, const struct Check& length, size_t from);

 private:
  void put(size_t at, PyObject* value) { Py_XSETREF(values[at], Py_NewRef(value)); }
};

enum class Outcome : int8_t { Error = -1, Fails = 0, Holds = 1, Again = 2 };

struct Kind;
struct StepRow;
struct Program;
struct Visit;

struct Check {
  const Kind* kind;
  PyObject* constant = nullptr;         // see Program::hold: alive while the program is not dead
  Ref leaf;                             // EQ's constant, replaced by an equal leaf that was met; names, keys, functions
  long number = 0;                      // LEN; KEYS: how many; SAME: the other node
  int32_t other = -1;                   // SAME: the other node's slot; KEYS, LEN: where items that are locals begin
  std::vector<long> numbers;            // JOINT: the other nodes
  std::vector<int32_t> others;          // JOINT: their slots
  std::vector<PyObject*> objects;       // KEYS, DUNDERS: held as `constant`; CHECK: elements, held by `leaf`
  bool remembers = false;               // CHECK: `leaf` remembers what a tensor held
  bool ordered = false;                 // CHECK: holds of a set that iterates as `objects`
  std::vector<bool> leaves;             // KEYS: compare this key by value
  Ref names;                            // DUNDERS: name -> position in `objects`; CHECK: its text
  size_t mro = 0;                       // DUNDERS: the first `mro` objects are the MRO
  const TensorCheck* tensor = nullptr;  // in Program::tensor_checks
};

struct Node {
  // fixed when the program is built; nodes lie in preorder, so a subtree is [its index, end)
  uint32_t index, end, given;  // given: the number the builder knows it by
  int32_t parent;
  const StepRow* step;
  PyObject* key = nullptr;  // in `own_key`, or held by the program: the object of `const`
  Ref own_key;
  Py_ssize_t number = -1;  // key as a number: arguments, positions
  std::vector<Check> checks;
  int32_t slot = -1;
  uint32_t local = 0;   // where it is passed: of locals, or of items
  int32_t spread = -1;  // an argument whose items are locals: of its checks, the one that tells them
  uint32_t row = 0;            // in Program::rows: its own, or that of the first node after it that has one
  bool has_row = false;        // nothing hangs on the tensor it leads to
  bool argument = false;       // a root: local `number`
  bool passed = false;         // an argument, or an item of one that is spread
  bool lone = false;           // passed, and its own checks are all there is: no need to recognise the object
  bool pinned = false;         // has an IS check
  bool wants_layout = false;   // its records read fields of its type's struct
  bool wants_version = false;  // it has checks or children that a dict's or type's version settles
  bool unsafe = false;         // something below runs Python code at every call: always visited
  bool distinct = false;       // its value takes part in DISTINCT
  bool aside = false;          // below a root that a settled program visits at every call
  // records
  uint32_t first = 0, room = 0, below = 0, last = 0;  // own records [first, first+room), subtree's end at last
  uint32_t needed = 0;
  // as of the last visit
  PyObject* value = nullptr;  // borrowed; only valid while the records above hold
  Ref text;                   // a trusted value that C code makes anew at each read: nothing else holds it
  uint64_t version = 0;       // nonzero: all records below were written for this version of `value`
  uint64_t reading = 0;       // version at the start of the last visit
  bool quiet = false;         // a dictionary all of whose keys compare without Python code
  bool trusted = false;
  bool whole = false;  // all records of the subtree are in place
};

// The state of one evaluation.
struct Walk {
  Program& program;
  PyObject* const* locals;
  Py_ssize_t count;
  PyObject** slots;  // owned references
  uint64_t epoch = 0;
  uint64_t fields = fields_set();
  bool careful = false;   // visits only: Python code ran where records were being run
  bool ran_code = false;  // Python code may have run since this was last cleared
  bool visited = false;
  Roots roots = {};  // of what was visited
  bool was_settled = false;  // everything but what is passed is as it was when all guards held
  int failed_node = -1, failed_check = 0;
  std::vector<std::pair<int, int>>* failures = nullptr;  // where given, receives every failure, and the walk goes on
  SpreadItems items = {};

  Outcome evaluate();
  Outcome evaluate_from(uint32_t node);  // by visits, from this root on
  Outcome visit(Node& node, PyObject* base);
  Outcome run(uint32_t from, uint32_t to);
  bool run_settled();
  Outcome visit_asides();
  bool all_hold();  // each record still holds, one by one
  Outcome repair(uint32_t* record);  // the record does not hold: visit its node, and go on after it
  // False once another evaluation of the same program ran inside this one: memos are no longer ours to use or write.
  bool live() const;

 private:
  Outcome run_checks(Visit& v);
  Outcome failed(Node& node, int check, Outcome outcome);
  Outcome visit_children(Visit& v, bool unchanged, bool* whole);
  void write_records(Visit& v, bool whole);
  Outcome run_rows(uint32_t from, uint32_t to);
  bool holds(const Record& record);
  void learn(Node& node);

 public:
  void note(int32_t slot, PyObject* value);
  // What is passed under this number, or NULL.
  PyObject* local(uint32_t number) const {
    if (number >= SpreadItems::kFirst) return items.values[number - SpreadItems::kFirst];
    return (Py_ssize_t)number < count ? locals[number] : nullptr;
  }
  void forget_slots();
};

// One visit of one node: its value, and the records written so far.
struct Visit {
  static constexpr int kRoom = 12;
  Walk& walk;
  Node& node;
  PyObject* value = nullptr;  // owned
  bool trusted = false;
  bool typed = false;         // a record of the type was written
  bool layout_known = false;  // the recorded type cannot be another one at the same address
  bool surely_dict = false;   // whatever is at its place is a dictionary: an equal version makes it the same one
  bool recordable = true;
  int count = 0;
  Record records[kRoom];

  Visit(Walk& w, Node& n) : walk(w), node(n) {}
  ~Visit() { Py_XDECREF(value); }
  Visit(const Visit&) = delete;
  void add(Op op, const void* at, uint64_t expect, uint32_t index = 0);
  void load(const void* at, const void* expect) { add(Op::Load, at, (uint64_t)expect); }
  void record_type();
  // Looking up `key` in a dictionary that is the value of `holder` may run a key's __eq__; if so, take note.
  void before_lookup(const Node& holder, PyObject* dict, PyObject* key);
  Node& parent() const;
};

// A step: its name in origins.STEPS, and how to take it.  Sets visit.value (owned) and returns Holds, Fails when the
// path ends, or Error.  Writes the records that prove the value is still there, and says whether it is trusted.
struct StepRow {
  const char* name;
  Outcome (*take)(Visit&, PyObject* base);
};
bool init_steps();
const StepRow* find_step(const char* name);
Ref step_names();

// A kind of check: its name in guards.kinds.KINDS, how its constant is prepared, the test, and the constant as Python
// knows it.  The test writes records, or clears visit.recordable.
struct Kind {
  const char* name;
  bool (*prepare)(Program&, Node&, Check&, PyObject* value);
  Outcome (*test)(Visit&, Check&);
  Ref (*constant)(const Program&, const Check&);
};
const Kind* find_kind(const char* name);
// An error of the program inside a check means that the check does not hold; anything graver is passed on.
Outcome after_error();
Ref kind_names();
bool init_kinds(PyObject* module);
// A frozen set of the names in a table of rows.
template <typename Row, size_t count>
Ref names_of(const Row (&rows)[count]) {
  Ref names = Ref::steal(PyFrozenSet_New(nullptr));
  for (const Row& row : rows) {
    Ref name = Ref::steal(PyUnicode_FromString(row.name));
    if (!names || !name || PySet_Add(names.get(), name.get()) < 0) return nullptr;
  }
  return names;
}

// guard_leaf.cpp: the meaning of guards.equality.indistinguishable and kinds.immutable_leaf.
Outcome indistinguishable(PyObject* a, PyObject* b, bool* ran_code);
bool immutable_leaf(PyObject* value);
bool simple_leaf(PyObject* value);  // of a type whose values are immutable and compare without Python code
bool has_leaf_keys(PyObject* dict);
bool set_iterates_as(PyObject* value, const std::vector<PyObject*>& elements);  // these very objects, no others
bool init_leaves();

bool init_liveness();  // guard_program.cpp: how a program learns that an object it holds weakly is gone

struct Program {
  std::vector<Node> nodes;
  std::vector<Record> records;
  std::vector<Word> words;                             // for each record what the loop reads, and one more
  std::vector<TensorRow> rows;                         // of nodes that have one, in their order
  std::vector<int32_t> places;                         // by the builder's numbers
  std::vector<int32_t> inputs, externals;              // slots
  std::vector<uint32_t> distinct_arguments, distinct;  // nodes whose values must differ: arguments, and the others
  bool inputs_first = false;                           // input i is slot i, and nobody else asks for it
  std::vector<bool> last_use;                          // over inputs, then externals: the slot is not asked for again
  std::vector<std::pair<uint32_t, uint32_t>> same;     // (node, check) of SAME checks
  std::vector<std::pair<uint32_t, uint32_t>> joint;    // (node, check) of JOINT checks
  std::vector<std::pair<uint32_t, uint32_t>> unmarked;  // (node, check) of UNMARKED checks
  std::vector<std::pair<uint32_t, uint32_t>> looks;    // (node, check): what one look at an argument tells
  int32_t slot_count = 0;
  int32_t handed_out = 0;  // the first slots, which are the entry's: the others are compared with one another only
  bool has_state = false;
  TorchState state;
  Settled settled;
  bool stale_layout = false;
  bool doubtful = false;  // the last check did not hold
  Addresses addresses;    // of the values of `distinct`, as last visited
  uint64_t epoch = 0;
  struct {
    uint64_t checks, unchanged, visits, restarts, layouts;
  } counters = {};

  // By a hash; fixed when the program is built, and shared by its copies.
  using TensorChecks = std::unordered_map<uint64_t, std::vector<std::unique_ptr<TensorCheck>>>;
  std::shared_ptr<TensorChecks> tensor_checks = std::make_shared<TensorChecks>();
  std::vector<Ref> owned;              // constants and weak references
  std::unordered_set<PyObject*> held;  // objects in `owned`, or their weak references are; while building
  Ref liveness, callback;              // the callback of weak references notes a death in `liveness`
  Ref state_object;                    // as given, for explanations
  bool cleared = false;                // by the collector

  ~Program() { clear(); }
  bool dead() const;
  // Remember an object without keeping it alive where that is possible.  False with an exception set.
  bool hold(PyObject* object);
  bool build(PyObject* nodes, PyObject* inputs, PyObject* externals, PyObject* distinct, PyObject* state);
  // Take over the guards of another program, but nothing of what it has seen.
  void copy(const Program& other);
  Outcome check(PyObject* const* locals, Py_ssize_t count, PyObject** slots, int* failed_node, int* failed_check);
  // Every failure, in the order of `check`; nothing below a node that fails is looked at.  False with an exception set.
  bool all_failures(PyObject* const* locals, Py_ssize_t count, std::vector<std::pair<int, int>>& found);
  // (parent, step, key, ((kind, constant), ...)) as it was given; objects that are gone are None.
  Ref describe(uint32_t given) const;
  Ref fetch(uint32_t given, PyObject* const* locals, Py_ssize_t count, bool* missing);
  void clear() noexcept;
  int traverse(visitproc visit, void* arg) noexcept;

 private:
  bool build_nodes(PyObject* list);
  bool build_checks(Node& node, PyObject* checks);
  bool build_slots(PyObject* list, std::vector<int32_t>& slots);
  void find_spread();
  void settle_flags();
  void lay_out();
  void settle(Walk& walk);
  void unsettle();
  void set_aside(const Roots& roots, bool aside);
  void settle_or_not(Walk& walk);
  bool may_settle(Walk& walk);  // whether this evaluation changed nothing, but for roots that are always visited
  void watch(Record& record, Word& word);
  std::unordered_set<const void*> told_addresses() const;
  void put(uint32_t at, const Record& record);
  uint32_t root_of(const Node& node) const { return node.parent < 0 ? node.index : root_of(nodes[node.parent]); }
  uint32_t row_of_record(uint32_t record) const;  // the first row that does not belong to an earlier record
  bool build_distinct(PyObject* list);
  bool build_joint(Node& node, uint32_t number);
  Outcome check_distinct(Walk& walk);
  Outcome look_at_arguments(PyObject* const* locals, Py_ssize_t count, int* failed_node, int* failed_check);
  Ref fetch_node(Node& node, Walk& walk, Outcome* outcome);
  bool check_same(Walk& walk);
  Outcome check_joint(Walk& walk);
  Outcome check_unmarked(Walk& walk);
  Outcome check_between(Walk& walk);  // all conditions between nodes: of SAME, JOINT, UNMARKED and the distinct ones
  int find_given(long given) const;
  friend struct Walk;
};

// The Python object around a program, for compiled.cpp.
struct GuardProgramObject {
  PyObject_HEAD Program* program;
  PyObject* info;      // any object: the lines that explanations name
  PyObject* verifier;  // None, or called with (locals, failure) after every check
};
extern PyTypeObject GuardProgram_Type;
// None or the failure tuple goes to the verifier.  False with an exception set.
bool verify(GuardProgramObject* program, PyObject* const* locals, Py_ssize_t count, Outcome outcome, int node,
            int check);

}  // namespace framelift
