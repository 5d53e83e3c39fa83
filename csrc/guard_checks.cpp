// The kinds of checks: the native twin of guards.kinds.KINDS.  A test that no record can repeat clears `recordable`,
// and its node is then visited at every call.
#include <cstring>

#include "barrier.h"
#include "connections.h"
#include "guard.h"
#include "remembered.h"
#include "tensor_class.h"

namespace framelift {

static Outcome truth(bool holds) { return holds ? Outcome::Holds : Outcome::Fails; }

Outcome after_error() {
  if (!PyErr_ExceptionMatches(PyExc_Exception)) return Outcome::Error;
  PyErr_Clear();
  return Outcome::Fails;
}

// ---- preparing constants ----

static bool prepare_object(Program& p, Node&, Check& check, PyObject* value) {
  check.constant = value;
  return p.hold(value);
}

static bool prepare_type(Program& p, Node& node, Check& check, PyObject* value) {
  if (!PyType_Check(value)) {
    PyErr_SetString(PyExc_TypeError, "TYPE takes a class");
    return false;
  }
  return prepare_object(p, node, check, value);
}

static bool prepare_name(Program&, Node&, Check& check, PyObject* value) {
  if (!PyUnicode_CheckExact(value)) {
    PyErr_SetString(PyExc_TypeError, "NO_LOOKUP takes a name");
    return false;
  }
  PyObject* name = Py_NewRef(value);
  PyUnicode_InternInPlace(&name);
  check.leaf = Ref::steal(name);
  return true;
}

static bool prepare_names(Program&, Node&, Check& check, PyObject* value) {
  bool fits = PyTuple_Check(value) && PyTuple_GET_SIZE(value) > 0;
  for (Py_ssize_t i = 0; fits && i < PyTuple_GET_SIZE(value); i++)
    fits = PyUnicode_CheckExact(PyTuple_GET_ITEM(value, i));
  if (!fits) PyErr_SetString(PyExc_TypeError, "UNMARKED takes the names of a module and of its variables");
  check.leaf = Ref::new_ref(value);
  return fits;
}

static bool prepare_leaf(Program&, Node&, Check& check, PyObject* value) {
  check.leaf = Ref::new_ref(value);
  return true;
}

static bool prepare_number(Program&, Node&, Check& check, PyObject* value) {
  check.number = PyLong_AsLong(value);
  return !(check.number == -1 && PyErr_Occurred());
}

static bool prepare_keys(Program& p, Node&, Check& check, PyObject* value) {
  if (!PyTuple_Check(value)) {
    PyErr_SetString(PyExc_TypeError, "KEYS takes a tuple");
    return false;
  }
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(value); i++) {
    PyObject* key = PyTuple_GET_ITEM(value, i);
    if (!p.hold(key)) return false;
    check.objects.push_back(key);
    check.leaves.push_back(immutable_leaf(key));
  }
  check.number = (long)check.objects.size();
  return true;
}

static bool prepare_dunders(Program& p, Node&, Check& check, PyObject* value) {
  PyObject *mro, *pairs;
  if (!PyArg_ParseTuple(value, "O!O!", &PyTuple_Type, &mro, &PyTuple_Type, &pairs)) return false;
  check.names = Ref::steal(PyDict_New());
  if (!check.names) return false;
  check.mro = (size_t)PyTuple_GET_SIZE(mro);
  for (size_t i = 0; i < check.mro; i++) check.objects.push_back(PyTuple_GET_ITEM(mro, i));
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(pairs); i++) {
    PyObject *name, *object;
    if (!PyArg_ParseTuple(PyTuple_GET_ITEM(pairs, i), "UO", &name, &object)) return false;
    Ref position = Ref::steal(PyLong_FromSize_t(check.objects.size()));
    if (!position || PyDict_SetItem(check.names.get(), name, position.get()) < 0) return false;
    check.objects.push_back(object);
  }
  for (PyObject* object : check.objects)
    if (!p.hold(object)) return false;
  return true;
}

