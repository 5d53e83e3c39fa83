// From guards to the nodes of a guard program: shared beginnings of paths become one tree, in the order of evaluation.
// In C, since a capture has thousands of guards (guards/native_program.py).
#include <algorithm>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "barrier.h"
#include "frames.h"
#include "guard_log.h"
#include "paths.h"
#include "reference.h"
#include "state.h"

namespace framelift {

namespace {

struct Names {
  PyObject *python_type = interned("python_type"), *tensor = interned("TENSOR"), *type = interned("TYPE");
  PyObject *same = interned("SAME"), *joint = interned("JOINT"), *constant = interned("const"), *is = interned("IS");
  PyObject *eq = interned("EQ"), *len = interned("LEN"), *keys = interned("KEYS"), *code = interned("CODE");
  PyObject *lookup = interned("lookup"), *dict = interned("dict"), *locals = interned("<locals>");
};

const Names& names() {
  static const Names made;
  return made;
}

// One guard, taken apart.
struct Predicate {
  Ref kind, value, line;
  long rank = 0;
};

// A node while the tree grows.
struct Draft {
  Ref origin;
  PathParts path = {};  // of `origin`
  int parent = -1, index = -1;
  std::vector<int> children;
  std::vector<Predicate> guards;
};

class Tree {
 public:
  explicit Tree(PyObject* ranks) : ranks_(ranks), known_(Ref::steal(PyDict_New())) {}

  // All of these return false, or -1, with an exception set.
  bool add_guards(PyObject* guards);
  Ref add_all(PyObject* origins);  // the numbers of their drafts
  bool settle();                   // the order of nodes, and of the guards of each
  Ref nodes() const;
  Ref lines() const;
  Ref indices(PyObject* numbers) const;

 private:
  int add(PyObject* origin);
  bool add_guard(PyObject* guard);
  bool settle_guards(Draft& draft);
  int index_of(PyObject* origin) const;
  Ref constant(const Predicate& guard) const;
  Ref checks(const Draft& draft) const;

