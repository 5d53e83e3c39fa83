// Path: the frozen chain of steps under an Origin (vocabulary/origins.py).  In C, since a capture makes thousands and
// compares and hashes them at every guard.
#include "paths.h"

#include <structmember.h>

#include <unordered_map>
#include <vector>

#include "barrier.h"

namespace framelift {

struct PathObject {
  PyObject_HEAD
  PyObject *base, *step, *key;  // base: NULL for roots
  PyObject* text;               // NULL until asked for
  Py_hash_t hash;
  bool is_listed;  // among `steps`
};
static PyTypeObject Path_Type = {PyVarObject_HEAD_INIT(nullptr, 0)};
static PyObject* const name_const = interned("const");  // such keys are compared by identity: some have no hash

static bool is_const(const PathObject* path) { return is_text(path->step, name_const); }

// -1 with an exception set.
static Py_hash_t hash_of(const PathObject* path) {
  Py_hash_t key = is_const(path) ? (Py_hash_t)((size_t)path->key >> 4) : PyObject_Hash(path->key);
  Py_hash_t step = key == -1 && PyErr_Occurred() ? -1 : PyObject_Hash(path->step);
  if (step == -1) return -1;
  size_t mixed = path->base ? (size_t)((PathObject*)path->base)->hash : 0x345678UL;
  for (Py_hash_t part : {step, key}) mixed = (mixed ^ (size_t)part) * 0x9E3779B97F4A7C15ULL, mixed ^= mixed >> 29;
  return (Py_hash_t)mixed == -1 ? -2 : (Py_hash_t)mixed;
}

// All paths that `path_to` made and that are alive, by their hash.  They take themselves out: so a path does not keep
// those that go on from it, and is in no cycle with them.
static auto& steps = *new std::unordered_multimap<Py_hash_t, PathObject*>;

static void unlist(PathObject* path) {
  if (!path->is_listed) return;
  path->is_listed = false;
  auto [from, to] = steps.equal_range(path->hash);
  for (auto row = from; row != to; ++row)
    if (row->second == path) {
      steps.erase(row);
      return;
    }
}

// Whether the collector has nothing to look for in an object: it holds no object that it knows.
static bool is_simple(PyObject* object) {
  if (!PyTuple_CheckExact(object)) return !PyObject_IS_GC(object);
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(object); i++)
    if (PyObject_IS_GC(PyTuple_GET_ITEM(object, i))) return false;
  return true;
}

void untrack_simple(PyObject* object, std::initializer_list<PyObject*> held) {
  for (PyObject* one : held)
    if (one && PyObject_IS_GC(one) && PyObject_GC_IsTracked(one) && !is_simple(one)) return;
  PyObject_GC_UnTrack(object);
}

static PyObject* make(PyTypeObject* type, PyObject* base, PyObject* step, PyObject* key) {
  Ref made = Ref::steal(type->tp_alloc(type, 0));
  if (!made) return nullptr;
  PathObject* self = (PathObject*)made.get();
  self->base = Py_XNewRef(base);
  self->step = Py_NewRef(step);
  self->key = Py_NewRef(key);
  self->hash = hash_of(self);
  if (self->hash == -1) return nullptr;
  untrack_simple(made.get(), {base, key});
  return made.release();
}

static PyObject* create(PyTypeObject* type, PyObject* args, PyObject*) {
  PyObject *base, *step, *key = Py_None;
  if (!PyArg_ParseTuple(args, "OU|O", &base, &step, &key)) return nullptr;
  if (base != Py_None && !PyObject_TypeCheck(base, &Path_Type))
    return PyErr_Format(PyExc_TypeError, "the base of a path is a path or None");
  return make(type, base == Py_None ? nullptr : base, step, key);
}

Ref path_from(PyObject* type, PyObject* object) {
  return Ref::steal(make((PyTypeObject*)type, nullptr, name_const, object));
}

// Whether comparing such keys runs no code of the program.
static bool is_plain(PyObject* key) { return PyUnicode_CheckExact(key) || PyLong_CheckExact(key) || key == Py_None; }

