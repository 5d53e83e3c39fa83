// The Python face of guard programs: _core.GuardProgram, and the sets of names that tests compare with the Python tables.
#include "guard.h"

namespace framelift {

static Program* program_of(PyObject* self) { return ((GuardProgramObject*)self)->program; }

static PyObject* failure_tuple(int node, int check) { return Py_BuildValue("(ii)", node, check); }

static PyObject* tuple_of(PyObject* const* items, Py_ssize_t n) {
  PyObject* tuple = PyTuple_New(n);
  for (Py_ssize_t i = 0; tuple && i < n; i++) PyTuple_SET_ITEM(tuple, i, Py_XNewRef(items[i]));
  return tuple;
}

bool verify(GuardProgramObject* program, PyObject* const* locals, Py_ssize_t count, Outcome outcome, int node, int check) {
  if (program->verifier == Py_None) return true;
  PyObject* arguments = tuple_of(locals, count);
  PyObject* failure = outcome == Outcome::Holds ? Py_NewRef(Py_None) : failure_tuple(node, check);
  PyObject* answer = nullptr;
  if (arguments && failure) answer = PyObject_CallFunctionObjArgs(program->verifier, arguments, failure, nullptr);
  Py_XDECREF(arguments);
  Py_XDECREF(failure);
  Py_XDECREF(answer);
  return answer != nullptr;
}

static PyObject* create(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
  static const char* names[] = {"nodes", "inputs", "externals", "distinct", "state", nullptr};
  PyObject *nodes, *inputs, *externals, *distinct, *state = Py_None;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!O!O!O!|O", (char**)names, &PyList_Type, &nodes, &PyList_Type, &inputs,
                                   &PyList_Type, &externals, &PyList_Type, &distinct, &state))
    return nullptr;
  GuardProgramObject* self = (GuardProgramObject*)type->tp_alloc(type, 0);
  if (!self) return nullptr;
  self->info = Py_NewRef(Py_None);
  self->verifier = Py_NewRef(Py_None);
  self->program = new Program();
  if (!self->program->build(nodes, inputs, externals, distinct, state)) Py_CLEAR(self);
  return (PyObject*)self;
}

static int traverse(PyObject* self, visitproc visit, void* arg) {
  GuardProgramObject* object = (GuardProgramObject*)self;
  Py_VISIT(object->info);
  Py_VISIT(object->verifier);
  return object->program ? object->program->traverse(visit, arg) : 0;
}

static int clear(PyObject* self) {
  GuardProgramObject* object = (GuardProgramObject*)self;
  Py_CLEAR(object->info);
  Py_CLEAR(object->verifier);
  if (object->program) object->program->clear();
  return 0;
}

static void dealloc(PyObject* self) {
  PyObject_GC_UnTrack(self);
  clear(self);
  delete program_of(self);
  Py_TYPE(self)->tp_free(self);
}

// Evaluate on a tuple of locals.  `slots` receives owned references when the program holds.
static Outcome evaluate(PyObject* self, PyObject* locals, std::vector<PyObject*>& slots, int* node, int* check) {
  if (!PyTuple_Check(locals)) {
    PyErr_SetString(PyExc_TypeError, "locals are a tuple");
    return Outcome::Error;
  }
  slots.assign((size_t)program_of(self)->slot_count, nullptr);
  return program_of(self)->check(&PyTuple_GET_ITEM(locals, 0), PyTuple_GET_SIZE(locals), slots.data(), node, check);
}

static void release(std::vector<PyObject*>& slots) {
  for (PyObject* value : slots) Py_XDECREF(value);
}

static PyObject* check(PyObject* self, PyObject* locals) {
  std::vector<PyObject*> slots;
  int node, number;
  Outcome outcome = evaluate(self, locals, slots, &node, &number);
  release(slots);
  if (outcome == Outcome::Error) return nullptr;
  if (outcome == Outcome::Holds) Py_RETURN_NONE;
  return failure_tuple(node, number);
}

static PyObject* failures(PyObject* self, PyObject* locals) {
  if (!PyTuple_Check(locals)) {
    PyErr_SetString(PyExc_TypeError, "locals are a tuple");
    return nullptr;
  }
  std::vector<std::pair<int, int>> found;
  if (!program_of(self)->all_failures(&PyTuple_GET_ITEM(locals, 0), PyTuple_GET_SIZE(locals), found)) return nullptr;
  PyObject* list = PyList_New((Py_ssize_t)found.size());
  for (size_t i = 0; list && i < found.size(); i++) {
    PyObject* pair = failure_tuple(found[i].first, found[i].second);
    if (!pair) Py_CLEAR(list);
    else PyList_SET_ITEM(list, (Py_ssize_t)i, pair);
  }
  return list;
}

