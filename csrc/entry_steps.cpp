// Steps: what the function of an entry does, in a form that needs no frame.  exits/native_steps.py writes them from the
// function's own source, one step for each thing that CPython would do, in its order; so what they make and change is
// the same.
#include "entry_steps.h"

#include <cstring>
#include <memory>

#include "barrier.h"
#include "connections.h"
#include "frames.h"
#include "inline_values.h"
#include "outside.h"
#include "state.h"

namespace framelift {

enum class Do : uint8_t {
  Graph,         // call the graph; its `number` outputs are the registers from `out` on, or nobody's where out is -1
  First,         // call the graph: its first output
  Tuple,         // of the operands
  List,          // likewise
  Dict,          // key, value, key, value, ...
  Call,          // callable, arguments
  Attribute,     // object, name
  Item,          // object, key
  SetAttribute,  // object, name, value
  SetItem,       // object, key, value
  Instance,      // class, then name, value, ...: object.__new__, and then one attribute after the other
  Unless,        // go on at step `number` unless the operand is true
  Return,        // the operand
};
static constexpr const char* kNames[] = {"graph", "first", "tuple", "list", "dict", "call", "attribute",
                                         "item", "set attribute", "set item", "instance", "unless", "return"};

struct Step {
  Do what;
  int32_t out, number;
  std::vector<int32_t> operands;  // registers; constants as ~place
  Ref pattern;                    // of a dictionary: one with all keys, and with the values that are constants
  InlinePlaces places;            // of an instance
};

struct StepsObject {
  PyObject_HEAD PyObject* code;  // that does the same
  PyObject* space;               // where the graph is found
  PyObject* constants;
  Py_ssize_t externals, registers;
  std::vector<Step>* steps;
};
static PyTypeObject Steps_Type = {PyVarObject_HEAD_INIT(nullptr, 0)};
static PyObject* const graph_name = interned("graph");

// ---- a run ----

namespace {

struct Registers {
  static constexpr size_t kFew = 64;
  PyObject* few[kFew];
  std::unique_ptr<PyObject*[]> many;
  PyObject** values;
  size_t count;
  explicit Registers(size_t n) : values(few), count(n) {
    if (n > kFew) many.reset(values = new PyObject*[n]);
    memset(values, 0, n * sizeof *values);
  }
  Registers(const Registers&) = delete;
  ~Registers() {
    for (size_t i = 0; i < count; i++) Py_XDECREF(values[i]);
  }
};

struct Run {
  StepsObject* self;
  const Given& given;
  Registers registers;

  Run(StepsObject* steps, const Given& from) : self(steps), given(from), registers((size_t)steps->registers) {
    for (size_t i = 0; i < given.externals.size(); i++)
      registers.values[i] = Py_NewRef(given.values[given.externals[i]]);
  }

  PyObject* value(int32_t operand) const {
    return operand < 0 ? PyTuple_GET_ITEM(self->constants, ~operand) : registers.values[operand];
  }
  PyObject* operand(const Step& step, size_t i) const { return value(step.operands[i]); }

