// functools.lru_cache as it lies in memory: what a cache holds for arguments, and how it is given an answer.
#include "barrier.h"
#include "layouts.h"
#include "reference.h"
#include "state.h"

namespace framelift {

// As in CPython's Modules/_functoolsmodule.c.
struct Link {
  PyObject_HEAD
  Link *prev, *next;
  Py_hash_t hash;
  PyObject *key, *result;
};
struct Cache {
  Link root;
  void* wrapper;
  int typed;
  PyObject* table;
  Py_ssize_t hits;
  PyObject* function;
  Py_ssize_t maxsize, misses;
  PyObject* mark;  // stands between arguments and keywords in a key
};

static PyTypeObject* cache_type;

static Cache* as_cache(PyObject* object) {
  if (cache_type && PyObject_TypeCheck(object, cache_type)) return (Cache*)object;
  PyErr_SetString(PyExc_TypeError, "not a functools.lru_cache");
  return nullptr;
}

// The key that a cache makes of arguments.
static Ref key_of(Cache* cache, PyObject* args, PyObject* kwargs) {
  Py_ssize_t count = PyTuple_GET_SIZE(args), named = PyDict_GET_SIZE(kwargs);
  if (!cache->typed && !named) {
    PyObject* first = count == 1 ? PyTuple_GET_ITEM(args, 0) : nullptr;
    return Ref::new_ref(first && (PyUnicode_CheckExact(first) || PyLong_CheckExact(first)) ? first : args);
  }
  Ref list = Ref::steal(PySequence_List(args));
  if (!list) return nullptr;
  PyObject *name, *value;
  if (named && PyList_Append(list.get(), cache->mark) < 0) return nullptr;
  for (Py_ssize_t at = 0; PyDict_Next(kwargs, &at, &name, &value);)
    if (PyList_Append(list.get(), name) < 0 || PyList_Append(list.get(), value) < 0) return nullptr;
  for (Py_ssize_t i = 0; cache->typed && i < count; i++)
    if (PyList_Append(list.get(), (PyObject*)Py_TYPE(PyTuple_GET_ITEM(args, i))) < 0) return nullptr;
  for (Py_ssize_t at = 0; cache->typed && PyDict_Next(kwargs, &at, &name, &value);)
    if (PyList_Append(list.get(), (PyObject*)Py_TYPE(value)) < 0) return nullptr;
  return Ref::steal(PyList_AsTuple(list.get()));
}

// The answer that a cache holds; nothing, and no exception, where it holds none.
static Ref held(Cache* cache, PyObject* args, PyObject* kwargs) {
  Ref key = key_of(cache, args, kwargs);
  if (!key) return nullptr;
  PyObject* found = PyDict_GetItemWithError(cache->table, key.get());
  return Ref::new_ref(found && cache->maxsize >= 0 ? ((Link*)found)->result : found);
}

// cached_answer(cache, args, kwargs): a tuple with the answer that is held, else None.
static PyObject* cached_answer(PyObject*, PyObject* const* a, Py_ssize_t n) {
  if (n != 3 || !PyTuple_CheckExact(a[1]) || !PyDict_CheckExact(a[2]))
    return PyErr_Format(PyExc_TypeError, "cached_answer(cache, args, kwargs)");
  Cache* cache = as_cache(a[0]);
  if (!cache) return nullptr;
  Ref answer = held(cache, a[1], a[2]);
  if (answer) return PyTuple_Pack(1, answer.get());
  if (PyErr_Occurred()) return nullptr;
  Py_RETURN_NONE;
}

// The function of a cache while it is given an answer: puts back the real one, and returns the answer.
static PyObject* give(PyObject* given, PyObject* const*, Py_ssize_t, PyObject*) {
  auto* cache = (Cache*)PyTuple_GET_ITEM(given, 0);
  PyObject* function = PyTuple_GET_ITEM(given, 1);
  Py_SETREF(cache->function, Py_NewRef(function));
  return Py_NewRef(PyTuple_GET_ITEM(given, 2));
}

static MethodTable giving({method<give>("give")});

// cache_answer(cache, args, kwargs, answer): calls the cache as the program does, where its function gives the answer.
static PyObject* cache_answer(PyObject*, PyObject* const* a, Py_ssize_t n) {
  if (n != 4 || !PyTuple_CheckExact(a[1]) || !PyDict_CheckExact(a[2]))
    return PyErr_Format(PyExc_TypeError, "cache_answer(cache, args, kwargs, answer)");
  Cache* cache = as_cache(a[0]);
  if (!cache) return nullptr;
  Ref found = held(cache, a[1], a[2]);
  if (!found && PyErr_Occurred()) return nullptr;
  if (found) return PyObject_Call(a[0], a[1], a[2]);
  Ref function = Ref::new_ref(cache->function);
  Ref given = Ref::steal(PyTuple_Pack(3, a[0], function.get(), a[3]));
  if (!given) return nullptr;
  Ref instead = Ref::steal(PyCFunction_New(giving.rows, given.get()));
  if (!instead) return nullptr;
  PyObject* mine = instead.get();
  Py_SETREF(cache->function, instead.release());
  Ref result = Ref::steal(PyObject_Call(a[0], a[1], a[2]));
  if (cache->function == mine) Py_SETREF(cache->function, function.release());  // it was not called: an error
  return result.release();
}

// cached_function(cache): the function that is called where no answer is held.
static PyObject* cached_function(PyObject*, PyObject* object) {
  Cache* cache = as_cache(object);
  return cache ? Py_NewRef(cache->function) : nullptr;
}

static MethodTable methods({
    method<cached_answer>("cached_answer", "cached_answer(cache, args, kwargs): a tuple with what it holds, or None"),
    method<cache_answer>("cache_answer", "cache_answer(cache, args, kwargs, answer): call it; its function gives this"),
    method<cached_function, METH_O>("cached_function", "the function of a functools.lru_cache"),
});

static Ref made_cache(PyObject* maxsize) {
  Ref functools = Ref::steal(PyImport_ImportModule("functools"));
  if (!functools) return nullptr;
  Ref make = Ref::steal(PyObject_CallMethod(functools.get(), "lru_cache", "OO", maxsize, Py_True));
  return Ref::steal(make ? PyObject_CallOneArg(make.get(), (PyObject*)&PyTuple_Type) : nullptr);
}

static bool is_known() {
  Ref three = Ref::steal(PyLong_FromLong(3)), args = Ref::steal(Py_BuildValue("((i))", 7));
  Ref named = Ref::steal(PyDict_New());
  for (PyObject* maxsize : {Py_None, three.get()}) {
    Ref made = made_cache(maxsize);
    Ref answer = Ref::steal(made && args ? PyObject_CallObject(made.get(), args.get()) : nullptr);
    Cache* cache = answer && named ? as_cache(made.get()) : nullptr;
    if (!cache || cache->function != (PyObject*)&PyTuple_Type || cache->typed != 1 || cache->misses != 1) return false;
    if (cache->hits || cache->maxsize != (maxsize == Py_None ? -1 : 3)) return false;
    if (!PyDict_CheckExact(cache->table)) return false;
    if (held(cache, args.get(), named.get()).get() != answer.get()) return false;
  }
  return true;
}

static const LayoutCheck cache_layout("caches of functools", "lru_caches.cpp", is_known);

bool init_lru_caches(PyObject* module) {
  Ref made = made_cache(Py_None);
  if (made) cache_type = (PyTypeObject*)Py_NewRef((PyObject*)Py_TYPE(made.get()));
  return made && add_functions(module, methods);
}

}  // namespace framelift