static PyObject* picked(const std::vector<int32_t>& which, const std::vector<PyObject*>& slots) {
  PyObject* tuple = PyTuple_New((Py_ssize_t)which.size());
  for (size_t i = 0; tuple && i < which.size(); i++) PyTuple_SET_ITEM(tuple, (Py_ssize_t)i, Py_NewRef(slots[which[i]]));
  return tuple;
}

static PyObject* values(PyObject* self, PyObject* locals) {
  std::vector<PyObject*> slots;
  int node, number;
  Outcome outcome = evaluate(self, locals, slots, &node, &number);
  PyObject* result = nullptr;
  if (outcome == Outcome::Fails) PyErr_Format(PyExc_ValueError, "the program does not hold: node %d, check %d", node, number);
  if (outcome == Outcome::Holds)
    result = Py_BuildValue("(NN)", picked(program_of(self)->inputs, slots), picked(program_of(self)->externals, slots));
  release(slots);
  return result;
}

static PyObject* fetch(PyObject* self, PyObject* args) {
  unsigned int node;
  PyObject* locals;
  if (!PyArg_ParseTuple(args, "IO!", &node, &PyTuple_Type, &locals)) return nullptr;
  bool missing;
  PyObject* value = program_of(self)->fetch(node, &PyTuple_GET_ITEM(locals, 0), PyTuple_GET_SIZE(locals), &missing);
  if (missing) PyErr_SetString(PyExc_LookupError, "the path leads nowhere");
  return value;
}

static PyObject* describe(PyObject* self, PyObject* number) {
  unsigned long given = PyLong_AsUnsignedLong(number);
  if (given == (unsigned long)-1 && PyErr_Occurred()) return nullptr;
  return program_of(self)->describe((uint32_t)given);
}

static PyObject* stats(PyObject* self, PyObject*) {
  Program& p = *program_of(self);
  return Py_BuildValue("{s:K,s:K,s:K,s:K,s:K,s:n,s:n}", "checks", p.counters.checks, "unchanged", p.counters.unchanged,
                       "visits", p.counters.visits, "restarts", p.counters.restarts, "layouts", p.counters.layouts,
                       "nodes", (Py_ssize_t)p.nodes.size(), "records", (Py_ssize_t)p.records.size());
}

static PyObject* get_dead(PyObject* self, void*) { return PyBool_FromLong(program_of(self)->dead()); }

static PyObject* get_state(PyObject* self, void*) {
  PyObject* state = program_of(self)->state_object;
  return Py_NewRef(state ? state : Py_None);
}

static PyObject* get_inputs(PyObject* self, void*) {
  Program& p = *program_of(self);
  std::vector<uint32_t> node_of((size_t)p.slot_count);
  for (const Node& node : p.nodes)
    if (node.slot >= 0) node_of[(size_t)node.slot] = node.given;
  PyObject* list = PyList_New((Py_ssize_t)p.inputs.size());
  for (size_t i = 0; list && i < p.inputs.size(); i++) {
    PyObject* number = PyLong_FromUnsignedLong(node_of[(size_t)p.inputs[i]]);
    if (!number) Py_CLEAR(list);
    else PyList_SET_ITEM(list, (Py_ssize_t)i, number);
  }
  return list;
}

static PyObject* get_distinct(PyObject* self, void*) {
  Program& p = *program_of(self);
  PyObject* list = PyList_New(0);
  for (auto* group : {&p.distinct_arguments, &p.distinct}) {
    for (uint32_t index : *group) {
      PyObject* number = PyLong_FromUnsignedLong(p.nodes[index].given);
      if (!list || !number || PyList_Append(list, number) < 0) Py_CLEAR(list);
      Py_XDECREF(number);
    }
  }
  return list;
}

// The nodes that every call visits: those that run code, or that no record can speak for.
static PyObject* unsettled(PyObject* self, PyObject*) {
  Program& p = *program_of(self);
  PyObject* list = PyList_New(0);
  for (Node& node : p.nodes) {
    bool failing = node.room && p.records[node.first].op == Op::Fail;
    if (!node.unsafe && !failing) continue;
    PyObject* number = PyLong_FromUnsignedLong(node.given);
    if (!list || !number || PyList_Append(list, number) < 0) Py_CLEAR(list);
    Py_XDECREF(number);
  }
  return list;
}

// records(): (node, operation) of every record, for tests and reports.
static PyObject* records(PyObject* self, PyObject*) {
  PyObject* list = PyList_New(0);
  for (const Record& record : program_of(self)->records) {
    PyObject* row = Py_BuildValue("(Ii)", program_of(self)->nodes[record.node].given, (int)record.op);
    if (!list || !row || PyList_Append(list, row) < 0) Py_CLEAR(list);
    Py_XDECREF(row);
  }
  return list;
}

