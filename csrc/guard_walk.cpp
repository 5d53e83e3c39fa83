// Evaluating a guard program: running records, visiting nodes, and the conditions between nodes.
#include <algorithm>

#include "guard.h"
#include "marked_ids.h"
#include "remembered.h"
#include "unseen.h"

namespace framelift {

static PyObject* any_name() {
  static PyObject* name = PyUnicode_InternFromString("__init__");
  return name;
}

static bool asked_of_a_class() {
  Ref cls = Ref::steal(PyObject_CallFunction((PyObject*)&PyType_Type, "s(){}", "probe"));
  PyTypeObject* type = (PyTypeObject*)cls.get();
  bool had = type && ensure_type_version(type, any_name()) != 0;
  // Safe: the class was made here and nobody else has it.
  bool gone = had && PyObject_SetAttrString(cls.get(), "changed", Py_None) == 0 && type->tp_version_tag == 0;
  PyErr_Clear();
  return gone;
}

bool type_version_is_told_alone() {
  static const bool alone = asked_of_a_class();
  return alone;
}

// The version that settles what lies below the value, or zero.
static uint64_t version_of(PyObject* value) {
  if (PyDict_Check(value)) return dict_version(value);
  if (PyType_Check(value)) return ensure_type_version((PyTypeObject*)value, any_name());
  return 0;
}

// ---- one visit ----

Node& Visit::parent() const { return walk.program.nodes[node.parent]; }

void Visit::add(Op op, const void* at, uint64_t expect, uint32_t index) {
  if (count == kRoom) {
    recordable = false;
    return;
  }
  bool hands_out = op == Op::Tensor || op == Op::ArgumentTensor || op == Op::Note || op == Op::ArgumentNote;
  records[count++] = {at, expect, node.index, index, hands_out ? node.slot : -1, op};
}

void Visit::record_type() {
  if (!typed) load(&value->ob_type, Py_TYPE(value));
  typed = true;
}

void Visit::before_lookup(const Node& holder, PyObject* dict, PyObject* key) {
  bool leaf = PyUnicode_CheckExact(key) || immutable_leaf(key);
  if (!leaf || !(holder.quiet || dict_has_only_strings(dict))) walk.ran_code = true;
}

bool Walk::live() const { return epoch == program.epoch; }

static bool same_name(PyObject* key, PyObject* expected) {
  return key == expected || (PyUnicode_CheckExact(key) && PyUnicode_Compare(key, expected) == 0);
}

bool SpreadItems::take_dict(PyObject* argument, const Check& keys, size_t from) {
  if (!PyDict_CheckExact(argument) || PyDict_GET_SIZE(argument) != (Py_ssize_t)keys.number) return false;
  Py_ssize_t position = 0;
  PyObject *key, *value;
  for (PyObject* expected : keys.objects) {
    if (!PyDict_Next(argument, &position, &key, &value) || !same_name(key, expected)) return false;
    put(from++, value);
  }
  return true;
}

bool SpreadItems::take_tuple(PyObject* argument, const Check& length, size_t from) {
  if (!PyTuple_CheckExact(argument) || PyTuple_GET_SIZE(argument) != (Py_ssize_t)length.number) return false;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(argument); i++)
    put(from++, PyTuple_GET_ITEM(argument, i));
  return true;
}

void Walk::note(int32_t slot, PyObject* value) {
  PyObject* before = slots[slot];
  slots[slot] = Py_NewRef(value);
  Py_XDECREF(before);
}

void Walk::forget_slots() {
  for (int32_t i = 0; i < program.slot_count; i++) Py_CLEAR(slots[i]);
}

// A failure ends the evaluation, unless all failures are asked for: then the walk goes on behind the node.
Outcome Walk::failed(Node& node, int check, Outcome outcome) {
  failed_node = (int)node.given;
  failed_check = check;
  if (!failures || outcome != Outcome::Fails) return outcome;
  failures->push_back({failed_node, failed_check});
  return Outcome::Holds;
}

