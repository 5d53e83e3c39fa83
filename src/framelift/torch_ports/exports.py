"""torch.export: from a captured graph to an ExportedProgram."""

from .port import area, parts

__getattr__ = area(
    globals(),
    "export",
    parts("torch._export.non_strict_utils", "export with torch's own checks", "non_strict_utils="),
    parts(
        "torch._export.non_strict_utils", "check dynamic shapes of an export", "produce_guards_and_solve_constraints"
    ),
    parts("torch._export.utils", "export parameters and buffers", "_fakify_params_buffers"),
    parts("torch._export.utils", "make ExportedPrograms", "export_utils="),
    parts("torch._export.verifier", "make ExportedPrograms", "verifier="),
    parts("torch._export.wrappers", "keep calls of submodules in an export", "_wrap_submodules"),
    parts("torch.export._trace", "make ExportedPrograms", "trace_module="),
    parts("torch._export.config", "follow torch.export's options", "export_config="),
    parts("torch.export._trace", "raise the errors of torch.export", "UserError UserErrorType"),
    parts("torch.export._draft_export", "report all that an export fails for", "draft_export"),
    parts("torch.export._trace", "export without what kernels of this machine ask of sizes", "_ignore_backend_decomps"),
    parts("torch.export._unlift", "check the inputs of exported programs", "_check_input_constraints_pre_hook"),
)