static PyMethodDef methods[] = {
    {"records", records, METH_NOARGS, "The records as (node, number of the operation); for tests and reports."},
    {"check", check, METH_O, "check(locals): None when all guards hold, else (node, check) of the first that does not."},
    {"failures", failures, METH_O, "failures(locals): (node, check) of every guard that does not hold; nothing below it is looked at."},
    {"values", values, METH_O, "values(locals): the two tuples the entry would be given."},
    {"fetch", fetch, METH_VARARGS, "fetch(node, locals): the value a node leads to; LookupError when there is none."},
    {"describe", describe, METH_O, "describe(node): (parent, step, key, ((kind, constant), ...)); objects that are gone are None."},
    {"unsettled", unsettled, METH_NOARGS, "The nodes that every call looks at again; for tests and reports."},
    {"stats", stats, METH_NOARGS, "Counters, for tests and reports."},
    {nullptr, nullptr, 0, nullptr}};

static PyMemberDef members[] = {
    {"info", T_OBJECT, offsetof(GuardProgramObject, info), 0, "any object: the lines that explanations name"},
    {"verifier", T_OBJECT, offsetof(GuardProgramObject, verifier), 0, "None, or called with (locals, failure) after each use"},
    {nullptr, 0, 0, 0, nullptr}};

static PyGetSetDef getters[] = {{"dead", get_dead, nullptr, "An object the guards name is gone: they never hold again.", nullptr},
                                {"inputs", get_inputs, nullptr, "The nodes whose values are handed to the graph, in order.", nullptr},
                                {"distinct", get_distinct, nullptr, "The nodes whose values must be different objects.", nullptr},
                                {"state", get_state, nullptr, "The torch state the program was made for, or None.", nullptr},
                                {nullptr, nullptr, nullptr, nullptr, nullptr}};

PyTypeObject GuardProgram_Type = {PyVarObject_HEAD_INIT(nullptr, 0)};

static PyObject* same_leaf_function(PyObject*, PyObject* args) {
  PyObject *a, *b;
  if (!PyArg_ParseTuple(args, "OO", &a, &b)) return nullptr;
  bool ran_code = false;
  Outcome same = same_leaf(a, b, &ran_code);
  return same == Outcome::Error ? nullptr : PyBool_FromLong(same == Outcome::Holds);
}

static PyObject* immutable_leaf_function(PyObject*, PyObject* value) { return PyBool_FromLong(immutable_leaf(value)); }

static PyObject* has_grad_function(PyObject*, PyObject* value) {
  int has = tensor_has_grad(value);
  return has < 0 ? nullptr : PyBool_FromLong(has);
}

static PyMethodDef functions[] = {
    {"has_grad", has_grad_function, METH_O, "Whether a tensor has a gradient."},
    {"same_leaf", same_leaf_function, METH_VARARGS, "The native twin of guard.kinds.same_leaf."},
    {"immutable_leaf", immutable_leaf_function, METH_O, "The native twin of guard.kinds.immutable_leaf."},
    {nullptr, nullptr, 0, nullptr}};

bool init_guards(PyObject* module) {
  GuardProgram_Type.tp_name = "framelift._core.GuardProgram";
  GuardProgram_Type.tp_basicsize = sizeof(GuardProgramObject);
  GuardProgram_Type.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC;
  GuardProgram_Type.tp_doc = "GuardProgram(nodes, inputs, externals, distinct, state=None)";
  GuardProgram_Type.tp_new = create;
  GuardProgram_Type.tp_dealloc = dealloc;
  GuardProgram_Type.tp_traverse = traverse;
  GuardProgram_Type.tp_clear = clear;
  GuardProgram_Type.tp_methods = methods;
  GuardProgram_Type.tp_members = members;
  GuardProgram_Type.tp_getset = getters;
  if (PyType_Ready(&GuardProgram_Type) < 0 || !init_liveness() || !init_steps() || !init_leaves() || !init_kinds(module) || !init_torch_state(module)) return false;
  if (PyModule_AddFunctions(module, functions) < 0) return false;
  PyObject *steps = step_names(), *kinds = kind_names();
  bool added = steps && kinds && PyModule_AddObjectRef(module, "STEPS", steps) == 0 &&
               PyModule_AddObjectRef(module, "KINDS", kinds) == 0 &&
               PyModule_AddObjectRef(module, "GuardProgram", (PyObject*)&GuardProgram_Type) == 0;
  Py_XDECREF(steps);
  Py_XDECREF(kinds);
  return added;
}

}  // namespace framelift