  PyObject* ranks_;
  Ref known_;  // origin -> number of its draft
  std::vector<Draft> drafts_;
  std::vector<int> roots_, order_;
};

int Tree::add(PyObject* origin) {
  PyObject* found = PyDict_GetItemWithError(known_.get(), origin);
  if (found) return (int)PyLong_AsLong(found);
  if (PyErr_Occurred()) return -1;
  PathParts path;
  if (!take_apart(origin, &path)) return -1;
  int parent = path.base ? add(path.base) : -1;
  if (parent < 0 && path.base) return -1;
  int number = (int)drafts_.size();
  Ref at = Ref::steal(PyLong_FromLong(number));
  if (!at || PyDict_SetItem(known_.get(), origin, at.get()) < 0) return -1;
  drafts_.emplace_back();
  drafts_.back().origin = Ref::new_ref(origin);
  drafts_.back().path = path;
  drafts_.back().parent = parent;
  (parent < 0 ? roots_ : drafts_[(size_t)parent].children).push_back(number);
  return number;
}

bool Tree::add_guard(PyObject* guard) {
  GuardParts parts;
  if (!take_apart(guard, &parts)) return false;
  Ref origin = Ref::new_ref(parts.origin);
  Predicate taken{Ref::new_ref(parts.kind), Ref::new_ref(parts.value), Ref::new_ref(parts.line)};
  PyObject* rank = PyDict_GetItemWithError(ranks_, taken.kind.get());
  if (!rank) {
    if (!PyErr_Occurred()) PyErr_SetObject(PyExc_KeyError, taken.kind.get());
    return false;
  }
  taken.rank = PyLong_AsLong(rank);
  int number = add(origin.get());
  if (number < 0) return false;
  if (is_text(taken.kind.get(), names().same) && add(taken.value.get()) < 0) return false;
  if (is_text(taken.kind.get(), names().joint)) {
    if (!PyTuple_Check(taken.value.get()) || PyTuple_GET_SIZE(taken.value.get()) != 3) {
      PyErr_SetString(PyExc_ValueError, "JOINT takes a check, words and origins");
      return false;
    }
    if (!add_all(PyTuple_GET_ITEM(taken.value.get(), 2))) return false;
  }
  drafts_[(size_t)number].guards.push_back(std::move(taken));
  return true;
}

bool Tree::add_guards(PyObject* guards) {
  if (!known_) return false;
  Ref all = Ref::steal(PySequence_Fast(guards, "guards are a sequence"));
  for (Py_ssize_t i = 0; all && i < PySequence_Fast_GET_SIZE(all.get()); i++)
    if (!add_guard(PySequence_Fast_GET_ITEM(all.get(), i))) return false;
  return (bool)all;
}

Ref Tree::add_all(PyObject* origins) {
  Ref all = Ref::steal(PySequence_Fast(origins, "origins are a sequence"));
  Ref numbers = Ref::steal(PyList_New(0));
  for (Py_ssize_t i = 0; all && numbers && i < PySequence_Fast_GET_SIZE(all.get()); i++) {
    int number = add(PySequence_Fast_GET_ITEM(all.get(), i));
    if (number < 0 || !append(numbers, Ref::steal(PyLong_FromLong(number)))) return nullptr;
  }
  return all ? std::move(numbers) : Ref();
}

// A node's guards in order; a tensor's facts name its class already.
bool Tree::settle_guards(Draft& draft) {
  std::vector<Ref> classes;
  for (const Predicate& guard : draft.guards)
    if (is_text(guard.kind.get(), names().tensor)) {
      classes.push_back(Ref::steal(PyObject_GetAttr(guard.value.get(), names().python_type)));
      if (!classes.back()) return false;
    }
  for (size_t i = draft.guards.size(); i-- > 0 && !classes.empty();) {
    if (!is_text(draft.guards[i].kind.get(), names().type)) continue;
    for (const Ref& cls : classes) {
      int same = PyObject_RichCompareBool(draft.guards[i].value.get(), cls.get(), Py_EQ);
      if (same < 0) return false;
      if (!same) continue;
      draft.guards.erase(draft.guards.begin() + (ptrdiff_t)i);
      break;
    }
  }
  std::stable_sort(draft.guards.begin(), draft.guards.end(),
                   [](const Predicate& a, const Predicate& b) { return a.rank < b.rank; });
  return true;
}

// The order of evaluation: arguments' own checks, what hangs on arguments, then constants.
bool Tree::settle() {
  struct Root {
    int number;
    bool is_constant, has_children;
    long rank;
    auto urgency() const { return std::tuple(is_constant, has_children, rank); }
  };
  std::vector<Root> roots;
  for (int number : roots_) {
    const Draft& draft = drafts_[(size_t)number];
    long rank = 99;
    for (const Predicate& guard : draft.guards) rank = std::min(rank, guard.rank);
    roots.push_back({number, is_text(draft.path.step, names().constant), !draft.children.empty(), rank});
  }
  std::stable_sort(roots.begin(), roots.end(),
                   [](const Root& a, const Root& b) { return a.urgency() > b.urgency(); });
  std::vector<int> pending;
  for (const Root& root : roots) pending.push_back(root.number);
  while (!pending.empty()) {
    Draft& draft = drafts_[(size_t)pending.back()];
    draft.index = (int)order_.size();
    order_.push_back(pending.back());
    pending.pop_back();
    pending.insert(pending.end(), draft.children.rbegin(), draft.children.rend());
    if (draft.guards.size() > 1 && !settle_guards(draft)) return false;
  }
  return true;
}

int Tree::index_of(PyObject* origin) const {
  PyObject* found = PyDict_GetItemWithError(known_.get(), origin);
  if (!found && !PyErr_Occurred()) PyErr_SetObject(PyExc_KeyError, origin);
  return found ? drafts_[(size_t)PyLong_AsLong(found)].index : -1;
}

// What a guard compares with; where that is at other origins, their nodes.
Ref Tree::constant(const Predicate& guard) const {
  PyObject* value = guard.value.get();
  auto place = [&](PyObject* origin) {
    int index = index_of(origin);
    return Ref::steal(index < 0 ? nullptr : PyLong_FromLong(index));
  };
  if (is_text(guard.kind.get(), names().same)) return place(value);
  if (!is_text(guard.kind.get(), names().joint)) return Ref::new_ref(value);
  Ref others = Ref::steal(PySequence_Fast(PyTuple_GET_ITEM(value, 2), "origins are a sequence"));
  if (!others) return nullptr;
  Ref indices = make_tuple(PySequence_Fast_GET_SIZE(others.get()),
                           [&](Py_ssize_t i) { return place(PySequence_Fast_GET_ITEM(others.get(), i)); });
  if (!indices) return nullptr;
  return Ref::steal(PyTuple_Pack(3, PyTuple_GET_ITEM(value, 0), PyTuple_GET_ITEM(value, 1), indices.get()));
}

Ref Tree::checks(const Draft& draft) const {
  return make_tuple((Py_ssize_t)draft.guards.size(), [&](Py_ssize_t i) {
    const Predicate& guard = draft.guards[(size_t)i];
    Ref value = constant(guard);
    return Ref::steal(value ? PyTuple_Pack(2, guard.kind.get(), value.get()) : nullptr);
  });
}

Ref Tree::nodes() const {
  Ref list = Ref::steal(PyList_New(0));
  for (int number : order_) {
    const Draft& draft = drafts_[(size_t)number];
    Ref parent = Ref::steal(PyLong_FromLong(draft.parent < 0 ? -1 : drafts_[(size_t)draft.parent].index));
    Ref held = checks(draft);
    if (!parent || !held) return nullptr;
    if (!append(list, Ref::steal(PyTuple_Pack(4, parent.get(), draft.path.step, draft.path.key, held.get()))))
      return nullptr;
  }
  return list;
}

// Most nodes have one guard, and a line makes many: their tuples are shared.
Ref Tree::lines() const {
  Ref list = Ref::steal(PyList_New(0));
  std::unordered_map<PyObject*, Ref> of_one;
  for (int number : order_) {
    const std::vector<Predicate>& guards = drafts_[(size_t)number].guards;
    Ref* shared = guards.size() == 1 ? &of_one[guards[0].line.get()] : nullptr;
    Ref row = shared && *shared
                  ? Ref::new_ref(shared->get())
                  : make_tuple((Py_ssize_t)guards.size(),
                               [&](Py_ssize_t i) { return Ref::new_ref(guards[(size_t)i].line.get()); });
    if (shared && !*shared) *shared = Ref::new_ref(row.get());
    if (!append(list, std::move(row))) return nullptr;
  }
  return list;
}

Ref Tree::indices(PyObject* numbers) const {
  Ref list = Ref::steal(PyList_New(0));
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(numbers); i++) {
    long number = PyLong_AsLong(PyList_GET_ITEM(numbers, i));
    if (!append(list, Ref::steal(PyLong_FromLong(drafts_[(size_t)number].index)))) return nullptr;
  }
  return list;
}

PyObject* guard_tree(PyObject*, PyObject* args) {
  PyObject *guards, *origins[3], *ranks;
  if (!PyArg_ParseTuple(args, "OOOOO!", &guards, &origins[0], &origins[1], &origins[2], &PyDict_Type, &ranks))
    return nullptr;
  Tree tree(ranks);
  if (!tree.add_guards(guards)) return nullptr;
  Ref numbers[3];
  for (int i = 0; i < 3; i++)
    if (!(numbers[i] = tree.add_all(origins[i]))) return nullptr;
  if (!tree.settle()) return nullptr;
  Ref nodes = tree.nodes(), lines = tree.lines();
  Ref found[3];
  for (int i = 0; i < 3; i++)
    if (!(found[i] = tree.indices(numbers[i].get()))) return nullptr;
  if (!nodes || !lines) return nullptr;
  return PyTuple_Pack(5, nodes.get(), lines.get(), found[0].get(), found[1].get(), found[2].get());
}

// Whether a guard tells what may be another at the next call: a number, a length, the keys of a dictionary, the sizes
// of a tensor, a function, a class that a function makes.  -1 with an exception set.
int tells(const GuardParts& guard) {
  const Names& n = names();
  PyObject *kind = guard.kind, *value = guard.value;
  if (is_text(kind, n.eq))
    return PyLong_CheckExact(value) || PyFloat_CheckExact(value) || PyTuple_Check(value) || PySlice_Check(value);
  if (is_text(kind, n.len) || is_text(kind, n.code) || is_text(kind, n.tensor)) return 1;
  bool is_identity = is_text(kind, n.is);
  if ((is_identity || is_text(kind, n.type)) && PyType_Check(value))
    return is_heap_type((PyTypeObject*)value)
               ? PyUnicode_Contains(((PyHeapTypeObject*)value)->ht_qualname, n.locals)
               : 0;
  bool is_function = is_identity && PyFunction_Check(value);
  if (!is_function && !is_text(kind, n.keys)) return 0;
  PathParts path;
  if (!take_apart(guard.origin, &path)) return -1;
  return !is_text(path.step, is_function ? n.lookup : n.dict);
}

PyObject* telling_guards(PyObject*, PyObject* guards) {
  Ref all = Ref::steal(PySequence_Fast(guards, "guards are a sequence")), found = Ref::steal(PyList_New(0));
  for (Py_ssize_t i = 0; all && found && i < PySequence_Fast_GET_SIZE(all.get()); i++) {
    PyObject* guard = PySequence_Fast_GET_ITEM(all.get(), i);
    GuardParts parts;
    int told = take_apart(guard, &parts) ? tells(parts) : -1;
    if (told < 0 || (told && PyList_Append(found.get(), guard) < 0)) return nullptr;
  }
  return all ? found.release() : nullptr;
}

MethodTable functions({
    method<telling_guards, METH_O>("telling_guards",
                                   "telling_guards(guards): those that tell what may be another at the next call"),
    method<guard_tree, METH_VARARGS>(
        "guard_tree",
        "guard_tree(guards, inputs, externals, distinct, rank of each kind): the nodes of a program and the lines of "
        "their guards, and the nodes of the three lists of origins."),
});

}  // namespace

bool init_guard_tree(PyObject* module) { return add_functions(module, functions); }

}  // namespace framelift
