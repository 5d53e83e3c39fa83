// Building a guard program from its description, and what it holds: constants strongly or weakly, and whether it is
// dead.
#include <algorithm>
#include <cstring>
#include <unordered_map>

#include "barrier.h"
#include "guard.h"

namespace framelift {

// ---- constants ----

struct Liveness {
  PyObject_HEAD bool dead;
};

static PyTypeObject Liveness_Type = {PyVarObject_HEAD_INIT(nullptr, 0)};

static PyObject* note_death(PyObject* liveness, PyObject*) {
  ((Liveness*)liveness)->dead = true;
  Py_RETURN_NONE;
}
static MethodTable death({method<note_death, METH_O>("note_death")});

bool init_liveness() {
  define<Liveness>(Liveness_Type, "framelift._core.Liveness", nullptr, 0, nullptr);
  return PyType_Ready(&Liveness_Type) == 0;
}

bool Program::dead() const { return cleared || (liveness && ((Liveness*)liveness.get())->dead); }

static bool hold_weakly(PyObject* object) {
  if (PyType_Check(object)) return is_heap_type((PyTypeObject*)object);
  if (PyFrozenSet_CheckExact(object)) return !immutable_leaf(object);  // an equal one is as good
  return PyType_SUPPORTS_WEAKREFS(Py_TYPE(object)) && !PyCFunction_Check(object);
}

bool Program::hold(PyObject* object) {
  if (held.count(object)) return true;
  Ref keeper;
  if (hold_weakly(object)) {
    if (!callback) {
      Liveness* made = PyObject_New(Liveness, &Liveness_Type);
      if (!made) return false;
      made->dead = false;
      liveness = Ref::steal((PyObject*)made);
      callback = Ref::steal(PyCFunction_New(death.rows, liveness.get()));
      if (!callback) return false;
    }
    keeper = Ref::steal(PyWeakref_NewRef(object, callback.get()));
    if (!keeper) return false;
  } else {
    keeper = Ref::new_ref(object);
  }
  owned.push_back(std::move(keeper));
  held.insert(object);
  return true;
}

// Letting go may run any code, which finds an empty program that is dead.
void Program::clear() noexcept {
  cleared = true;
  std::vector<Node> all_nodes = std::move(nodes);
  std::vector<Ref> all_owned = std::move(owned);
  nodes.clear();
  owned.clear();
  records.clear();
  same.clear();
  joint.clear();
  distinct.clear();
  distinct_arguments.clear();
  looks.clear();
  inputs.clear();
  externals.clear();
  held.clear();
  callback.reset();
  liveness.reset();
  state_object.reset();
}

int Program::traverse(visitproc visit, void* arg) noexcept {
  for (Node& node : nodes) {
    for (Check& check : node.checks) {
      Py_VISIT(check.leaf.get());
      Py_VISIT(check.names.get());
    }
    Py_VISIT(node.own_key.get());
  }
  for (Ref& object : owned) Py_VISIT(object.get());
  Py_VISIT(callback.get());
  Py_VISIT(liveness.get());
  Py_VISIT(state_object.get());
  return 0;
}

Ref Program::describe(uint32_t given) const {
  int index = find_given(given);
  if (index < 0) {
    PyErr_SetString(PyExc_IndexError, "no such node");
    return nullptr;
  }
  const Node& node = nodes[index];
  Ref checks = make_tuple((Py_ssize_t)node.checks.size(), [&](Py_ssize_t i) {
    const Check& check = node.checks[(size_t)i];
    Ref constant = check.kind->constant(*this, check);
    return Ref::steal(constant ? Py_BuildValue("(sO)", check.kind->name, constant.get()) : nullptr);
  });
  if (!checks) return nullptr;
  bool gone = dead() && !strcmp(node.step->name, "const");
  int parent = node.parent < 0 ? -1 : (int)nodes[node.parent].given;
  PyObject* key = gone || !node.key ? Py_None : node.key;
  return Ref::steal(Py_BuildValue("(isOO)", parent, node.step->name, key, checks.get()));
}

// ---- building ----

static bool complain(const char* what, PyObject* about) {
  if (!PyErr_Occurred()) PyErr_Format(PyExc_ValueError, "guard program: %s: %R", what, about);
  return false;
}

int Program::find_given(long given) const { return given >= 0 && given < (long)places.size() ? places[given] : -1; }

// The row of a name, which is found by its address once it was met: names are interned, and live as long as the
// process.
template <typename Row>
static const Row* row_named(PyObject* name, const Row* (*find)(const char*)) {
  static std::unordered_map<PyObject*, const Row*> known;
  auto found = known.find(name);
  if (found != known.end()) return found->second;
  const char* text = PyUnicode_Check(name) ? PyUnicode_AsUTF8(name) : nullptr;
  const Row* row = text ? find(text) : nullptr;
  if (!row) return nullptr;
  PyObject* interned = PyUnicode_InternFromString(row->name);  // kept for the life of the process
  if (!interned) return nullptr;
  known.emplace(interned, row);
  return row;
}

bool Program::build_checks(Node& node, PyObject* checks) {
  if (!PyTuple_Check(checks)) return complain("checks are a tuple", checks);
  node.checks.reserve((size_t)PyTuple_GET_SIZE(checks));
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(checks); i++) {
    PyObject* row = PyTuple_GET_ITEM(checks, i);
    if (!PyTuple_Check(row) || PyTuple_GET_SIZE(row) != 2) return complain("not a check", row);
    const Kind* kind = row_named(PyTuple_GET_ITEM(row, 0), find_kind);
    if (!kind) return complain("no such kind", row);
    node.checks.emplace_back();
    node.checks.back().kind = kind;
    if (!kind->prepare(*this, node, node.checks.back(), PyTuple_GET_ITEM(row, 1)))
      return complain("the value does not fit its kind", row);
  }
  return true;
}