  Ref graph_outputs() const;
  bool unpack(PyObject* outputs, PyObject** to, Py_ssize_t count) const;
  Ref dict(const Step& step) const;
  Ref call(const Step& step) const;
  bool sets_plainly(PyTypeObject* type, const Step& step) const;
  Ref instance(Step& step) const;
  Ref make(Step& step) const;
  bool change(const Step& step) const;
  Ref go();
};

}  // namespace

Ref Run::graph_outputs() const {
  // Another one while somebody profiles.
  Ref graph = Ref::new_ref(PyDict_GetItemWithError(self->space, graph_name));
  if (!graph) {
    if (!PyErr_Occurred()) PyErr_SetString(PyExc_NameError, "name 'graph' is not defined");
    return nullptr;
  }
  size_t count = given.inputs.size();
  if (given.inputs_first) return Ref::steal(PyObject_Vectorcall(graph.get(), given.values, count, nullptr));
  std::vector<PyObject*> inputs;
  for (int32_t place : given.inputs) inputs.push_back(given.values[place]);
  return Ref::steal(PyObject_Vectorcall(graph.get(), inputs.data(), count, nullptr));
}

static bool complain_of_length(Py_ssize_t wanted, Py_ssize_t found, bool is_known = true) {
  const char* text = "too many values to unpack (expected %zd)";
  if (PY_VERSION_HEX >= 0x030e0000 && is_known) text = "too many values to unpack (expected %zd, got %zd)";
  if (found < wanted) text = "not enough values to unpack (expected %zd, got %zd)";
  return PyErr_Format(PyExc_ValueError, text, wanted, found);
}

bool Run::unpack(PyObject* outputs, PyObject** to, Py_ssize_t count) const {
  if (PyTuple_CheckExact(outputs) || PyList_CheckExact(outputs)) {
    if (PySequence_Fast_GET_SIZE(outputs) != count) return complain_of_length(count, PySequence_Fast_GET_SIZE(outputs));
    PyObject** items = PySequence_Fast_ITEMS(outputs);
    for (Py_ssize_t i = 0; i < count; i++) to[i] = Py_NewRef(items[i]);
    return true;
  }
  Ref all = Ref::steal(PyObject_GetIter(outputs));
  if (!all) {
    if (PyErr_ExceptionMatches(PyExc_TypeError) && !Py_TYPE(outputs)->tp_iter && !PySequence_Check(outputs))
      PyErr_Format(PyExc_TypeError, "cannot unpack non-iterable %.200s object", Py_TYPE(outputs)->tp_name);
    return false;
  }
  for (Py_ssize_t i = 0; i < count; i++)
    if (!(to[i] = PyIter_Next(all.get()))) return !PyErr_Occurred() && complain_of_length(count, i, false);
  Ref more = Ref::steal(PyIter_Next(all.get()));
  return !PyErr_Occurred() && (!more || complain_of_length(count, count + 1, false));
}

Ref Run::dict(const Step& step) const {
  Ref made = Ref::steal(step.pattern ? PyDict_Copy(step.pattern.get()) : PyDict_New());
  for (size_t i = 0; made && i < step.operands.size(); i += 2) {
    if (step.pattern && step.operands[i + 1] < 0) continue;
    if (PyDict_SetItem(made.get(), operand(step, i), operand(step, i + 1)) < 0) return nullptr;
  }
  return made;
}

Ref Run::call(const Step& step) const {
  constexpr size_t kFew = 16;
  size_t count = step.operands.size() - 1;
  PyObject* few[kFew + 1];
  std::unique_ptr<PyObject*[]> many(count > kFew ? new PyObject*[count + 1] : nullptr);
  PyObject** arguments = (many ? many.get() : few) + 1;  // the callee may use the place before them
  for (size_t i = 0; i < count; i++) arguments[i] = operand(step, i + 1);
  return Ref::steal(
      PyObject_Vectorcall(operand(step, 0), arguments, count | PY_VECTORCALL_ARGUMENTS_OFFSET, nullptr));
}

// Whether all attributes of an instance are its own: no code of the class's, and no descriptor, has a part in it.
bool Run::sets_plainly(PyTypeObject* type, const Step& step) const {
  if (type->tp_setattro != PyObject_GenericSetAttr) return false;
  for (size_t i = 1; i < step.operands.size(); i += 2) {
    PyObject* found = _PyType_Lookup(type, operand(step, i));
    if (found && Py_TYPE(found)->tp_descr_set) return false;
  }
  return true;
}

Ref Run::instance(Step& step) const {
  static PyObject* nothing = PyTuple_New(0);
  PyTypeObject* type = (PyTypeObject*)operand(step, 0);
  if (!nothing || !PyType_Check(type)) {
    PyErr_SetString(PyExc_TypeError, "an instance needs a class");
    return nullptr;
  }
  size_t count = step.operands.size() / 2;
  unsigned version = type_version(type);
  Ref object = Ref::steal(PyBaseObject_Type.tp_new(type, nothing, nullptr));
  if (!object) return nullptr;
  // Allocating may have run any code.
  PyObject** values = version && step.places.version == type_version(type) ? inline_values(object.get()) : nullptr;
  if (values && !InlinePlaces::count_of(values)) {
    PyObject* attributes[InlinePlaces::kMost];
    for (size_t i = 0; i < count; i++) attributes[i] = operand(step, 2 * i + 2);
    step.places.put(values, attributes, count);
    return object;
  }
  for (size_t i = 0; i < count; i++)
    if (PyObject_SetAttr(object.get(), operand(step, 2 * i + 1), operand(step, 2 * i + 2)) < 0) return nullptr;
  bool plain = version && sets_plainly(type, step) && version == type_version(type);
  step.places.note(object.get(), plain ? version : 0, count);
  return object;
}

// The object that a step makes; none with an exception set.
Ref Run::make(Step& step) const {
  switch (step.what) {
    case Do::First: {
      Ref outputs = graph_outputs();
      if (!outputs) return nullptr;
      if (PyTuple_CheckExact(outputs.get()) && PyTuple_GET_SIZE(outputs.get()) > 0)
        return Ref::new_ref(PyTuple_GET_ITEM(outputs.get(), 0));
      Ref zero = Ref::steal(PyLong_FromLong(0));
      return Ref::steal(zero ? PyObject_GetItem(outputs.get(), zero.get()) : nullptr);
    }
    case Do::Tuple:
      return make_tuple((Py_ssize_t)step.operands.size(),
                        [&](Py_ssize_t i) { return Ref::new_ref(operand(step, (size_t)i)); });
    case Do::List: {
      Ref list = Ref::steal(PyList_New((Py_ssize_t)step.operands.size()));
      for (size_t i = 0; list && i < step.operands.size(); i++)
        PyList_SET_ITEM(list.get(), (Py_ssize_t)i, Py_NewRef(operand(step, i)));
      return list;
    }
    case Do::Dict:
      return dict(step);
    case Do::Call:
      return call(step);
    case Do::Attribute:
      return Ref::steal(PyObject_GetAttr(operand(step, 0), operand(step, 1)));
    case Do::Item:
      return Ref::steal(PyObject_GetItem(operand(step, 0), operand(step, 1)));
    case Do::Instance:
      return instance(step);
    default:
      PyErr_SetString(PyExc_SystemError, "no step that makes an object");
      return nullptr;
  }
}

bool Run::change(const Step& step) const {
  auto set = step.what == Do::SetAttribute ? PyObject_SetAttr : PyObject_SetItem;
  return set(operand(step, 0), operand(step, 1), operand(step, 2)) == 0;
}

Ref Run::go() {
  for (size_t at = 0;;) {
    Step& step = (*self->steps)[at++];
    switch (step.what) {
      case Do::Return:
        return Ref::new_ref(operand(step, 0));
      case Do::Unless: {
        int truth = PyObject_IsTrue(operand(step, 0));
        if (truth < 0) return nullptr;
        if (!truth) at = (size_t)step.number;
        break;
      }
      case Do::Graph: {
        Ref outputs = graph_outputs();
        if (!outputs || (step.out >= 0 && !unpack(outputs.get(), registers.values + step.out, step.number)))
          return nullptr;
        break;
      }
      case Do::SetAttribute:
      case Do::SetItem:
        if (!change(step)) return nullptr;
        break;
      default:
        if (!(registers.values[step.out] = make(step).release())) return nullptr;
    }
  }
}

Ref run_steps(PyObject* steps, const Given& given) {
  Ref kept = Ref::new_ref(steps);
  return Run((StepsObject*)steps, given).go();
}

bool are_steps(PyObject* object, size_t externals) {
  return Py_IS_TYPE(object, &Steps_Type) && (size_t)((StepsObject*)object)->externals == externals;
}

bool steps_are_of(PyObject* steps, PyObject* function) {
  return PyFunction_Check(function) && PyFunction_GET_CODE(function) == ((StepsObject*)steps)->code;
}

static PyObject* maker = nullptr;  // Python: (function) -> Steps or None
static Connections connections({{"steps_maker", &maker}});

Ref make_steps(PyObject* function) {
  UncapturedScope own;
  Ref made = Ref::steal(maker ? PyObject_CallOneArg(maker, function) : Py_NewRef(Py_None));
  if (made) return made;
  SavedError error;
  error.normalize();
  if (error.value() && error.traceback()) PyException_SetTraceback(error.value(), error.traceback());
  if (!error.value() || !came_from_outside(error.value())) return Ref::new_ref(Py_None);
  error.restore();
  return nullptr;
}

// ---- the Python object ----

// Reads the steps, and knows which registers have a value by then.
struct Reader {
  StepsObject* self;
  std::vector<bool> written, taken;  // has a value whichever way a run came; some step gives it one
  std::vector<std::pair<int32_t, std::vector<bool>>> jumps;  // to this step, with these written
  Py_ssize_t total;                                          // steps
  Reader(StepsObject* steps, Py_ssize_t count)
      : self(steps), written((size_t)steps->registers), taken((size_t)steps->registers), total(count) {
    for (size_t i = 0; i < (size_t)steps->externals; i++) written[i] = taken[i] = true;
  }
  bool is_operand(int32_t place) const {
    if (place < 0) return ~place < PyTuple_GET_SIZE(self->constants);
    return place < self->registers && written[(size_t)place];
  }
  void arrive(int32_t number) {
    for (const auto& [target, by_then] : jumps)
      for (size_t i = 0; target == number && i < written.size(); i++) written[i] = written[i] && by_then[i];
  }
  bool read(PyObject* row, int32_t number);
  bool note_outputs(const Step& step);
  bool make_pattern(Step& step);
};

static bool fits(const Step& step) {
  size_t count = step.operands.size();
  switch (step.what) {
    case Do::Graph:
    case Do::First:
      return count == 0;
    case Do::Tuple:
    case Do::List:
      return true;
    case Do::Dict:
      return count % 2 == 0;
    case Do::Call:
      return count > 0;
    case Do::Attribute:
    case Do::Item:
      return count == 2;
    case Do::SetAttribute:
    case Do::SetItem:
      return count == 3;
    case Do::Instance:
      return count % 2 == 1 && count / 2 <= InlinePlaces::kMost;
    case Do::Unless:
    case Do::Return:
      return count == 1;
  }
  return false;
}

bool Reader::note_outputs(const Step& step) {
  bool several = step.what == Do::Graph;
  if (step.what == Do::SetAttribute || step.what == Do::SetItem || step.what == Do::Unless ||
      step.what == Do::Return || (several && step.out < 0))
    return true;
  int32_t count = several ? step.number : 1;
  if (step.out < 0 || count < 0 || step.out + (Py_ssize_t)count > self->registers) return false;
  for (int32_t i = step.out; i < step.out + count; i++) {
    if (taken[(size_t)i]) return false;
    written[(size_t)i] = taken[(size_t)i] = true;
  }
  return true;
}

// Where all keys are texts, and different ones: a copy of this, with the other values put in, is the dictionary.
bool Reader::make_pattern(Step& step) {
  Ref made = Ref::steal(PyDict_New());
  if (!made) return false;
  for (size_t i = 0; i < step.operands.size(); i += 2) {
    if (step.operands[i] >= 0) return true;
    PyObject* key = PyTuple_GET_ITEM(self->constants, ~step.operands[i]);
    if (!PyUnicode_CheckExact(key) || PyDict_Contains(made.get(), key)) return true;
    int32_t of = step.operands[i + 1];
    PyObject* value = of < 0 ? PyTuple_GET_ITEM(self->constants, ~of) : Py_None;
    if (PyDict_SetItem(made.get(), key, value) < 0) return false;
  }
  if (PyDict_GET_SIZE(made.get())) step.pattern = std::move(made);
  return true;
}

bool Reader::read(PyObject* row, int32_t number) {
  arrive(number);
  const char* name = nullptr;
  if (!PyTuple_Check(row) || PyTuple_GET_SIZE(row) < 3 || !PyUnicode_Check(PyTuple_GET_ITEM(row, 0)) ||
      !(name = PyUnicode_AsUTF8(PyTuple_GET_ITEM(row, 0))))
    return false;
  Step step{};
  size_t what = 0;
  while (what < std::size(kNames) && strcmp(kNames[what], name)) what++;
  if (what == std::size(kNames)) return false;
  step.what = (Do)what;
  step.out = (int32_t)PyLong_AsLong(PyTuple_GET_ITEM(row, 1));
  step.number = (int32_t)PyLong_AsLong(PyTuple_GET_ITEM(row, 2));
  for (Py_ssize_t i = 3; i < PyTuple_GET_SIZE(row); i++) {
    int32_t place = (int32_t)PyLong_AsLong(PyTuple_GET_ITEM(row, i));
    if (PyErr_Occurred() || !is_operand(place)) return false;
    step.operands.push_back(place);
  }
  if (PyErr_Occurred() || !fits(step) || !note_outputs(step)) return false;
  if (step.what == Do::Unless && (step.number <= number || step.number >= total)) return false;
  if (step.what == Do::Unless) jumps.emplace_back(step.number, written);
  if (step.what == Do::Dict && !make_pattern(step)) return false;
  self->steps->push_back(std::move(step));
  return true;
}

static PyObject* create(PyTypeObject* type, PyObject* args, PyObject*) {
  PyObject *code, *space, *constants, *rows;
  Py_ssize_t externals, registers;
  if (!PyArg_ParseTuple(args, "O!O!nnO!O!", &PyCode_Type, &code, &PyDict_Type, &space, &externals, &registers,
                        &PyTuple_Type, &constants, &PyTuple_Type, &rows))
    return nullptr;
  Ref made = Ref::steal(type->tp_alloc(type, 0));
  StepsObject* self = (StepsObject*)made.get();
  if (!self) return nullptr;
  self->code = Py_NewRef(code);
  self->space = Py_NewRef(space);
  self->constants = Py_NewRef(constants);
  self->externals = externals;
  self->registers = registers;
  self->steps = new std::vector<Step>;
  bool good = externals >= 0 && externals <= registers && registers < INT32_MAX;
  if (good) {
    Reader reader(self, PyTuple_GET_SIZE(rows));
    for (Py_ssize_t i = 0; good && i < reader.total; i++) good = reader.read(PyTuple_GET_ITEM(rows, i), (int32_t)i);
  }
  if (good && !self->steps->empty() && self->steps->back().what == Do::Return) return made.release();
  if (!PyErr_Occurred()) PyErr_SetString(PyExc_ValueError, "Steps: no such steps");
  return nullptr;
}

using Held = Members<StepsObject, &StepsObject::code, &StepsObject::space, &StepsObject::constants>;

static int traverse(PyObject* object, visitproc visit, void* arg) noexcept {
  StepsObject* self = (StepsObject*)object;
  if (self->steps)
    for (const Step& step : *self->steps) Py_VISIT(step.pattern.get());
  return Held::traverse(object, visit, arg);
}

static int clear(PyObject* object) noexcept {
  delete std::exchange(((StepsObject*)object)->steps, nullptr);
  return Held::clear(object);
}

static void dealloc(PyObject* self) noexcept {
  PyObject_GC_UnTrack(self);
  clear(self);
  Py_TYPE(self)->tp_free(self);
}

bool init_entry_steps(PyObject* module) {
  define<StepsObject>(Steps_Type, "framelift._core.Steps", slot<create>, Py_TPFLAGS_HAVE_GC,
         "Steps(code, space, externals, registers, constants, steps): what the code of an entry does.");
  Steps_Type.tp_dealloc = slot<dealloc>;
  Steps_Type.tp_traverse = traversal<traverse>;
  Steps_Type.tp_clear = slot<clear>;
  return PyModule_AddType(module, &Steps_Type) == 0;
}

}  // namespace framelift