Outcome Walk::run_checks(Visit& v) {
  failed_check = 0;
  for (Check& check : v.node.checks) {
    Outcome outcome = check.kind->test(v, check);
    if (outcome != Outcome::Holds) return outcome;
    failed_check++;
  }
  return Outcome::Holds;
}

Outcome Walk::visit_children(Visit& v, bool unchanged, bool* whole) {
  Node& node = v.node;
  if (unchanged) return run(node.below, node.last);
  for (uint32_t i = node.index + 1; i < node.end; i = program.nodes[i].end) {
    Outcome outcome = visit(program.nodes[i], v.value);
    if (outcome != Outcome::Holds) return outcome;
    *whole = *whole && program.nodes[i].whole;
  }
  return Outcome::Holds;
}

// A node that is not whole keeps its first record failing, so that it is visited again.
void Walk::write_records(Visit& v, bool whole) {
  Node& node = v.node;
  bool layout_certain = v.trusted || !node.wants_layout || v.layout_known || type_is_permanent(Py_TYPE(v.value));
  if (!v.recordable || !layout_certain) {
    v.count = 0;
    v.recordable = true;
    v.add(Op::Fail, nullptr, 0);
  }
  if ((uint32_t)v.count > node.room && !node.unsafe) {
    node.needed = (uint32_t)v.count;
    program.stale_layout = true;
  }
  whole = whole && !node.unsafe && (uint32_t)v.count <= node.room;
  if (whole) {
    for (uint32_t i = 0; i < node.room; i++)
      program.put(node.first + i,
                  i < (uint32_t)v.count ? v.records[i] : Record{nullptr, 0, node.index, 0, -1, Op::Pass});
  }
  node.whole = whole;
  node.version = whole ? node.reading : 0;
}

Outcome Walk::visit(Node& node, PyObject* borrowed_base) {
  visited = true;
  program.counters.visits++;
  uint64_t before = node.version;
  PyObject* previous = node.value;
  bool started_live = live();
  if (started_live) {
    if (node.room) program.put(node.first, {nullptr, 0, node.index, 0, -1, Op::Fail});
    node.version = 0;
    node.whole = false;
  }
  Ref base = Ref::new_ref(borrowed_base);
  Visit v(*this, node);
  Outcome outcome = node.step->take(v, base.get());
  if (outcome != Outcome::Holds) return failed(node, -1, outcome);
  v.trusted = v.trusted || node.pinned;                             // its IS check makes the address proof, or fails
  uint64_t reading = node.wants_version ? version_of(v.value) : 0;  // before anything below is looked at
  v.trusted = v.trusted || (v.surely_dict && reading);
  if (node.wants_version && PyDict_Check(v.value)) node.quiet = has_leaf_keys(v.value);
  if (live()) {
    if (node.distinct && !node.passed && node.value != v.value) {
      if (node.value) program.addresses.remove(node.value);
      program.addresses.add(v.value);
    }
    node.value = v.value;
    node.reading = reading;
    node.trusted = v.trusted;
  }
  if (node.wants_layout && !v.trusted) v.record_type();
  if (reading && PyDict_Check(v.value)) v.add(Op::DictVersion, v.value, reading);
  if (reading && PyType_Check(v.value)) v.add(Op::TypeVersion, v.value, reading);
  outcome = run_checks(v);
  if (outcome != Outcome::Holds) return failed(node, failed_check, outcome);
  if (node.slot >= 0) {
    note(node.slot, v.value);
    bool handed_out = false;
    for (int i = 0; i < v.count; i++) handed_out = handed_out || v.records[i].slot >= 0;
    if (!handed_out) v.add(node.lone || node.spread >= 0 ? Op::ArgumentNote : Op::Note, v.value, 0, node.local);
  }
  bool whole = true;
  bool unchanged =
      reading && reading == before && previous == v.value && started_live && live() && !careful && !node.unsafe;
  outcome = visit_children(v, unchanged, &whole);
  if (outcome == Outcome::Holds && started_live && live()) write_records(v, whole);
  return outcome;
}

// ---- running records ----

