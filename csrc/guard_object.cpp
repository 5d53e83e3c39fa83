// The Python face of guard programs: _core.GuardProgram, and the sets of names that tests compare with the Python
// tables.
#include "barrier.h"
#include "guard.h"

namespace framelift {

static Program* program_of(PyObject* self) { return ((GuardProgramObject*)self)->program; }

static Ref failure_tuple(int node, int check) { return Ref::steal(Py_BuildValue("(ii)", node, check)); }

bool verify(GuardProgramObject* program, PyObject* const* locals, Py_ssize_t count, Outcome outcome, int node,
            int check) {
  if (program->verifier == Py_None) return true;
  Ref verifier = Ref::new_ref(program->verifier);
  Ref arguments = tuple_of(locals, count);
  Ref failure = outcome == Outcome::Holds ? Ref::new_ref(Py_None) : failure_tuple(node, check);
  if (!arguments || !failure) return false;
  return (bool)Ref::steal(PyObject_CallFunctionObjArgs(verifier.get(), arguments.get(), failure.get(), nullptr));
}

static PyObject* create(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
  static const char* names[] = {"nodes", "inputs", "externals", "distinct", "state", nullptr};
  PyObject *nodes, *inputs, *externals, *distinct, *state = Py_None;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!O!O!O!|O", (char**)names, &PyList_Type, &nodes, &PyList_Type,
                                   &inputs, &PyList_Type, &externals, &PyList_Type, &distinct, &state))
    return nullptr;
  Ref made = Ref::steal(type->tp_alloc(type, 0));
  if (!made) return nullptr;
  GuardProgramObject* self = (GuardProgramObject*)made.get();
  self->info = Py_NewRef(Py_None);
  self->verifier = Py_NewRef(Py_None);
  self->program = new Program();
  return self->program->build(nodes, inputs, externals, distinct, state) ? made.release() : nullptr;
}

static PyObject* copy(PyObject* self, PyObject*) {
  Ref made = Ref::steal(GuardProgram_Type.tp_alloc(&GuardProgram_Type, 0));
  if (!made) return nullptr;
  GuardProgramObject* object = (GuardProgramObject*)made.get();
  object->info = Py_NewRef(((GuardProgramObject*)self)->info);
  object->verifier = Py_NewRef(((GuardProgramObject*)self)->verifier);
  object->program = new Program();
  object->program->copy(*program_of(self));
  return made.release();
}

static int traverse(PyObject* self, visitproc visit, void* arg) noexcept {
  GuardProgramObject* object = (GuardProgramObject*)self;
  Py_VISIT(object->info);
  Py_VISIT(object->verifier);
  return object->program ? object->program->traverse(visit, arg) : 0;
}

static int clear(PyObject* self) noexcept {
  GuardProgramObject* object = (GuardProgramObject*)self;
  Py_CLEAR(object->info);
  Py_CLEAR(object->verifier);
  if (object->program) object->program->clear();
  return 0;
}

static void dealloc(PyObject* self) noexcept {
  PyObject_GC_UnTrack(self);
  clear(self);
  delete program_of(self);
  Py_TYPE(self)->tp_free(self);
}

// One evaluation on a tuple of locals, with the values it hands out.
struct Evaluation {
  Program& program;
  SlotValues slots;  // filled when the program holds
  Outcome outcome = Outcome::Error;
  int node = -1, check = -1;

  Evaluation(PyObject* self, PyObject* locals) : program(*program_of(self)), slots((size_t)program.slot_count) {
    if (!PyTuple_Check(locals))
      PyErr_SetString(PyExc_TypeError, "locals are a tuple");
    else
      outcome = program.check(&PyTuple_GET_ITEM(locals, 0), PyTuple_GET_SIZE(locals), slots.data(), &node, &check);
  }
  Ref picked(const std::vector<int32_t>& which) const {
    return make_tuple((Py_ssize_t)which.size(),
                      [&](Py_ssize_t i) { return Ref::new_ref(slots[(size_t)which[(size_t)i]]); });
  }
};

static PyObject* check(PyObject* self, PyObject* locals) {
  Evaluation done(self, locals);
  if (done.outcome == Outcome::Error) return nullptr;
  if (done.outcome == Outcome::Holds) Py_RETURN_NONE;
  return failure_tuple(done.node, done.check).release();
}

