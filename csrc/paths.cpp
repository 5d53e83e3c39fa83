// Path: the frozen chain of steps under an Origin (vocabulary/origins.py).  In C, since a capture makes thousands and
// compares and hashes them at every guard.
#include "paths.h"

#include <structmember.h>

#include "barrier.h"

namespace framelift {

struct PathObject {
  PyObject_HEAD
  PyObject *base, *step, *key;  // base: NULL for roots
  PyObject *children, *text;    // (step, id of the key's class, key) -> path; both NULL until asked for
  Py_hash_t hash;
};
static PyTypeObject Path_Type = {PyVarObject_HEAD_INIT(nullptr, 0)};
static PyObject* name_const = nullptr;  // keys of these are compared by identity: they may be unhashable

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

static PyObject* make(PyTypeObject* type, PyObject* base, PyObject* step, PyObject* key) {
  Ref made = Ref::steal(type->tp_alloc(type, 0));
  if (!made) return nullptr;
  PathObject* self = (PathObject*)made.get();
  self->base = Py_XNewRef(base);
  self->step = Py_NewRef(step);
  self->key = Py_NewRef(key);
  self->hash = hash_of(self);
  return self->hash == -1 ? nullptr : made.release();
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

Ref path_to(PyObject* path, PyObject* step, PyObject* key) {
  PathObject* self = (PathObject*)path;
  // The key keeps its class; a metaclass may hash classes itself.
  Ref kind = Ref::steal(PyLong_FromVoidPtr(Py_TYPE(key)));
  Ref place = kind ? Ref::steal(PyTuple_Pack(3, step, kind.get(), key)) : Ref();
  if (!place || (!self->children && !(self->children = PyDict_New()))) return nullptr;
  PyObject* found = PyDict_GetItemWithError(self->children, place.get());
  if (found || PyErr_Occurred()) return Ref::new_ref(found);
  Ref made = Ref::steal(make(Py_TYPE(path), path, step, key));
  return made && PyDict_SetItem(self->children, place.get(), made.get()) == 0 ? std::move(made) : Ref();
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
  Py_VISIT(self->children);
  return 0;
}

static int clear(PyObject* object) noexcept {
  PathObject* self = (PathObject*)object;
  Py_CLEAR(self->children);
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

static GetterTable getters({getter<root>("root", "the path that this one begins with")});

static MethodTable methods({
    method<to>("to", "to(step, key=None): the path one step further; the same object for the same step"),
});

static PyMemberDef members[] = {
    {"base", T_OBJECT, offsetof(PathObject, base), READONLY, "the path before the last step; None for roots"},
    {"step", T_OBJECT, offsetof(PathObject, step), READONLY, "the last step"},
    {"key", T_OBJECT, offsetof(PathObject, key), READONLY, "its key"},
    {"_text", T_OBJECT, offsetof(PathObject, text), 0, "its text, once somebody asked"},
    {nullptr}};

bool init_paths(PyObject* module) {
  name_const = PyUnicode_InternFromString("const");
  Path_Type.tp_name = "framelift._core.Path";
  Path_Type.tp_basicsize = sizeof(PathObject);
  Path_Type.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_BASETYPE;
  Path_Type.tp_doc = "Path(base, step, key=None): a frozen chain of steps.";
  Path_Type.tp_new = slot<create>;
  Path_Type.tp_dealloc = slot<dealloc>;
  Path_Type.tp_traverse = traversal<traverse>;
  Path_Type.tp_clear = slot<clear>;
  Path_Type.tp_hash = slot<hash>;
  Path_Type.tp_richcompare = slot<compare>;
  Path_Type.tp_methods = methods.rows;
  Path_Type.tp_members = members;
  Path_Type.tp_getset = getters.rows;
  return name_const && PyType_Ready(&Path_Type) == 0 &&
         PyModule_AddObjectRef(module, "Path", (PyObject*)&Path_Type) == 0;
}

}  // namespace framelift