static bool prepare_nothing(Program&, Node&, Check&, PyObject*) { return true; }

// Tensors of the same facts share one check, which then stays in the processor's nearest cache.
static bool prepare_tensor(Program& p, Node& node, Check& check, PyObject* value) {
  std::unique_ptr<TensorCheck> parsed = parse_tensor_facts(value);
  if (!parsed || !p.hold((PyObject*)parsed->type)) return false;
  node.unsafe = node.unsafe || tensor_runs_code(*parsed);
  if (tensor_type_is_torchs(*parsed))
    check.leaf = Ref::new_ref(value);  // for explanations; a user's class is not kept alive
  auto& alike = (*p.tensor_checks)[parsed->keys ^ (parsed->size.empty() ? 0 : (uint64_t)parsed->size[0] << 32)];
  for (auto& known : alike)
    if (*known == *parsed) check.tensor = known.get();
  if (!check.tensor) {
    check.tensor = parsed.get();
    alike.push_back(std::move(parsed));
  }
  return true;
}

// Where CPython counts the registrations with abstract classes; NULL where its module keeps something else there.
static const uint64_t* registrations_at() {
  static const uint64_t* const at = []() -> const uint64_t* {
    PyObject* module = PyImport_ImportModule("_abc");  // kept for the life of the process
    Ref token = Ref::steal(module ? PyObject_CallMethod(module, "get_cache_token", nullptr) : nullptr);
    uint64_t now = token ? PyLong_AsUnsignedLongLong(token.get()) : 0;
    PyModuleDef* definition = module ? PyModule_GetDef(module) : nullptr;
    bool known = definition && definition->m_size == 16;  // a type, and the count
    const uint64_t* state = known ? (const uint64_t*)PyModule_GetState(module) : nullptr;
    bool found = !PyErr_Occurred() && state && now && state[1] == now;
    PyErr_Clear();
    return found ? state + 1 : nullptr;
  }();
  return at;
}

// A function that says of itself that its answer stays while no class is registered needs no call while the count
// stays.
static PyObject* order_function = nullptr;  // Python: (elements, value), whether a set iterates as these
// Sets of guards/special_names.py: names that matter whatever they hold, and names that never do.
static PyObject* tensor_key = nullptr;      // guards/kinds.py: in the place of any tensor among expected keys
static PyObject *always_behaviour, *never_behaviour;
static Connections connections({{"order_function", &order_function},
                                {"tensor_key", &tensor_key},
                                {"always_behaviour", &always_behaviour},
                                {"never_behaviour", &never_behaviour}});

// Whether it is `functools.partial(order_function, elements)`; notes the elements.
static bool asks_order(PyObject* function, Check& check) {
  static PyObject* const partial = Ref::steal(PyObject_GetAttrString(
      Ref::steal(PyImport_ImportModule("functools")).get(), "partial")).release();
  if (!order_function || (PyObject*)Py_TYPE(function) != partial) return false;
  // Safe, here and below: framelift's own partial objects.
  Ref asked = Ref::steal(PyObject_GetAttrString(function, "func"));
  Ref given = Ref::steal(PyObject_GetAttrString(function, "args"));
  if (asked.get() != order_function || !given || PyTuple_GET_SIZE(given.get()) != 1) return false;
  PyObject* elements = PyTuple_GET_ITEM(given.get(), 0);
  if (!PyTuple_CheckExact(elements)) return false;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(elements); i++)
    check.objects.push_back(PyTuple_GET_ITEM(elements, i));
  return true;
}

static bool prepare_call(Program&, Node& node, Check& check, PyObject* value) {
  PyObject *function, *text;
  if (!PyArg_ParseTuple(value, "OO", &function, &text)) return false;
  check.leaf = Ref::new_ref(function);
  check.names = Ref::new_ref(text);
  check.number = PyObject_HasAttrString((PyObject*)Py_TYPE(function), "holds_until_registration") && registrations_at();
  check.ordered = asks_order(function, check);
  check.remembers = is_remembered(function);
  if (!check.number && !check.ordered && !check.remembers) node.unsafe = true;
  return true;
}