static bool names_an_attribute(const char* step) {
  return !strcmp(step, "slot") || !strcmp(step, "lookup") || !strcmp(step, "attr");
}

static bool set_key(Program& program, Node& node, PyObject* key) {
  const char* step = node.step->name;
  node.argument = !strcmp(step, "arg");
  if (!strcmp(step, "const")) {
    node.key = key;
    return program.hold(key);
  }
  if (names_an_attribute(step) && !PyUnicode_CheckExact(key)) return complain("this step takes a name", key);
  node.key = Py_NewRef(key);
  if (PyUnicode_CheckExact(key)) PyUnicode_InternInPlace(&node.key);
  node.own_key = Ref::steal(node.key);
  PyObject* number = node.argument && PyTuple_Check(key) && PyTuple_GET_SIZE(key) > 0 ? PyTuple_GET_ITEM(key, 0) : key;
  if (PyLong_CheckExact(number)) {
    node.number = PyLong_AsSsize_t(number);
    if (node.number == -1 && PyErr_Occurred()) PyErr_Clear();
  }
  if (node.argument && node.number < 0) return complain("arg takes the number of a local", key);
  return true;
}

// The description may list nodes in any order that has parents first; here they lie in preorder.
bool Program::build_nodes(PyObject* list) {
  size_t n = (size_t)PyList_GET_SIZE(list);
  constexpr uint32_t kNone = UINT32_MAX;
  std::vector<long> parents(n);
  std::vector<uint32_t> last(n + 1, kNone), before(n, kNone);  // last child of each (n: roots), the child before one
  for (size_t i = 0; i < n; i++) {
    PyObject* row = PyList_GET_ITEM(list, (Py_ssize_t)i);
    if (!PyTuple_Check(row) || PyTuple_GET_SIZE(row) != 4) return complain("not a node", row);
    long parent = parents[i] = PyLong_AsLong(PyTuple_GET_ITEM(row, 0));
    if (PyErr_Occurred()) return false;
    if (parent < -1 || parent >= (long)i) return complain("a parent comes before its children", row);
    uint32_t& latest = last[parent < 0 ? n : (size_t)parent];
    before[i] = latest;
    latest = (uint32_t)i;
  }
  std::vector<uint32_t> order, pending;
  order.reserve(n);
  auto push_children = [&](size_t of) {  // the first comes to lie on top
    for (uint32_t child = last[of]; child != kNone; child = before[child]) pending.push_back(child);
  };
  push_children(n);
  while (!pending.empty()) {
    uint32_t given = pending.back();
    pending.pop_back();
    order.push_back(given);
    push_children(given);
  }
  places.resize(n);
  for (uint32_t i = 0; i < n; i++) places[order[i]] = (int32_t)i;
  nodes.reserve(n);
  for (uint32_t i = 0; i < n; i++) {
    PyObject* row = PyList_GET_ITEM(list, order[i]);
    long parent = parents[order[i]];
    const StepRow* found = row_named(PyTuple_GET_ITEM(row, 1), find_step);
    if (!found) return complain("no such step", row);
    nodes.emplace_back();
    Node& node = nodes.back();
    node.index = i;
    node.given = order[i];
    node.parent = parent < 0 ? -1 : places[parent];
    node.step = found;
    bool is_root = !strcmp(found->name, "arg") || !strcmp(found->name, "const");
    if (is_root != (parent < 0)) return complain("arg and const are roots, and only these", row);
    if (!set_key(*this, node, PyTuple_GET_ITEM(row, 2)) || !build_checks(node, PyTuple_GET_ITEM(row, 3))) return false;
  }
  for (uint32_t i = (uint32_t)n; i-- > 0;) {
    nodes[i].end = std::max(nodes[i].end, i + 1);
    if (nodes[i].parent >= 0) {
      Node& parent = nodes[nodes[i].parent];
      parent.end = std::max(parent.end, nodes[i].end);
    }
  }
  return true;
}

