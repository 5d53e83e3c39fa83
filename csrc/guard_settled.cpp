// A program whose evaluations have changed nothing for a while: the words of its records in one row, each once.  Paths
// meet in the same dictionaries, classes and tuples, so many of them are there several times.  Where CPython tells of
// changes of dictionaries, their versions are not among them, nor are fields of objects that change only where we hear
// of it (guard_told.h): once one was set, of whatever object, all words are compared again, and if they are found, the
// settled ones will do from then on.
//
// Any record that is written anew ends this: what one record said of an address, others then have to ask again.
//
// A root that has to be visited at every call, because only Python code can tell what lies below it, is set aside: it
// is visited after all words, and its records are no part of them.
#include <algorithm>
#include <unordered_map>

#include "guard.h"
#include "unseen.h"

namespace framelift {

void Roots::add(uint32_t node) {
  for (uint32_t i = 0; i < count && i < kMost; i++)
    if (nodes[i] == node) return;
  if (count < kMost) nodes[count] = node;
  if (count <= kMost) count++;
}

bool Roots::operator==(const Roots& other) const {
  return count <= kMost && count == other.count && std::equal(nodes, nodes + count, other.nodes);
}

void Program::set_aside(const Roots& roots, bool aside) {
  for (uint32_t i = 0; i < roots.count; i++)
    for (uint32_t node = roots.nodes[i]; node < nodes[roots.nodes[i]].end; node++) nodes[node].aside = aside;
}

void Program::unsettle() {
  if (settled.built) set_aside(settled.asides, false);
  settled.end();
}

bool Program::may_settle(Walk& walk) {
  Roots visited = walk.visited ? walk.roots : Roots{};
  bool as_before = visited == settled.asides;
  for (uint32_t i = 0; as_before && i < visited.count; i++) {  // rows of tensors are run together
    const Node& root = nodes[visited.nodes[i]];
    as_before = root.row == (root.end < nodes.size() ? nodes[root.end].row : (uint32_t)rows.size());
  }
  settled.asides = visited;
  settled.calls = as_before ? settled.calls + 1 : 0;
  return as_before && settled.calls >= settled.patience;
}

// The walk's evaluation held.
void Program::settle_or_not(Walk& walk) {
  if (!walk.live()) return;
  if (!settled.built) {
    if (may_settle(walk)) settle(walk);
    return;
  }
  settled.fields = walk.fields;
  for (uint32_t i = 0; i < settled.asides.count; i++)
    if (nodes[settled.asides.nodes[i]].whole) return unsettle();  // its records speak for it from now on
}

void Settled::end() {
  if (!built) return;
  built = false;
  calls = 0;
  patience = std::min(2 * patience, kMostPatience);
  words.clear();
  stops.clear();
  tensors.clear();
  same.clear();
  touched.reset();
}

bool Walk::all_hold() {
  for (size_t i = 0; i < program.records.size(); i++) {
    if (program.nodes[program.records[i].node].aside) continue;
    const Word& word = program.words[i];
    if (word.never() ? !holds(program.records[i]) : *word.at != word.expect) return false;
  }
  return true;
}

// From here on CPython tells of a change of the dictionary, so that its version need not be compared.
void Program::watch(Record& record, Word& word) {
  PyObject* dict = (PyObject*)record.at;
  Node& node = nodes[record.node];
  watch_dict(dict, settled.touched);
  bool is_its_own = node.value == dict && node.version == record.expect;
  record.expect = word.expect = dict_version(dict);  // as it is while watched; nothing else has changed
  if (is_its_own) node.version = node.reading = record.expect;
}

// Where words need not be compared: all others prove that these objects are the same ones.
std::unordered_set<const void*> Program::told_addresses() const {
  std::unordered_set<const void*> watched, told;
  for (const Record& record : records)
    if (record.op == Op::DictVersion && !nodes[record.node].aside) watched.insert(record.at);
  for (const Node& node : nodes)
    if (node.trusted && !node.aside) add_told(node.value, watched, told);
  return told;
}

// The walk's evaluation held, and visited nothing but roots that are set aside from now on.  Functions of the program
// may have run since.
void Program::settle(Walk& walk) {
  bool watches = can_watch_dicts();
  settled.calls = 0;
  set_aside(settled.asides, true);
  if (watches && !walk.all_hold()) return set_aside(settled.asides, false);
  std::unordered_set<const void*> told;
  if (watches && hears_of_fields()) told = told_addresses();
  settled.fields = fields_set();
  settled.touched = std::make_shared<Touched>();
  settled.words.clear();
  settled.stops.clear();
  settled.same.clear();
  std::vector<bool> asked((size_t)slot_count);  // by others than conditions that hold while nothing changes
  for (const std::vector<int32_t>* slots : {&inputs, &externals})
    for (int32_t slot : *slots) asked[(size_t)slot] = true;
  for (auto [node, number] : joint) {
    asked[(size_t)nodes[node].slot] = true;
    for (int32_t slot : nodes[node].checks[number].others) asked[(size_t)slot] = true;
  }
  for (auto [node, number] : unmarked) asked[(size_t)nodes[node].slot] = true;
  std::vector<bool> varies((size_t)slot_count);
  for (const Node& node : nodes)
    if (node.slot >= 0 && (node.lone || node.spread >= 0 || node.aside)) varies[(size_t)node.slot] = true;
  for (auto [node, number] : same) {
    size_t one = (size_t)nodes[node].slot, other = (size_t)nodes[node].checks[number].other;
    if (!varies[one] && !varies[other]) continue;
    settled.same.emplace_back(node, number);
    asked[one] = asked[other] = true;
  }
  std::unordered_map<const uint64_t*, uint64_t> seen;
  for (uint32_t i = 0; i < records.size(); i++) {
    Record& record = records[i];
    Word& word = words[i];
    if (nodes[record.node].aside) continue;
    if (watches && record.op == Op::DictVersion) {
      watch(record, word);
    } else if (word.never()) {
      if (record.op != Op::Note || asked[(size_t)record.slot])
        settled.stops.push_back({(uint32_t)settled.words.size(), i});
    } else if (!word.always() && !(record.op == Op::Load && told.contains(record.at))) {
      auto [known, is_new] = seen.emplace(word.at, word.expect);
      if (is_new || known->second != word.expect) settled.words.push_back(word);
    }
  }
  settled.tensors.take(rows);
  settled.built = true;
}

bool Walk::run_settled() {
  const Settled& settled = program.settled;
  const Word *at = settled.words.data(), *const first = at, *const end = at + settled.words.size();
  for (const Settled::Stop& stop : settled.stops) {
    at = run_words(at, first + stop.word);
    if (at != first + stop.word || !holds(program.records[stop.record])) return false;
  }
  return run_words(at, end) == end && settled.tensors.hold(slots);
}

// What the words say was found before any code ran; if that code evaluated the program, or ended the settled state, all
// is looked at once more.
Outcome Walk::visit_asides() {
  Roots asides = program.settled.asides;
  Unseen unseen;
  for (uint32_t i = 0; i < asides.count; i++) {
    Outcome outcome = visit(program.nodes[asides.nodes[i]], nullptr);
    if (outcome != Outcome::Holds) return outcome;
    was_settled = live() && program.settled.built;
    if (!was_settled) return Outcome::Again;
  }
  return Outcome::Holds;
}

}  // namespace framelift
