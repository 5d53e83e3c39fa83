// See guard_watches.h.  CPython has eight watchers, so all programs share one.  A dictionary stays watched for its
// life: one that is let go of would get another version.
#include "guard_watches.h"

#include <unordered_map>
#include <vector>

#include "barrier.h"
#include "frames.h"
#include "main_thread.h"
#include "reference.h"

namespace framelift {

#if PY_VERSION_HEX >= 0x030c0000

using Marks = std::vector<std::shared_ptr<Touched>>;
static auto& watched = *new std::unordered_map<const PyObject*, Marks>;  // never freed: dictionaries outlive us

// Called before the change, whoever makes it: runs no code and allocates nothing.
static int on_change(PyDict_WatchEvent, PyObject* dict, PyObject*, PyObject*) noexcept {
#if PY_VERSION_HEX >= 0x030e0000
  version_word_of(dict) &= ((uint64_t)1 << kVersionShift) - 1;
#elif PY_VERSION_HEX >= 0x030d0000
  version_word_of(dict) = next_dict_version() | (version_word_of(dict) & (kDictVersionStep - 1));
#endif
  auto found = watched.find(dict);
  if (found == watched.end()) return 0;
  for (const std::shared_ptr<Touched>& mark : found->second) mark->is_so = true;
  watched.erase(found);
  return 0;
}

static int watcher() {
  static const int id = [] {
    int added = PyDict_AddWatcher(slot<on_change>);
    if (added < 0) PyErr_Clear();
    return added;
  }();
  return id;
}

#if PY_VERSION_HEX >= 0x030d0000
static bool ask_whether_attributes_are_told() {
  if (watcher() < 0) return false;
  CollectorPause pause;
  Ref cls = Ref::steal(PyObject_CallFunction((PyObject*)&PyType_Type, "s(){}", "probe"));
  Ref object = Ref::steal(cls ? PyObject_CallNoArgs(cls.get()) : nullptr);
  bool is_set = object && PyObject_SetAttrString(object.get(), "one", Py_None) == 0;
  Ref dict = Ref::steal(is_set ? PyObject_GenericGetDict(object.get(), nullptr) : nullptr);
  bool watched = dict && PyDict_Watch(watcher(), dict.get()) == 0;
  uint64_t before = 0;
#if PY_VERSION_HEX >= 0x030e0000
  if (watched) before = version_word_of(dict.get()) |= (uint64_t)1 << kVersionShift;
#else
  if (watched) before = version_word_of(dict.get());
#endif
  bool hears = watched && PyObject_SetAttrString(object.get(), "one", Py_True) == 0 &&
               version_word_of(dict.get()) != before;
  PyErr_Clear();
  return hears;
}

bool hears_of_attributes() {
  static const bool hears = ask_whether_attributes_are_told();
  return hears;
}

uint64_t watched_dict_version(PyObject* dict) {
  if (watcher() < 0 || (shares_values(dict) && !hears_of_attributes())) return 0;
  if (PyDict_Watch(watcher(), dict) < 0) return PyErr_Clear(), 0;
#if PY_VERSION_HEX >= 0x030e0000
  static uint64_t last = 0;
  version_word_of(dict) |= ++last << kVersionShift;
#endif
  return version_word_of(dict);
}
#endif

bool can_watch_dicts() { return watcher() >= 0; }

void watch_dict(PyObject* dict, const std::shared_ptr<Touched>& touched) {
  Marks& marks = watched[dict];
  if (!marks.empty() && marks.back() == touched) return;
  std::erase_if(marks, [](const std::shared_ptr<Touched>& mark) { return mark.use_count() == 1; });  // programs ended
  marks.push_back(touched);
  if (PyDict_Watch(watcher(), dict) < 0) {
    PyErr_Clear();
    touched->is_so = true;
  }
}

#else

bool can_watch_dicts() { return false; }
void watch_dict(PyObject*, const std::shared_ptr<Touched>&) {}

#endif

}  // namespace framelift