bool Walk::holds(const Record& r) {
  switch (r.op) {
    case Op::Pass:
      return true;
    case Op::Fail:
      return false;
    case Op::Load:
      return *(const uint64_t*)r.at == r.expect;
    case Op::DictVersion:
      return dict_version((PyObject*)r.at) == r.expect;
    case Op::Held:
      return is_as_remembered((PyObject*)r.expect, (PyObject*)r.at);
    case Op::Elements:
      return set_iterates_as((PyObject*)r.at, ((const Check*)r.expect)->objects);
    case Op::TypeVersion:
      return type_version((PyTypeObject*)r.at) == r.expect;
    case Op::ListItem:
      return PyList_GET_SIZE((PyObject*)r.at) > (Py_ssize_t)r.index &&
             PyList_GET_ITEM((PyObject*)r.at, r.index) == (PyObject*)r.expect;
    case Op::Argument:
      return local(r.index) == (PyObject*)r.expect;
    case Op::Tensor:
      if (!tensor_holds(*(const TensorCheck*)r.expect, (PyObject*)r.at)) return false;
      if (r.slot >= 0) note(r.slot, (PyObject*)r.at);
      return true;
    case Op::ArgumentTensor:
      if (!local(r.index) || !tensor_holds(*(const TensorCheck*)r.expect, local(r.index))) return false;
      if (r.slot >= 0) note(r.slot, local(r.index));
      return true;
    case Op::Note:
      note(r.slot, (PyObject*)r.at);
      return true;
    case Op::ArgumentNote:
      if (!local(r.index)) return false;
      note(r.slot, local(r.index));
      return true;
    case Op::SpreadDict:
      return local(r.index) && items.take_dict(local(r.index), *(const Check*)r.expect, (size_t)r.at);
    case Op::SpreadTuple:
      return local(r.index) && items.take_tuple(local(r.index), *(const Check*)r.expect, (size_t)r.at);
  }
  return false;
}

// A node whose repair runs Python code cannot be repaired in the middle of a run: visit it and all above it from now
// on.
void Walk::learn(Node& node) {
  for (Node* n = &node;; n = &program.nodes[n->parent]) {
    n->unsafe = true;
    n->whole = false;
    n->version = 0;
    if (n->parent < 0) return;
  }
}

Outcome Walk::repair(uint32_t* record) {
  Node& node = program.nodes[program.records[*record].node];
  bool ran_before = ran_code;
  ran_code = false;
  Unseen unseen;
  const Node* parent = node.parent < 0 ? nullptr : &program.nodes[node.parent];
  roots.add(program.root_of(node));
  Outcome outcome = visit(node, !parent ? nullptr : parent->spread < 0 ? parent->value : local(parent->local));
  if (outcome != Outcome::Holds) return outcome;
  if (ran_code && node.parent >= 0) {  // a root is held by nothing that was borrowed
    learn(node);
    return Outcome::Again;
  }
  ran_code = ran_code || ran_before;
  *record = node.last;
  return Outcome::Holds;
}

// Rows wait until all words before them were found, or until a visit is about to run: that may change what their
// addresses rest on.
Outcome Walk::run_rows(uint32_t from, uint32_t to) {
  for (uint32_t i = from; (i = rows_hold(program.rows.data(), i, to, slots)) < to; i++) {
    uint32_t at = program.rows[i].record;
    const Record record = program.records[at];
    if (holds(record)) {  // found otherwise, and as good
      program.put(at, record);
      continue;
    }
    Outcome outcome = repair(&at);
    if (outcome != Outcome::Holds) return outcome;
  }
  return Outcome::Holds;
}

uint32_t Program::row_of_record(uint32_t record) const {
  return record < records.size() ? nodes[records[record].node].row : (uint32_t)rows.size();
}