static bool prepare_joint(Program&, Node&, Check& check, PyObject* value) {
  PyObject *function, *text, *others;
  if (!PyArg_ParseTuple(value, "OOO!", &function, &text, &PyTuple_Type, &others)) return false;
  check.leaf = Ref::new_ref(function);
  check.names = Ref::new_ref(text);
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(others); i++) {
    check.numbers.push_back(PyLong_AsLong(PyTuple_GET_ITEM(others, i)));
    if (PyErr_Occurred()) return false;
  }
  return true;
}

// ---- tests ----

static Outcome test_type(Visit& v, Check& check) {
  if ((PyObject*)Py_TYPE(v.value) != check.constant) return Outcome::Fails;
  if (v.node.spread >= 0) return Outcome::Holds;  // the record of its items tells
  v.layout_known = true;
  if (!v.trusted || type_is_assignable(Py_TYPE(v.value))) v.record_type();
  return Outcome::Holds;
}

static Outcome test_is(Visit& v, Check& check) { return truth(v.value == check.constant); }

static Outcome test_eq(Visit& v, Check& check) {
  Outcome same = indistinguishable(v.value, check.leaf.get(), &v.walk.ran_code);
  if (same == Outcome::Error) return after_error();
  if (same != Outcome::Holds || v.value == check.leaf.get()) return same;
  if (!immutable_leaf(v.value)) {
    v.recordable = false;
  } else if (!v.trusted) {  // from now on its address is proof: the program keeps it alive
    check.leaf = Ref::new_ref(v.value);
  }
  return same;
}

static Outcome test_code(Visit& v, Check& check) {
  if (!PyFunction_Check(v.value)) return Outcome::Fails;
  PyFunctionObject* function = (PyFunctionObject*)v.value;
  if (function->func_code != check.constant) return Outcome::Fails;
  v.load(&function->func_code, check.constant);
  return Outcome::Holds;
}

extern PyTypeObject* deque_type;  // guard_steps.cpp

// The length of the built-in part of a container, whatever a subclass makes of __len__.
static Py_ssize_t builtin_length(Visit& v) {
  PyObject* value = v.value;
  if (PyList_Check(value) || PyTuple_Check(value)) {
    if (PyList_Check(value) || !v.trusted) v.add(Op::Load, &((PyVarObject*)value)->ob_size, (uint64_t)Py_SIZE(value));
    return Py_SIZE(value);
  }
  if (PyDict_Check(value)) {
    if (!v.node.reading) v.recordable = false;
    return PyDict_Size(value);
  }
  if (PyAnySet_Check(value)) {
    PySetObject* set = (PySetObject*)value;
    v.add(Op::Load, &set->used, (uint64_t)set->used);
    return set->used;
  }
  if (PyUnicode_Check(value) || PyBytes_Check(value)) {
    if (!v.trusted) v.recordable = false;
    return PyUnicode_Check(value) ? PyUnicode_GET_LENGTH(value) : Py_SIZE(value);
  }
  v.recordable = false;
  if (PyByteArray_Check(value)) return PyByteArray_GET_SIZE(value);
  if (PyType_IsSubtype(Py_TYPE(value), deque_type)) return deque_type->tp_as_sequence->sq_length(value);
  if (!(Py_TYPE(value)->tp_flags & Py_TPFLAGS_IMMUTABLETYPE)) v.walk.ran_code = true;
  return PyObject_Size(value);
}

static Outcome test_len(Visit& v, Check& check) {
  Py_ssize_t length = v.node.spread >= 0 ? Py_SIZE(v.value) : builtin_length(v);  // of a tuple, by TYPE
  if (length < 0) return after_error();
  return truth(length == check.number);
}