Ref path_to(PyObject* path, PyObject* step, PyObject* key) {
  PathObject asked = {};
  asked.base = path, asked.step = step, asked.key = key;
  asked.hash = hash_of(&asked);
  if (asked.hash == -1) return nullptr;
  std::vector<Ref> others;  // whose keys are asked whether they are equal: that may run any code
  auto [from, to] = steps.equal_range(asked.hash);
  for (auto row = from; row != to; ++row) {
    PathObject* known = row->second;
    // The key keeps its class.
    if (known->base != path || Py_TYPE(known->key) != Py_TYPE(key) || PyUnicode_Compare(known->step, step)) continue;
    int same = known->key == key ? 1 : is_plain(key) ? PyObject_RichCompareBool(known->key, key, Py_EQ) : 0;
    if (same < 0) return nullptr;
    if (same) return Ref::new_ref((PyObject*)known);
    if (!is_plain(key)) others.push_back(Ref::new_ref((PyObject*)known));
  }
  for (Ref& other : others) {
    int same = PyObject_RichCompareBool(((PathObject*)other.get())->key, key, Py_EQ);
    if (same) return same < 0 ? Ref() : std::move(other);
  }
  Ref made = Ref::steal(make(Py_TYPE(path), path, step, key));
  if (!made) return nullptr;
  PathObject* self = (PathObject*)made.get();
  steps.emplace(self->hash, self);
  self->is_listed = true;
  return made;
}

bool take_apart(PyObject* path, PathParts* parts) {
  if (!PyObject_TypeCheck(path, &Path_Type)) {
    PyErr_Format(PyExc_TypeError, "%R is no path", path);
    return false;
  }
  const PathObject* self = (PathObject*)path;
  *parts = {self->base, self->step, self->key};
  return true;
}

static PyObject* to(PyObject* object, PyObject* const* args, Py_ssize_t n) {
  if (n < 1 || n > 2 || !PyUnicode_Check(args[0])) return PyErr_Format(PyExc_TypeError, "to(step, key=None)");
  return path_to(object, args[0], n == 2 ? args[1] : Py_None).release();
}

static Py_hash_t hash(PyObject* self) noexcept { return ((PathObject*)self)->hash; }

// 1, 0, or -1 with an exception set.
static int same_step(const PathObject* a, const PathObject* b) {
  if (a->hash != b->hash || PyUnicode_Compare(a->step, b->step) != 0) return 0;
  if (a->key == b->key) return 1;
  if (is_const(a) || Py_TYPE(a->key) != Py_TYPE(b->key)) return 0;
  return PyObject_RichCompareBool(a->key, b->key, Py_EQ);
}

static PyObject* compare(PyObject* left, PyObject* right, int op) {
  if (op != Py_EQ && op != Py_NE) Py_RETURN_NOTIMPLEMENTED;
  int same = left == right || PyObject_TypeCheck(right, &Path_Type);
  const PathObject *a = (PathObject*)left, *b = (PathObject*)right;
  while (same == 1 && a != b) {
    same = a && b ? same_step(a, b) : 0;
    if (same == 1) a = (PathObject*)a->base, b = (PathObject*)b->base;
  }
  return same < 0 ? nullptr : PyBool_FromLong(same == (op == Py_EQ));
}

static int traverse(PyObject* object, visitproc visit, void* arg) noexcept {
  PathObject* self = (PathObject*)object;
  Py_VISIT(self->base);
  Py_VISIT(self->key);
  return 0;
}

static int clear(PyObject* object) noexcept {
  PathObject* self = (PathObject*)object;
  unlist(self);
  Py_XSETREF(self->key, Py_NewRef(Py_None));  // never NULL: a finaliser may still compare it
  return 0;
}

static void dealloc(PyObject* object) noexcept {
  PathObject* self = (PathObject*)object;
  PyObject_GC_UnTrack(object);
  clear(object);
  Py_CLEAR(self->base);
  Py_CLEAR(self->step);
  Py_CLEAR(self->key);
  Py_CLEAR(self->text);
  Py_TYPE(object)->tp_free(object);
}