static bool one_of(const char* name, std::initializer_list<const char*> names) {
  for (const char* candidate : names)
    if (!strcmp(name, candidate)) return true;
  return false;
}

static const Check* check_of(const Node& node, const char* kind) {
  for (const Check& check : node.checks)
    if (!strcmp(check.kind->name, kind)) return &check;
  return nullptr;
}

// The place of an item among those of its argument, or a number too large.
static size_t place_of(const Node& item, const Check& check) {
  if (check.objects.empty()) return item.number < 0 ? SIZE_MAX : (size_t)item.number;
  for (size_t i = 0; i < check.objects.size(); i++)
    if (PyUnicode_CheckExact(item.key) && !PyUnicode_Compare(item.key, check.objects[i])) return i;
  return SIZE_MAX;
}

// Which arguments are spread: dictionaries and tuples of known items, of which nothing else is asked.
void Program::find_spread() {
  uint32_t next = 0;
  for (Node& node : nodes) {
    if (node.argument) node.passed = true, node.local = (uint32_t)node.number;
    if (!node.argument || node.checks.size() != 2) continue;
    const Check *type = check_of(node, "TYPE"), *told = check_of(node, "KEYS");
    if (!told) told = check_of(node, "LEN");
    bool is_dict = told && !strcmp(told->kind->name, "KEYS");
    if (!type || !told || type->constant != (PyObject*)(is_dict ? &PyDict_Type : &PyTuple_Type)) continue;
    bool fits = (size_t)told->number <= SpreadItems::kMost - next;
    for (PyObject* key : told->objects) fits = fits && PyUnicode_CheckExact(key);
    for (uint32_t i = node.index + 1; fits && i < node.end; i = nodes[i].end)
      fits = !strcmp(nodes[i].step->name, "item") && place_of(nodes[i], *told) < (size_t)told->number;
    if (!fits) continue;
    node.spread = (int32_t)(told - node.checks.data());
    node.checks[(size_t)node.spread].other = (int32_t)next;
    for (uint32_t i = node.index + 1; i < node.end; i = nodes[i].end) {
      nodes[i].passed = true;
      nodes[i].local = SpreadItems::kFirst + next + (uint32_t)place_of(nodes[i], *told);
    }
    next += (uint32_t)told->number;
  }
}