static Outcome same_key(Visit& v, Check& check, size_t i, PyObject* key) {
  if (tensor_key && check.objects[i] == tensor_key) return truth(is_tensor(key));
  if (key == check.objects[i]) return Outcome::Holds;
  return check.leaves[i] ? indistinguishable(key, check.objects[i], &v.walk.ran_code) : Outcome::Fails;
}

// Whether an OrderedDict changes its number of the order when a key moves: asked once, of a dictionary made for it.
static bool ask_for_order_number() {
  if (PyODict_Type.tp_basicsize != (Py_ssize_t)(sizeof(PyDictObject) + 8 * sizeof(void*))) return false;
  Ref made = Ref::steal(PyDict_New());
  bool told = (bool)made;
  for (const char* key : {"a", "b", "c"}) told = told && PyDict_SetItemString(made.get(), key, Py_None) == 0;
  made = Ref::steal(told ? PyObject_CallOneArg((PyObject*)&PyODict_Type, made.get()) : nullptr);
  told = (bool)made;
  for (int last : {1, 0}) {
    uint64_t before = told ? *order_number_at(made.get()) : 0, version = told ? dict_version(made.get()) : 0;
    told = told && (bool)Ref::steal(PyObject_CallMethod(made.get(), "move_to_end", "si", "b", last)) &&
           *order_number_at(made.get()) - before - 1 < 8 && dict_version(made.get()) == version;
  }
  PyErr_Clear();
  return told;
}

// An OrderedDict keeps an order of its own, which changes without a trace in its version.
static Outcome test_ordered_keys(Visit& v, Check& check) {
  static const bool told = ask_for_order_number();
  CollectorPause pause;
  if (check.objects.size() > 1) {
    if (told)
      v.add(Op::Load, order_number_at(v.value), *order_number_at(v.value));
    else
      v.recordable = false;
  }
  if (!has_leaf_keys(v.value)) v.walk.ran_code = true;  // its iterator looks every key up
  Outcome outcome = Outcome::Holds;
  Ref iterator = Ref::steal(PyODict_Type.tp_iter(v.value));
  if (!iterator) return after_error();
  size_t i = 0;
  while (Ref key = Ref::steal(Py_TYPE(iterator.get())->tp_iternext(iterator.get()))) {
    outcome = i < check.objects.size() ? same_key(v, check, i++, key.get()) : Outcome::Fails;
    if (outcome != Outcome::Holds) break;
  }
  if (PyErr_Occurred()) return after_error();
  return outcome == Outcome::Holds ? truth(i == check.objects.size()) : outcome;
}

static Outcome test_keys(Visit& v, Check& check) {
  if (!PyDict_Check(v.value)) return Outcome::Fails;
  if (!v.node.reading && v.node.spread < 0) v.recordable = false;
  if (PyODict_Check(v.value)) return test_ordered_keys(v, check);
  if ((size_t)PyDict_Size(v.value) != check.objects.size()) return Outcome::Fails;
  Py_ssize_t position = 0;
  PyObject* key;
  for (size_t i = 0; PyDict_Next(v.value, &position, &key, nullptr); i++) {
    if (i >= check.objects.size()) return Outcome::Fails;
    Outcome same = same_key(v, check, i, key);
    if (same == Outcome::Error) return after_error();
    if (same != Outcome::Holds) return same;
  }
  return Outcome::Holds;
}

// This very object is a key, not merely an equal one.
static Outcome test_has_key(Visit& v, Check& check) {
  if (!PyDict_Check(v.value)) return Outcome::Fails;
  if (!v.node.reading) v.recordable = false;
  Py_ssize_t position = 0;
  PyObject* key;
  while (PyDict_Next(v.value, &position, &key, nullptr))
    if (key == check.leaf.get()) return Outcome::Holds;
  return Outcome::Fails;
}

