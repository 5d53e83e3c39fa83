// The extension module framelift._core: collects what the other files offer.
#include "barrier.h"
#include "entry_steps.h"
#include "handle_reads.h"
#include "layouts.h"
#include "marked_ids.h"
#include "paths.h"
#include "places.h"
#include "reference.h"
#include "remembered.h"
#include "state.h"

namespace framelift {

static PyModuleDef definition = {PyModuleDef_HEAD_INIT, "framelift._core",
                                 "Native core of framelift: frame hook, probes, guard programs.", -1, nullptr};

static PyObject* make_module() {
  Ref module = Ref::steal(PyModule_Create(&definition));
  if (!module) return nullptr;
  for (auto init :
       {init_connections, init_hook, init_probes, init_guards, init_entries, init_compiled, init_memory,
        init_memory_pattern, init_places, init_instances, init_resume, init_sets, init_lru_caches, init_tensor_reads,
        init_evaluator, init_outside, init_scopes, init_graph_calls, init_paths, init_guard_tree, init_guard_log,
        init_module_calls, init_remembered, init_entry_steps, init_handle_reads, init_marked_ids, init_layouts})
    if (!init(module.get())) return nullptr;
  return module.release();
}

}  // namespace framelift

PyMODINIT_FUNC PyInit__core() { return framelift::slot<framelift::make_module>(); }