static PyObject* failures(PyObject* self, PyObject* locals) {
  if (!PyTuple_Check(locals)) return PyErr_Format(PyExc_TypeError, "locals are a tuple");
  std::vector<std::pair<int, int>> found;
  if (!program_of(self)->all_failures(&PyTuple_GET_ITEM(locals, 0), PyTuple_GET_SIZE(locals), found)) return nullptr;
  Ref list = Ref::steal(PyList_New(0));
  for (auto [node, check] : found)
    if (!append(list, failure_tuple(node, check))) return nullptr;
  return list.release();
}

static PyObject* values(PyObject* self, PyObject* locals) {
  Evaluation done(self, locals);
  if (done.outcome == Outcome::Fails)
    PyErr_Format(PyExc_ValueError, "the program does not hold: node %d, check %d", done.node, done.check);
  if (done.outcome != Outcome::Holds) return nullptr;
  Ref inputs = done.picked(done.program.inputs), externals = done.picked(done.program.externals);
  return inputs && externals ? PyTuple_Pack(2, inputs.get(), externals.get()) : nullptr;
}

static PyObject* fetch(PyObject* self, PyObject* args) {
  unsigned int node;
  PyObject* locals;
  if (!PyArg_ParseTuple(args, "IO!", &node, &PyTuple_Type, &locals)) return nullptr;
  bool missing;
  Ref value = program_of(self)->fetch(node, &PyTuple_GET_ITEM(locals, 0), PyTuple_GET_SIZE(locals), &missing);
  if (missing) PyErr_SetString(PyExc_LookupError, "the path leads nowhere");
  return value.release();
}

static PyObject* describe(PyObject* self, PyObject* number) {
  unsigned long given = PyLong_AsUnsignedLong(number);
  if (given == (unsigned long)-1 && PyErr_Occurred()) return nullptr;
  return program_of(self)->describe((uint32_t)given).release();
}

static PyObject* stats(PyObject* self, PyObject*) {
  Program& p = *program_of(self);
  return Py_BuildValue("{s:K,s:K,s:K,s:K,s:K,s:n,s:n,s:O}",  // the counters, sizes, and whether it is settled
                       "checks", p.counters.checks, "unchanged", p.counters.unchanged, "visits", p.counters.visits,
                       "restarts", p.counters.restarts, "layouts", p.counters.layouts, "nodes",
                       (Py_ssize_t)p.nodes.size(), "records", (Py_ssize_t)p.records.size(), "settled",
                       p.settled.built ? Py_True : Py_False);
}

static PyObject* get_dead(PyObject* self, void*) { return PyBool_FromLong(program_of(self)->dead()); }

static PyObject* get_state(PyObject* self, void*) {
  Ref& state = program_of(self)->state_object;
  return Py_NewRef(state ? state.get() : Py_None);
}

static Ref number_of(uint32_t given) { return Ref::steal(PyLong_FromUnsignedLong(given)); }

static PyObject* get_inputs(PyObject* self, void*) {
  Program& p = *program_of(self);
  std::vector<uint32_t> node_of((size_t)p.slot_count);
  for (const Node& node : p.nodes)
    if (node.slot >= 0) node_of[(size_t)node.slot] = node.given;
  Ref list = Ref::steal(PyList_New(0));
  for (int32_t slot : p.inputs)
    if (!append(list, number_of(node_of[(size_t)slot]))) return nullptr;
  return list.release();
}

static PyObject* get_distinct(PyObject* self, void*) {
  Program& p = *program_of(self);
  Ref list = Ref::steal(PyList_New(0));
  for (auto* group : {&p.distinct_arguments, &p.distinct})
    for (uint32_t index : *group)
      if (!append(list, number_of(p.nodes[index].given))) return nullptr;
  return list.release();
}

// The nodes that every call visits: those that run code, or that no record can speak for.
static PyObject* unsettled(PyObject* self, PyObject*) {
  Program& p = *program_of(self);
  Ref list = Ref::steal(PyList_New(0));
  for (Node& node : p.nodes) {
    bool failing = node.room && p.records[node.first].op == Op::Fail;
    if ((node.unsafe || failing) && !append(list, number_of(node.given))) return nullptr;
  }
  return list.release();
}