static Outcome test_absent(Visit& v, Check& check) {
  int contains;
  if (PyDict_Check(v.value)) {
    if (!v.node.reading) v.recordable = false;
    v.before_lookup(v.node, v.value, check.leaf.get());
    contains = PyDict_Contains(v.value, check.leaf.get());
  } else {
    v.recordable = false;
    v.walk.ran_code = true;
    contains = PySequence_Contains(v.value, check.leaf.get());
  }
  return contains < 0 ? after_error() : truth(!contains);
}

static Outcome test_no_lookup(Visit& v, Check& check) {
  if (!PyType_Check(v.value)) return Outcome::Fails;
  if (!v.node.reading) v.recordable = false;
  return truth(!_PyType_Lookup((PyTypeObject*)v.value, check.leaf.get()));
}

static bool called_or_bound(PyObject* value) { return Py_TYPE(value)->tp_call || Py_TYPE(value)->tp_descr_get; }

// Whether a name begins and ends with two underscores.  No other is behaviour.
static bool is_special(PyObject* name) {
  Py_ssize_t size = PyUnicode_CheckExact(name) ? PyUnicode_GET_LENGTH(name) : 0;
  if (size < 5) return false;
  for (Py_ssize_t i : {(Py_ssize_t)0, (Py_ssize_t)1, size - 2, size - 1})
    if (PyUnicode_READ_CHAR(name, i) != '_') return false;
  return true;
}

// Whether C code may do something else because a class has this entry.
static bool is_behaviour(PyObject* name, PyObject* value) {
  if (!always_behaviour || !is_special(name)) return false;
  if (PySet_Contains(never_behaviour, name) == 1) return false;
  return PySet_Contains(always_behaviour, name) == 1 || value == Py_None || called_or_bound(value);
}

// What the first Python-made class of an MRO that has a name holds under it; borrowed.  Null: none, or an error.
static PyObject* first_entry(PyObject* mro, PyObject* name) {
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(mro); i++) {
    PyTypeObject* type = (PyTypeObject*)PyTuple_GET_ITEM(mro, i);
    if (!PyType_Check((PyObject*)type) || !is_heap_type(type)) continue;
    PyObject* object = PyDict_GetItemWithError(type->tp_dict, name);
    if (object || PyErr_Occurred()) return object;
  }
  return nullptr;
}

// By name, what the first in the MRO holds: that hides the behaviour of others, also where it is none.
static PyObject* behaviour_of(PyObject*, PyObject* cls) {
  if (!PyType_Check(cls)) return PyErr_Format(PyExc_TypeError, "behaviour_of takes a class");
  Ref found = Ref::steal(PyDict_New()), mro = Ref::new_ref(((PyTypeObject*)cls)->tp_mro);
  if (!found || !mro) return found.release();
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(mro.get()); i++) {
    PyTypeObject* type = (PyTypeObject*)PyTuple_GET_ITEM(mro.get(), i);
    if (!PyType_Check((PyObject*)type) || !is_heap_type(type)) continue;
    Py_ssize_t position = 0;
    PyObject *name, *object;
    while (PyDict_Next(type->tp_dict, &position, &name, &object)) {
      if (!is_behaviour(name, object)) continue;
      PyObject* first = i ? first_entry(mro.get(), name) : object;
      if (!first || !PyDict_SetDefault(found.get(), name, first)) return nullptr;
    }
  }
  return found.release();
}

// The same entry: one object, or an equal one where nothing can change it.
static Outcome same_entry(Visit& v, PyObject* entry, PyObject* expected) {
  if (entry == expected || !immutable_leaf(expected)) return truth(entry == expected);
  return indistinguishable(entry, expected, &v.walk.ran_code);
}

