"""torch.export: from a captured graph to an ExportedProgram."""

from .port import A_CLASS, AN_ERROR, Port, area

__getattr__ = area(
    globals(),
    "export",
    Port("non_strict_utils", "torch._export.non_strict_utils", "export with torch's own checks"),
    Port(
        "produce_guards_and_solve_constraints",
        "torch._export.non_strict_utils:produce_guards_and_solve_constraints",
        "check dynamic shapes of an export",
    ),
    Port("fakify_params_buffers", "torch._export.utils:_fakify_params_buffers", "export parameters and buffers"),
    Port("export_utils", "torch._export.utils", "make ExportedPrograms"),
    Port("verifier", "torch._export.verifier", "make ExportedPrograms"),
    Port("wrap_submodules", "torch._export.wrappers:_wrap_submodules", "keep calls of submodules in an export"),
    Port("trace_module", "torch.export._trace", "make ExportedPrograms"),
    Port("export_config", "torch._export.config", "follow torch.export's options"),
    Port("UserError", "torch.export._trace:UserError", "raise the errors of torch.export", instead=AN_ERROR),
    Port("UserErrorType", "torch.export._trace:UserErrorType", "raise the errors of torch.export", instead=A_CLASS),
    Port("draft_export", "torch.export._draft_export:draft_export", "report all that an export fails for"),
    Port(
        "ignore_backend_decomps",
        "torch.export._trace:_ignore_backend_decomps",
        "export without what kernels of this machine ask of sizes",
    ),
    Port(
        "check_input_constraints_pre_hook",
        "torch.export._unlift:_check_input_constraints_pre_hook",
        "check the inputs of exported programs",
    ),
)