// The records [from, to), which are those of whole subtrees.
Outcome Walk::run(uint32_t from, uint32_t to) {
  const Word* const words = program.words.data();  // of fixed size while a walk is live
  uint32_t row = program.row_of_record(from);
  for (uint32_t i = from;;) {
    i = (uint32_t)(run_words(words + i, words + to) - words);
    if (i >= to) return run_rows(row, program.row_of_record(to));
    const Record& record = program.records[i];
    if (holds(record)) {
      i++;
      continue;
    }
    Node& node = program.nodes[record.node];
    Outcome outcome = run_rows(row, node.row);
    if (outcome != Outcome::Holds) return outcome;
    uint32_t after = i;
    outcome = repair(&after);
    if (outcome != Outcome::Holds) return outcome;
    i = after;
    row = program.row_of_record(i);
    if (!live()) return node.parent < 0 ? evaluate_from(node.end) : Outcome::Again;  // code ran: only in a root's visit
  }
}

Outcome Walk::evaluate() {
  if (careful || !live()) return evaluate_from(0);
  if (program.settled.built && program.settled.touched->is_so) program.unsettle();
  if (program.settled.built && program.settled.fields == fields) {
    was_settled = run_settled();
    if (was_settled) return visit_asides();
    forget_slots();
  }
  return run(0, (uint32_t)program.records.size());
}

Outcome Walk::evaluate_from(uint32_t node) {
  Unseen unseen;
  for (uint32_t i = node; i < program.nodes.size(); i = program.nodes[i].end) {
    roots.add(i);
    Outcome outcome = visit(program.nodes[i], nullptr);
    if (outcome != Outcome::Holds) return outcome;
  }
  return Outcome::Holds;
}

// ---- the whole program ----

bool Program::check_same(Walk& walk) {
  for (auto [node, check] : walk.was_settled ? settled.same : same) {
    if (walk.slots[nodes[node].slot] == walk.slots[nodes[node].checks[check].other]) continue;
    walk.failed_node = (int)nodes[node].given;
    walk.failed_check = (int)check;
    return false;
  }
  return true;
}

// Functions of several values, called when all of them are known.
Outcome Program::check_joint(Walk& walk) {
  for (auto [node, number] : joint) {
    const Check& check = nodes[node].checks[number];
    std::vector<PyObject*> values = {walk.slots[nodes[node].slot]};
    for (int32_t slot : check.others) values.push_back(walk.slots[slot]);
    Unseen unseen;
    Ref answer = Ref::steal(PyObject_Vectorcall(check.leaf.get(), values.data(), values.size(), nullptr));
    int holds = answer ? PyObject_IsTrue(answer.get()) : -1;
    if (holds > 0) continue;
    walk.failed_node = (int)nodes[node].given;
    walk.failed_check = (int)number;
    return holds < 0 ? after_error() : Outcome::Fails;
  }
  return Outcome::Holds;
}

// Sets of ids have no version: they are asked at every call, all together.
Outcome Program::check_unmarked(Walk& walk) {
  if (unmarked.empty()) return Outcome::Holds;
  Unseen unseen;
  MarkedIds ids;
  const PyObject* found = nullptr;
  for (auto [node, number] : unmarked) {
    PyObject* names = nodes[node].checks[number].leaf.get();
    bool known = names == found || ids.find(names);
    found = names;
    int contain = known ? ids.contain(walk.slots[nodes[node].slot]) : -1;
    if (!contain) continue;
    walk.failed_node = (int)nodes[node].given;
    walk.failed_check = (int)number;
    return contain < 0 ? after_error() : Outcome::Fails;
  }
  return Outcome::Holds;
}

Outcome Program::check_between(Walk& walk) {
  if (!check_same(walk)) return Outcome::Fails;
  Outcome outcome = check_joint(walk);
  if (outcome == Outcome::Holds) outcome = check_unmarked(walk);
  if (outcome != Outcome::Holds) return outcome;
  outcome = check_distinct(walk);
  if (outcome != Outcome::Holds) walk.failed_node = -1, walk.failed_check = 0;
  return outcome;
}

