// The exception barrier: CPython is C and must never be unwound by a C++ exception.  Every function that CPython or
// torch calls is handed over as slot<f>, method<f>(...) or getter<f>(...), which turn exceptions into Python's.  Tables
// of methods take nothing else.
#pragma once
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <cxxabi.h>

#include <cstddef>
#include <type_traits>

namespace framelift {

// Sets the C++ exception that is being handled as a Python exception: MemoryError, what torch makes of its own, or
// RuntimeError.
void raise_cpp_exception() noexcept;
// The same where nobody looks at exceptions: it is reported as unraisable, and one that is set stays set.
void report_cpp_exception() noexcept;

// ---- functions ----

template <auto function, typename Function = decltype(function)>
struct Barrier;

template <auto function, typename Result, typename... Args>
struct Barrier<function, Result (*)(Args...)> {
  static Result call(Args... args) {
    try {
      return function(args...);
    } catch (abi::__forced_unwind&) {
      throw;  // so CPython ends a thread that asks for the GIL when the process is ending
    } catch (...) {
      if constexpr (std::is_void_v<Result>) {
        report_cpp_exception();
      } else {
        raise_cpp_exception();
        return (Result)(intptr_t)(std::is_pointer_v<Result> ? 0 : -1);
      }
    }
  }
};

// What is declared to throw nothing needs no barrier.  Traversals must be: half of one corrupts memory.
template <auto function, typename Result, typename... Args>
struct Barrier<function, Result (*)(Args...) noexcept> {
  static Result call(Args... args) noexcept { return function(args...); }
};

// A function for a slot of a type, a callback, a vectorcall: slot<f>.
template <auto function>
inline constexpr auto slot = &Barrier<function>::call;

// A traversal, for tp_traverse.
template <int (*function)(PyObject*, visitproc, void*) noexcept>
inline constexpr auto traversal = &Barrier<function>::call;

// ---- tables ----

class Method;
template <auto function, int flags = 0>
Method method(const char* name, const char* doc = nullptr);

// A row of a method table.  Only method<f>() makes one.
class Method {
 public:
  const PyMethodDef& row() const { return row_; }

 private:
  explicit Method(const PyMethodDef& row) : row_(row) {}
  PyMethodDef row_;
  template <auto function, int flags>
  friend Method method(const char* name, const char* doc);
};

template <typename>
inline constexpr int fast_flags = 0;
template <>
inline constexpr int fast_flags<PyObject* (*)(PyObject*, PyObject* const*, Py_ssize_t)> = METH_FASTCALL;
template <>
inline constexpr int fast_flags<PyObject* (*)(PyObject*, PyObject* const*, Py_ssize_t, PyObject*)> =
    METH_FASTCALL | METH_KEYWORDS;

// method<f, METH_O>("name", "doc").  The flags of functions that take an array follow from their type and are not
// given.
template <auto function, int flags>
Method method(const char* name, const char* doc) {
  using Function = decltype(function);
  constexpr int fast = fast_flags<Function>;
  constexpr bool plain = std::is_same_v<Function, PyObject* (*)(PyObject*, PyObject*)>;
  static_assert(fast ? flags == 0 : plain && (flags == METH_NOARGS || flags == METH_O || flags == METH_VARARGS),
                "the flags do not fit the function");
  return Method({name, (PyCFunction)(void*)slot<function>, fast ? fast : flags, doc});
}

// The rows as CPython wants them, with the empty one at the end.  Lives as long as the process.
template <size_t count>
struct MethodTable {
  PyMethodDef rows[count + 1] = {};
  MethodTable(const Method (&methods)[count]) {
    for (size_t i = 0; i < count; i++) rows[i] = methods[i].row();
  }
};

template <size_t count>
bool add_functions(PyObject* module, MethodTable<count>& table) {
  return PyModule_AddFunctions(module, table.rows) == 0;
}

class Getter;
template <PyObject* (*get)(PyObject*, void*), int (*... set)(PyObject*, PyObject*, void*)>
Getter getter(const char* name, const char* doc = nullptr, void* closure = nullptr);

// A row of a table of attributes.  Only getter<f>() and getter<f, g>() make one.
class Getter {
 public:
  const PyGetSetDef& row() const { return row_; }

 private:
  explicit Getter(const PyGetSetDef& row) : row_(row) {}
  PyGetSetDef row_;
  template <PyObject* (*get)(PyObject*, void*), int (*... set)(PyObject*, PyObject*, void*)>
  friend Getter getter(const char* name, const char* doc, void* closure);
};

template <PyObject* (*get)(PyObject*, void*), int (*... set)(PyObject*, PyObject*, void*)>
Getter getter(const char* name, const char* doc, void* closure) {
  setter setters[] = {slot<set>..., nullptr};  // one at most
  return Getter({name, slot<get>, setters[0], doc, closure});
}

template <size_t count>
struct GetterTable {
  PyGetSetDef rows[count + 1] = {};
  GetterTable(const Getter (&getters)[count]) {
    for (size_t i = 0; i < count; i++) rows[i] = getters[i].row();
  }
};

// The slots that most types have; before what a type has besides.
template <typename Object>
void define(PyTypeObject& type, const char* name, newfunc create, unsigned long flags, const char* doc) {
  type.tp_name = name, type.tp_basicsize = sizeof(Object), type.tp_new = create, type.tp_doc = doc;
  type.tp_flags = Py_TPFLAGS_DEFAULT | flags;
}

// What the collector and the end of an object need, for types whose members are references and nothing else.
template <typename Object, auto... members>
struct Members {
  static int traverse(PyObject* self, visitproc visit, void* arg) noexcept {
    for (void* member : {(void*)(((Object*)self)->*members)...}) Py_VISIT(member);
    return 0;
  }
  static int clear(PyObject* self) noexcept {
    (clear_member(((Object*)self)->*members), ...);
    return 0;
  }
  static void dealloc(PyObject* self) noexcept {
    PyObject_GC_UnTrack(self);
    clear(self);
    Py_TYPE(self)->tp_free(self);
  }
  static void put_in(PyTypeObject& type) {
    type.tp_traverse = traversal<traverse>, type.tp_clear = slot<clear>, type.tp_dealloc = slot<dealloc>;
  }

 private:
  template <typename Member>
  static void clear_member(Member*& member) {
    Py_CLEAR(member);
  }
};

}  // namespace framelift