static Outcome test_dunders(Visit& v, Check& check) {
  if (!PyType_Check(v.value)) return Outcome::Fails;
  if (!v.node.reading) v.recordable = false;
  PyObject* mro = ((PyTypeObject*)v.value)->tp_mro;
  if (!mro || (size_t)PyTuple_GET_SIZE(mro) != check.mro) return Outcome::Fails;
  size_t missing = check.objects.size() - check.mro;
  std::vector<bool> seen(check.objects.size());
  for (size_t i = 0; i < check.mro; i++) {
    PyTypeObject* type = (PyTypeObject*)PyTuple_GET_ITEM(mro, i);
    if ((PyObject*)type != check.objects[i]) return Outcome::Fails;
    if (!PyType_Check((PyObject*)type) || !is_heap_type(type)) continue;
    Py_ssize_t position = 0;
    PyObject *name, *object;
    while (PyDict_Next(type->tp_dict, &position, &name, &object)) {
      if (!is_special(name)) continue;
      PyObject* expected = PyDict_GetItemWithError(check.names.get(), name);
      if (!expected && PyErr_Occurred()) return after_error();
      if (!expected && is_behaviour(name, object)) return Outcome::Fails;
      if (!expected) continue;
      size_t place = PyLong_AsSize_t(expected);
      if (seen[place]) continue;  // the first in the MRO counts
      Outcome same = same_entry(v, object, check.objects[place]);
      if (same != Outcome::Holds) return same == Outcome::Error ? after_error() : same;
      seen[place] = true;
      missing--;
    }
  }
  return truth(missing == 0);
}

static Outcome test_empty(Visit& v, Check&) {
  if (!PyCell_Check(v.value)) return Outcome::Fails;
  if (PyCell_GET(v.value)) return Outcome::Fails;
  v.load(&((PyCellObject*)v.value)->ob_ref, nullptr);
  return Outcome::Holds;
}

static Outcome test_tensor(Visit& v, Check& check) {
  if (!tensor_holds(*check.tensor, v.value)) return Outcome::Fails;
  v.layout_known = true;  // the class is one of the facts
  Op op = v.node.lone ? Op::ArgumentTensor : Op::Tensor;
  v.add(op, v.value, (uint64_t)check.tensor, v.node.local);
  return Outcome::Holds;
}

static Outcome test_same(Visit&, Check&) { return Outcome::Holds; }  // looked at when all values are known

// What abstract classes remember: members of their sets, at their places there.  `held` lists sets and members; None
// is for all members.
static bool add_held(Visit& v, PyObject* answers) {
  Ref held = Ref::steal(PyObject_GetAttrString(answers, "held"));  // framelift's own object, which keeps them alive
  if (!held || !PyList_CheckExact(held.get())) return false;
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(held.get()); i++) {
    PyObject* place = PyList_GET_ITEM(held.get(), i);
    PySetObject* set = (PySetObject*)PyTuple_GET_ITEM(place, 0);
    v.add(Op::Load, &set->table, (uint64_t)set->table);
    v.add(Op::Load, &set->mask, (uint64_t)set->mask);
    if (Py_IsNone(PyTuple_GET_ITEM(place, 1))) v.add(Op::Load, &set->fill, (uint64_t)set->fill);
    for (Py_ssize_t k = 0; k <= set->mask; k++)
      if (set->table[k].key == PyTuple_GET_ITEM(place, 1))
        v.add(Op::Load, &set->table[k].key, (uint64_t)PyTuple_GET_ITEM(place, 1));
  }
  return true;
}

static Outcome test_call(Visit& v, Check& check) {
  if (check.ordered && set_iterates_as(v.value, check.objects)) {
    v.add(Op::Elements, v.value, (uint64_t)&check);
    return Outcome::Holds;
  }
  if (check.remembers && is_as_remembered(check.leaf.get(), v.value)) {
    v.add(Op::Held, v.value, (uint64_t)check.leaf.get());
    return Outcome::Holds;
  }
  // Equal elements may do as well; what a tensor holds is remembered from now on.
  if (check.ordered || check.remembers) v.recordable = false;
  v.walk.ran_code = true;
  uint64_t before = check.number ? *registrations_at() : 0;
  Ref answer = Ref::steal(PyObject_CallOneArg(check.leaf.get(), v.value));
  int holds = answer ? PyObject_IsTrue(answer.get()) : -1;
  if (check.number) v.add(Op::Load, registrations_at(), before);
  if (check.number && holds > 0 && !add_held(v, check.leaf.get())) return after_error();
  return holds < 0 ? after_error() : truth(holds);
}