// What a kind of check, and the step to a child, say about their node.
struct KindFacts {
  bool pins, layout, version, of_tensors;
  explicit KindFacts(const char* kind)
      : pins(one_of(kind, {"IS"})),
        layout(one_of(kind, {"CODE", "LEN", "KEYS", "HAS_KEY", "ABSENT", "NO_LOOKUP", "DUNDERS", "EMPTY"})),
        version(one_of(kind, {"LEN", "KEYS", "HAS_KEY", "ABSENT", "NO_LOOKUP", "DUNDERS"})),
        of_tensors(one_of(kind, {"TENSOR", "SAME", "JOINT", "UNMARKED"})) {}
};
struct StepFacts {
  bool layout, version;
  StepFacts(const char* s) : layout(strcmp(s, "type")), version(one_of(s, {"item", "lookup", "key", "value"})) {}
};

// Asked once for each row of a table.
template <typename Facts, typename Row>
static const Facts& facts_of(const Row* row) {
  static std::unordered_map<const Row*, Facts> known;
  return known.try_emplace(row, row->name).first->second;
}

// What the shape of the program says about each node.  Children come after their parents, so go backwards.
void Program::settle_flags() {
  for (size_t i = nodes.size(); i-- > 0;) {
    Node& node = nodes[i];
    bool only_tensor = true;
    for (Check& check : node.checks) {
      const KindFacts& kind = facts_of<KindFacts>(check.kind);
      node.pinned |= kind.pins;
      node.wants_layout |= check.ordered || kind.layout;
      node.wants_version |= kind.version;
      only_tensor &= kind.of_tensors;
    }
    if (node.spread >= 0) node.wants_layout = node.wants_version = false;
    node.lone = node.passed && only_tensor && node.end == node.index + 1;
    for (size_t k = 0; node.argument && k < node.checks.size(); k++) {
      const Check& check = node.checks[k];
      bool tells = check.tensor ? !tensor_runs_code(*check.tensor)
                                : !strcmp(check.kind->name, "EQ") && simple_leaf(check.leaf.get());
      if (tells) looks.emplace_back((uint32_t)i, (uint32_t)k);
    }
    if (node.parent < 0) continue;
    Node& parent = nodes[node.parent];
    const StepFacts& step = facts_of<StepFacts>(node.step);
    parent.unsafe |= node.unsafe;
    parent.wants_layout |= step.layout;
    parent.wants_version |= step.version;
  }
}

bool Program::build_slots(PyObject* list, std::vector<int32_t>& to) {
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list); i++) {
    long given = PyLong_AsLong(PyList_GET_ITEM(list, i));
    int index = find_given(given);
    if (index < 0) return complain("no such node", PyList_GET_ITEM(list, i));
    if (nodes[index].slot < 0) nodes[index].slot = slot_count++;
    to.push_back(nodes[index].slot);
  }
  return true;
}

bool Program::build_distinct(PyObject* list) {
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list); i++) {
    int index = find_given(PyLong_AsLong(PyList_GET_ITEM(list, i)));
    if (index < 0) return complain("no such node", PyList_GET_ITEM(list, i));
    Node& node = nodes[index];
    std::vector<uint32_t>& group = node.passed ? distinct_arguments : distinct;
    if (node.distinct) continue;
    node.distinct = true;
    group.push_back(node.index);
  }
  addresses.resize(distinct.size());
  return true;
}

bool Program::build_joint(Node& node, uint32_t number) {
  Check& check = node.checks[number];
  if (node.slot < 0) node.slot = slot_count++;
  for (long given : check.numbers) {
    int other = find_given(given);
    if (other < 0) return false;
    if (nodes[other].slot < 0) nodes[other].slot = slot_count++;
    check.others.push_back(nodes[other].slot);
  }
  joint.emplace_back(node.index, number);
  return true;
}