static PyObject* root(PyObject* object, void*) {
  const PathObject* path = (PathObject*)object;
  while (path->base) path = (PathObject*)path->base;
  return Py_NewRef((PyObject*)path);
}

// How a step is written behind the text before it; NULL for what only the class of paths knows (vocabulary/origins.py:
// STEPS): unusual steps, and keys that are no plain text or number.
static const char* form_of(const PathObject* path) {
  static PyObject *item = PyUnicode_InternFromString("item"), *dict = PyUnicode_InternFromString("dict");
  static PyObject* dotted[] = {PyUnicode_InternFromString("attr"), PyUnicode_InternFromString("slot"),
                               PyUnicode_InternFromString("lookup")};
  bool is_name = PyUnicode_CheckExact(path->key);
  if (is_text(path->step, item)) return is_name || PyLong_CheckExact(path->key) ? "%U[%R]" : nullptr;
  if (is_text(path->step, dict)) return path->key == Py_None ? "%U.__dict__" : nullptr;
  for (PyObject* step : dotted)
    if (is_name && is_text(path->step, step)) return "%U.%U";
  return nullptr;
}

static bool has_text(const PathObject* path) { return path->text && path->text != Py_None; }

// The text of a path, kept, where the text of a path before it is known, the steps from there are usual and their keys
// have texts; else none, without an exception.
static Ref usual_text(PathObject* self) {
  std::vector<PathObject*> rest;
  PathObject* known = self;
  for (; known && !has_text(known); known = (PathObject*)known->base) {
    if (!form_of(known)) return nullptr;
    rest.push_back(known);
  }
  if (!known) return nullptr;
  Ref text = Ref::new_ref(known->text);
  for (auto path = rest.rbegin(); path != rest.rend(); ++path) {
    text = Ref::steal(PyUnicode_FromFormat(form_of(*path), text.get(), (*path)->key));
    if (!text) {
      if (PyErr_ExceptionMatches(PyExc_ValueError)) PyErr_Clear();  // a number with too many digits
      return nullptr;
    }
    Py_XSETREF((*path)->text, Py_NewRef(text.get()));
  }
  return text;
}

static PyObject* usual(PyObject* object, PyObject*) {
  Ref text = usual_text((PathObject*)object);
  return text || PyErr_Occurred() ? text.release() : Py_NewRef(Py_None);
}

static GetterTable getters({getter<root>("root", "the path that this one begins with")});

static MethodTable methods({
    method<to>("to", "to(step, key=None): the path one step further; the same object for the same step"),
    method<usual, METH_NOARGS>("usual_text", "the text of a path whose steps are usual ones; None for any other"),
});

static PyMemberDef members[] = {
    {"base", T_OBJECT, offsetof(PathObject, base), READONLY, "the path before the last step; None for roots"},
    {"step", T_OBJECT, offsetof(PathObject, step), READONLY, "the last step"},
    {"key", T_OBJECT, offsetof(PathObject, key), READONLY, "its key"},
    {"_text", T_OBJECT, offsetof(PathObject, text), 0, "its text, once somebody asked"},
    {nullptr}};

bool init_paths(PyObject* module) {
  define<PathObject>(Path_Type, "framelift._core.Path", slot<create>, Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_BASETYPE,
         "Path(base, step, key=None): a frozen chain of steps.");
  Path_Type.tp_dealloc = slot<dealloc>;
  Path_Type.tp_traverse = traversal<traverse>;
  Path_Type.tp_clear = slot<clear>;
  Path_Type.tp_hash = slot<hash>;
  Path_Type.tp_richcompare = slot<compare>;
  Path_Type.tp_methods = methods.rows;
  Path_Type.tp_members = members;
  Path_Type.tp_getset = getters.rows;
  return PyModule_AddType(module, &Path_Type) == 0;
}

}  // namespace framelift
