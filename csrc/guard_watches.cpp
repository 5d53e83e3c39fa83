// See guard_watches.h.  CPython has eight watchers, so all programs share one.  A dictionary stays watched for its
// life: one that is let go of would get another version.
#include "guard_watches.h"

#include <unordered_map>
#include <vector>

#include "barrier.h"
#include "frames.h"
#include "reference.h"

namespace framelift {

#if PY_VERSION_HEX >= 0x030c0000

using Marks = std::vector<std::shared_ptr<Touched>>;
static auto& watched = *new std::unordered_map<const PyObject*, Marks>;  // never freed: dictionaries outlive us

// Called before the change, whoever makes it: runs no code and allocates nothing.
static int on_change(PyDict_WatchEvent, PyObject* dict, PyObject*, PyObject*) noexcept {
#if PY_VERSION_HEX >= 0x030e0000
  version_word_of(dict) &= ((uint64_t)1 << kVersionShift) - 1;
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

#if PY_VERSION_HEX >= 0x030e0000
uint64_t give_dict_version(PyObject* dict) {
  static uint64_t last = 0;
  if (watcher() < 0) return 0;
  if (PyDict_Watch(watcher(), dict) < 0) return PyErr_Clear(), 0;
  return version_word_of(dict) |= ++last << kVersionShift;
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