// The addresses of all but arguments are kept up to date as nodes are visited; arguments are new at every call.
Outcome Program::check_distinct(Walk& walk) {
  Addresses fetched;
  std::vector<Ref> kept;
  Outcome outcome = Outcome::Holds;
  bool live = walk.live();
  if (!live) {  // another evaluation has changed them: fetch our own
    Unseen unseen;
    fetched.resize(distinct.size());
    for (uint32_t index : distinct) {
      kept.push_back(fetch_node(nodes[index], walk, &outcome));
      if (!kept.back()) break;
      fetched.add(kept.back().get());
    }
  }
  const Addresses& others = live ? addresses : fetched;
  if (outcome == Outcome::Holds && !others.all_different()) outcome = Outcome::Fails;
  for (size_t i = 0; outcome == Outcome::Holds && i < distinct_arguments.size(); i++) {
    PyObject* value = walk.local(nodes[distinct_arguments[i]].local);
    if (!value || (!distinct.empty() && others.contains(value))) outcome = Outcome::Fails;
    for (size_t j = 0; j < i; j++)
      if (walk.local(nodes[distinct_arguments[j]].local) == value) outcome = Outcome::Fails;
  }
  return outcome;
}

// Most entries that are not for a call differ in the arguments: nothing is walked, and no memo is lost, to find that
// out. Asked where the last call was not for the entry either.
Outcome Program::look_at_arguments(PyObject* const* locals, Py_ssize_t count, int* failed_node, int* failed_check) {
  for (auto [index, number] : looks) {
    const Node& node = nodes[index];
    const Check& check = node.checks[number];
    PyObject* value = node.number < count ? locals[node.number] : nullptr;
    bool ran_code = false;
    Outcome outcome = Outcome::Fails;
    if (value && check.tensor)
      outcome = tensor_holds(*check.tensor, value) ? Outcome::Holds : Outcome::Fails;
    else if (value)
      outcome = indistinguishable(value, check.leaf.get(), &ran_code);
    if (outcome == Outcome::Holds) continue;
    *failed_node = (int)node.given;
    *failed_check = value ? (int)number : -1;
    return outcome;
  }
  return Outcome::Holds;
}

Outcome Program::check(PyObject* const* locals, Py_ssize_t count, PyObject** slots, int* failed_node,
                       int* failed_check) {
  counters.checks++;
  *failed_node = -1;
  if (dead()) {
    *failed_check = 2;
    return Outcome::Fails;
  }
  if (doubtful) {
    Outcome looked = look_at_arguments(locals, count, failed_node, failed_check);
    if (looked != Outcome::Holds) return looked;
  }
  doubtful = true;
  if (has_state && !state.matches()) {
    *failed_check = 1;
    return Outcome::Fails;
  }
  Walk walk{*this, locals, count, slots};
  walk.epoch = ++epoch;
  Outcome outcome = walk.evaluate();
  if (outcome == Outcome::Again) {
    counters.restarts++;
    walk.forget_slots();
    walk.careful = true;
    outcome = walk.evaluate();
  }
  if (outcome == Outcome::Holds) outcome = check_between(walk);
  *failed_node = walk.failed_node;
  *failed_check = walk.failed_check;
  if (outcome != Outcome::Holds) {
    walk.forget_slots();
    return outcome;
  }
  doubtful = false;
  if (stale_layout && walk.live()) lay_out();
  if (!walk.visited) counters.unchanged++;
  settle_or_not(walk);
  return outcome;
}

bool Program::all_failures(PyObject* const* locals, Py_ssize_t count, std::vector<std::pair<int, int>>& found) {
  if (dead()) {
    found.push_back({-1, 2});
    return true;
  }
  if (has_state && !state.matches()) found.push_back({-1, 1});
  SlotValues slots((size_t)slot_count);
  Walk walk{*this, locals, count, slots.data()};
  walk.epoch = ++epoch;
  walk.careful = true;
  walk.failures = &found;
  Outcome outcome = walk.evaluate();
  if (outcome == Outcome::Holds && found.empty()) {
    outcome = check_between(walk);
    if (outcome == Outcome::Fails) found.push_back({walk.failed_node, walk.failed_check});
  }
  doubtful = doubtful || !found.empty();
  return outcome != Outcome::Error;
}

