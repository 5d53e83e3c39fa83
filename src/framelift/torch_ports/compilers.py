"""AOTAutograd and what a compiled graph leaves in its caches."""

from .port import A_CLASS, Port, area

__getattr__ = area(
    globals(),
    "backends that are made of AOTAutograd",
    Port(
        "clear_sharding_prop_cache",
        "torch.distributed.tensor.debug:_clear_sharding_prop_cache",
        "keep what compilers trace out of torch's records of distributed tensors",
    ),
    Port(
        "aot_module_simplified", "torch._functorch.aot_autograd:aot_module_simplified", "trace the backward of a graph"
    ),
    Port(
        "AOTAutogradCache",
        "torch._functorch._aot_autograd.autograd_cache:AOTAutogradCache",
        "start warm from AOTAutograd's cache",
        instead=A_CLASS,
    ),
    Port(
        "autograd_cache_module", "torch._functorch._aot_autograd.autograd_cache", "start warm from AOTAutograd's cache"
    ),
    Port("aot_config", "torch._functorch.config", "read and set AOTAutograd's settings"),
    Port(
        "min_cut_rematerialization_partition",
        "torch._functorch.partitioners:min_cut_rematerialization_partition",
        "decide what a forward saves for its backward",
    ),
    Port(
        "CacheArtifact",
        "torch.compiler._cache:CacheArtifact",
        "take part in torch.compiler.save_cache_artifacts",
        instead=A_CLASS,
    ),
    Port(
        "CacheArtifactFactory",
        "torch.compiler._cache:CacheArtifactFactory",
        "take part in torch.compiler.save_cache_artifacts",
        instead=A_CLASS,
    ),
    Port(
        "CacheArtifactManager",
        "torch.compiler._cache:CacheArtifactManager",
        "take part in torch.compiler.save_cache_artifacts",
        instead=A_CLASS,
    ),
    Port(
        "enable_compiled_autograd",
        "torch._dynamo.compiled_autograd:_enable",
        "capture backward passes",
        "config.compiled_autograd",
    ),
    Port(
        "TorchCompileAOTInductorWrapper",
        "torch:_TorchCompileAOTInductorWrapper",
        "compile with options={'use_aoti': True}",
        instead=A_CLASS,
    ),
)