// ---- constants as Python knows them ----

static Ref held(const Program& p, PyObject* object) { return Ref::new_ref(p.dead() || !object ? Py_None : object); }
static Ref show_object(const Program& p, const Check& check) { return held(p, check.constant); }
static Ref show_leaf(const Program&, const Check& check) {
  return Ref::new_ref(check.leaf ? check.leaf.get() : Py_None);
}
static Ref show_number(const Program&, const Check& check) { return Ref::steal(PyLong_FromLong(check.number)); }
static Ref show_call(const Program&, const Check& check) {
  return Ref::steal(PyTuple_Pack(2, check.leaf.get(), check.names.get()));
}
static Ref show_joint(const Program&, const Check& check) {
  Ref others = make_tuple((Py_ssize_t)check.numbers.size(),
                          [&](Py_ssize_t i) { return Ref::steal(PyLong_FromLong(check.numbers[(size_t)i])); });
  return Ref::steal(others ? PyTuple_Pack(3, check.leaf.get(), check.names.get(), others.get()) : nullptr);
}
static Ref show_nothing(const Program&, const Check&) { return Ref::new_ref(Py_None); }

static Ref show_keys(const Program& p, const Check& check) {
  return make_tuple((Py_ssize_t)check.objects.size(), [&](Py_ssize_t i) {
    PyObject* key = check.objects[(size_t)i];
    return check.leaves[(size_t)i] ? Ref::new_ref(key) : held(p, key);
  });
}

// The names alone: who asks wants to know which came or went.
static Ref show_dunders(const Program&, const Check& check) {
  Ref names = Ref::steal(PyDict_Keys(check.names.get()));
  return Ref::steal(names ? Py_BuildValue("(nO)", (Py_ssize_t)check.mro, names.get()) : nullptr);
}

static const Kind kKinds[] = {
    {"TYPE", prepare_type, test_type, show_object},
    {"IS", prepare_object, test_is, show_object},
    {"EQ", prepare_leaf, test_eq, show_leaf},
    {"CODE", prepare_object, test_code, show_object},
    {"LEN", prepare_number, test_len, show_number},
    {"KEYS", prepare_keys, test_keys, show_keys},
    {"HAS_KEY", prepare_leaf, test_has_key, show_leaf},
    {"ABSENT", prepare_leaf, test_absent, show_leaf},
    {"NO_LOOKUP", prepare_name, test_no_lookup, show_leaf},
    {"DUNDERS", prepare_dunders, test_dunders, show_dunders},
    {"EMPTY", prepare_nothing, test_empty, show_nothing},
    {"TENSOR", prepare_tensor, test_tensor, show_leaf},
    {"SAME", prepare_number, test_same, show_number},
    {"CHECK", prepare_call, test_call, show_call},
    {"JOINT", prepare_joint, test_same, show_joint},
    {"UNMARKED", prepare_names, test_same, show_leaf},
};

static MethodTable methods({
    method<behaviour_of, METH_O>("behaviour_of",
                                 "behaviour_of(cls): the behaviour (special_names.py) that its classes define"),
});

bool init_kinds(PyObject* module) { return add_functions(module, methods); }

const Kind* find_kind(const char* name) {
  for (const Kind& kind : kKinds)
    if (!strcmp(kind.name, name)) return &kind;
  return nullptr;
}

Ref kind_names() { return names_of(kKinds); }

}  // namespace framelift