// Give every node as many records as its last visit needed; all are written anew by the next evaluation.
void Program::lay_out() {
  auto room_for = [](const Node& node) { return std::max({node.room, node.needed, node.parent < 0 ? 1u : 0u}); };
  auto wants_row = [](const Node& node) {
    int tensors = 0;
    for (const Check& check : node.checks) tensors += check.tensor != nullptr;
    return tensors == 1 && !node.passed && node.end == node.index + 1;
  };
  size_t record_count = 0, row_count = 0;
  for (const Node& node : nodes) {
    record_count += room_for(node);
    row_count += wants_row(node);
  }
  // All memory first: what fails here leaves the program as it was.
  std::vector<Record> new_records(record_count, Record{nullptr, 0, 0, 0, -1, Op::Fail});
  std::vector<Word> new_words(record_count + 1);
  std::vector<TensorRow> new_rows(row_count);
  records.swap(new_records);
  words.swap(new_words);
  rows.swap(new_rows);
  counters.layouts++;
  epoch++;
  stale_layout = false;
  uint32_t next = 0, next_row = 0;
  for (Node& node : nodes) {
    node.room = room_for(node);
    node.first = next;
    next += node.room;
    node.below = next;
    node.version = 0;
    node.whole = false;
    node.row = next_row;
    node.has_row = wants_row(node);
    next_row += node.has_row;
  }
  for (Node& node : nodes) {
    node.last = node.end < nodes.size() ? nodes[node.end].first : next;
    for (uint32_t i = node.first; i < node.below; i++) put(i, {nullptr, 0, node.index, 0, -1, Op::Fail});
  }
  words[next] = {&Word::kZero, 1};
}

void Program::put(uint32_t at, const Record& record) {
  if (!nodes[record.node].aside) unsettle();
  records[at] = record;
  words[at] = {&Word::kZero, record.op != Op::Pass};
  if (record.op == Op::Load) words[at] = {(const uint64_t*)record.at, record.expect};
  if (record.op == Op::DictVersion)
    words[at] = {(const uint64_t*)dict_version_at((PyObject*)record.at), record.expect};
  if (record.op == Op::TypeVersion && type_version_is_told_alone()) {
    uint64_t word = type_version_word((PyTypeObject*)record.at);
    if ((uint32_t)word == record.expect) words[at] = {(const uint64_t*)type_version_at((PyTypeObject*)record.at), word};
  }
  const Node& node = nodes[record.node];
  if (!node.has_row || record.op == Op::Pass) return;
  if (record.op == Op::Fail) rows[node.row] = TensorRow{};
  if (record.op != Op::Tensor) return;
  TensorRow row = tensor_row((PyObject*)record.at, *(const TensorCheck*)record.expect);
  row.slot = record.slot;
  row.record = at;
  rows[node.row] = row;
  if (row.object) words[at] = {&Word::kZero, 0};
}

// The value at a node by its path alone, without checks; none, and the reason.
Ref Program::fetch_node(Node& node, Walk& walk, Outcome* outcome) {
  Ref base;
  if (node.parent >= 0) {
    base = fetch_node(nodes[node.parent], walk, outcome);
    if (!base) return nullptr;
  }
  Visit v(walk, node);
  *outcome = node.step->take(v, base.get());
  return Ref::new_ref(*outcome == Outcome::Holds ? v.value : nullptr);
}

Ref Program::fetch(uint32_t given, PyObject* const* locals, Py_ssize_t count, bool* missing) {
  int index = find_given(given);
  *missing = false;
  if (index < 0) {
    PyErr_SetString(PyExc_IndexError, "no such node");
    return nullptr;
  }
  Walk walk{*this, locals, count, nullptr};
  walk.epoch = epoch - 1;  // never live
  Outcome outcome = Outcome::Holds;
  Unseen unseen;
  Ref value = fetch_node(nodes[index], walk, &outcome);
  *missing = outcome == Outcome::Fails;
  return value;
}

}  // namespace framelift