// records(): (node, operation) of every record, for tests and reports.
static PyObject* records(PyObject* self, PyObject*) {
  Program& p = *program_of(self);
  Ref list = Ref::steal(PyList_New(0));
  for (const Record& record : p.records)
    if (!append(list, Ref::steal(Py_BuildValue("(Ii)", p.nodes[record.node].given, (int)record.op)))) return nullptr;
  return list.release();
}

static MethodTable methods({
    method<records, METH_NOARGS>("records", "The records as (node, number of the operation); for tests and reports."),
    method<check, METH_O>("check",
                          "check(locals): None when all guards hold, else (node, check) of the first that does not."),
    method<failures, METH_O>(
        "failures",
        "failures(locals): (node, check) of every guard that does not hold; nothing below it is looked at."),
    method<values, METH_O>("values", "values(locals): the two tuples the entry would be given."),
    method<fetch, METH_VARARGS>("fetch",
                                "fetch(node, locals): the value a node leads to; LookupError when there is none."),
    method<describe, METH_O>(
        "describe", "describe(node): (parent, step, key, ((kind, constant), ...)); objects that are gone are None."),
    method<copy, METH_NOARGS>("copy", "copy(): the same guards, in a program that has looked at nothing yet."),
    method<unsettled, METH_NOARGS>("unsettled", "The nodes that every call looks at again; for tests and reports."),
    method<stats, METH_NOARGS>("stats", "Counters, for tests and reports."),
});

static PyMemberDef members[] = {
    {"info", T_OBJECT, offsetof(GuardProgramObject, info), 0, "any object: the lines that explanations name"},
    {"verifier", T_OBJECT, offsetof(GuardProgramObject, verifier), 0,
     "None, or called with (locals, failure) after each use"},
    {nullptr, 0, 0, 0, nullptr}};

static GetterTable getters({
    getter<get_dead>("dead", "An object the guards name is gone: they never hold again."),
    getter<get_inputs>("inputs", "The nodes whose values are handed to the graph, in order."),
    getter<get_distinct>("distinct", "The nodes whose values must be different objects."),
    getter<get_state>("state", "The torch state the program was made for, or None."),
});

PyTypeObject GuardProgram_Type = {PyVarObject_HEAD_INIT(nullptr, 0)};

static PyObject* indistinguishable_function(PyObject*, PyObject* args) {
  PyObject *a, *b;
  if (!PyArg_ParseTuple(args, "OO", &a, &b)) return nullptr;
  bool ran_code = false;
  Outcome same = indistinguishable(a, b, &ran_code);
  return same == Outcome::Error ? nullptr : PyBool_FromLong(same == Outcome::Holds);
}

static PyObject* immutable_leaf_function(PyObject*, PyObject* value) { return PyBool_FromLong(immutable_leaf(value)); }

static PyObject* has_grad_function(PyObject*, PyObject* value) {
  int has = tensor_has_grad(value);
  return has < 0 ? nullptr : PyBool_FromLong(has);
}

static MethodTable functions({
    method<has_grad_function, METH_O>("has_grad", "Whether a tensor has a gradient."),
    method<indistinguishable_function, METH_VARARGS>("indistinguishable",
                                                     "The native twin of guards.equality.indistinguishable."),
    method<immutable_leaf_function, METH_O>("immutable_leaf", "The native twin of guards.kinds.immutable_leaf."),
});

bool init_guards(PyObject* module) {
  define<GuardProgramObject>(GuardProgram_Type, "framelift._core.GuardProgram", slot<create>, Py_TPFLAGS_HAVE_GC,
         "GuardProgram(nodes, inputs, externals, distinct, state=None)");
  GuardProgram_Type.tp_dealloc = slot<dealloc>;
  GuardProgram_Type.tp_traverse = traversal<traverse>;
  GuardProgram_Type.tp_clear = slot<clear>;
  GuardProgram_Type.tp_methods = methods.rows;
  GuardProgram_Type.tp_members = members;
  GuardProgram_Type.tp_getset = getters.rows;
  if (PyModule_AddType(module, &GuardProgram_Type) < 0 || !init_liveness()) return false;
  if (!init_steps() || !init_leaves() || !init_kinds(module) || !init_torch_state(module)) return false;
  if (!add_functions(module, functions)) return false;
  Ref steps = step_names(), kinds = kind_names();
  return steps && kinds && PyModule_AddObjectRef(module, "STEPS", steps.get()) == 0 &&
         PyModule_AddObjectRef(module, "KINDS", kinds.get()) == 0;
}

}  // namespace framelift