bool Program::build(PyObject* node_list, PyObject* input_list, PyObject* external_list, PyObject* distinct_list,
                    PyObject* state_or_none) {
  if (!build_nodes(node_list)) return false;
  find_spread();
  if (!build_slots(input_list, inputs) || !build_slots(external_list, externals) ||
      !build_distinct(distinct_list))
    return false;
  handed_out = slot_count;
  for (Node& node : nodes) {
    for (size_t i = 0; i < node.checks.size(); i++) {
      Check& check = node.checks[i];
      if (!facts_of<KindFacts>(check.kind).of_tensors) continue;
      if (!strcmp(check.kind->name, "JOINT") && !build_joint(node, (uint32_t)i))
        return complain("JOINT names no node", node_list);
      if (!strcmp(check.kind->name, "UNMARKED")) {
        if (node.slot < 0) node.slot = slot_count++;
        unmarked.emplace_back(node.index, (uint32_t)i);
      }
      if (strcmp(check.kind->name, "SAME")) continue;
      int other = find_given(check.number);
      if (other < 0) return complain("SAME names no node", node_list);
      for (Node* both : {&node, &nodes[other]})
        if (both->slot < 0) both->slot = slot_count++;
      check.other = nodes[other].slot;
      same.emplace_back(node.index, (uint32_t)i);
    }
  }
  settle_flags();
  std::vector<bool> used((size_t)slot_count);
  std::vector<int32_t> asked(inputs);
  asked.insert(asked.end(), externals.begin(), externals.end());
  last_use.resize(asked.size());
  for (size_t i = asked.size(); i-- > 0;) {
    last_use[i] = !used[asked[i]];
    used[asked[i]] = true;
  }
  inputs_first = true;
  for (size_t i = 0; i < inputs.size(); i++) inputs_first = inputs_first && inputs[i] == (int32_t)i && last_use[i];
  if (state_or_none != Py_None) {
    const TorchState* snapshot = torch_state_of(state_or_none);
    if (!snapshot) return complain("state is a torch_state() or None", state_or_none);
    has_state = true;
    state = *snapshot;
    state_object = Ref::new_ref(state_or_none);
  }
  held.clear();
  lay_out();
  return true;
}

// ---- copying ----

static Check copy_of(const Check& check) {
  Check made;
  made.kind = check.kind;
  made.constant = check.constant;
  made.leaf = Ref::new_ref(check.leaf.get());
  made.number = check.number;
  made.other = check.other;
  made.numbers = check.numbers;
  made.others = check.others;
  made.objects = check.objects;
  made.ordered = check.ordered;
  made.remembers = check.remembers;
  made.leaves = check.leaves;
  made.names = Ref::new_ref(check.names.get());
  made.mro = check.mro;
  made.tensor = check.tensor;
  return made;
}

static Node copy_of(const Node& node) {
  Node made;
  made.index = node.index;
  made.end = node.end;
  made.given = node.given;
  made.parent = node.parent;
  made.step = node.step;
  made.key = node.key;
  made.own_key = Ref::new_ref(node.own_key.get());
  made.number = node.number;
  for (const Check& check : node.checks) made.checks.push_back(copy_of(check));
  made.slot = node.slot;
  made.argument = node.argument;
  made.passed = node.passed;
  made.local = node.local;
  made.spread = node.spread;
  made.lone = node.lone;
  made.pinned = node.pinned;
  made.wants_layout = node.wants_layout;
  made.wants_version = node.wants_version;
  made.unsafe = node.unsafe;
  made.distinct = node.distinct;
  made.room = node.room;
  made.needed = node.needed;
  return made;
}

void Program::copy(const Program& other) {
  nodes.reserve(other.nodes.size());
  for (const Node& node : other.nodes) nodes.push_back(copy_of(node));
  places = other.places;
  inputs = other.inputs;
  externals = other.externals;
  distinct_arguments = other.distinct_arguments;
  distinct = other.distinct;
  addresses.resize(distinct.size());
  inputs_first = other.inputs_first;
  last_use = other.last_use;
  same = other.same;
  joint = other.joint;
  unmarked = other.unmarked;
  looks = other.looks;
  slot_count = other.slot_count;
  handed_out = other.handed_out;
  has_state = other.has_state;
  state = other.state;
  tensor_checks = other.tensor_checks;
  for (const Ref& object : other.owned) owned.push_back(Ref::new_ref(object.get()));
  liveness = Ref::new_ref(other.liveness.get());  // a death that one hears of ends both
  callback = Ref::new_ref(other.callback.get());
  state_object = Ref::new_ref(other.state_object.get());
  cleared = other.cleared;
  lay_out();
}

}  // namespace framelift
