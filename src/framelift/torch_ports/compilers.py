"""AOTAutograd and what a compiled graph leaves in its caches."""

from .port import area, parts

__getattr__ = area(
    globals(),
    "backends that are made of AOTAutograd",
    parts(
        "torch.distributed.tensor.debug",
        "keep what compilers trace out of torch's records of distributed tensors",
        "_clear_sharding_prop_cache",
    ),
    parts("torch._functorch.aot_autograd", "trace the backward of a graph", "aot_module_simplified"),
    parts(
        "torch._functorch._aot_autograd.autograd_cache",
        "start warm from AOTAutograd's cache",
        "AOTAutogradCache autograd_cache_module=",
    ),
    parts("torch._functorch.config", "read and set AOTAutograd's settings", "aot_config="),
    parts(
        "torch._functorch.partitioners",
        "decide what a forward saves for its backward",
        "min_cut_rematerialization_partition",
    ),
    parts(
        "torch.compiler._cache",
        "take part in torch.compiler.save_cache_artifacts",
        "CacheArtifact CacheArtifactFactory CacheArtifactManager",
    ),
    parts(
        "torch._dynamo.compiled_autograd",
        "capture backward passes",
        "enable_compiled_autograd=_enable",
        lost="config.compiled_autograd",
    ),
    parts("torch", "compile with options={'use_aoti': True}", "_TorchCompileAOTInductorWrapper"),
)
