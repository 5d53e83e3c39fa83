"""Differentiation, function transforms, and the state that belongs to them."""

from .port import A_CLASS, Port, area

__getattr__ = area(
    globals(),
    "training and function transforms inside graphs",
    Port("set_grad_enabled", "torch._C:_set_grad_enabled", "switch gradients in graphs and entries", "every capture"),
    Port(
        "is_grad_enabled",
        "torch._C:is_grad_enabled",
        "read whether gradients are on",
        others=("torch:is_grad_enabled",),
    ),
    Port("enter_inference_mode", "torch.autograd.grad_mode:_enter_inference_mode", "switch inference mode in graphs"),
    Port("exit_inference_mode", "torch.autograd.grad_mode:_exit_inference_mode", "switch inference mode in graphs"),
    Port("is_fwd_grad_enabled", "torch._C:_is_fwd_grad_enabled", "read and switch forward-mode differentiation"),
    Port("set_fwd_grad_enabled", "torch._C:_set_fwd_grad_enabled", "read and switch forward-mode differentiation"),
    Port("exit_dual_level", "torch._C:_exit_dual_level", "capture forward-mode differentiation"),
    Port(
        "dual_level", "torch.autograd.forward_ad:_current_level", "capture forward-mode differentiation", variable=True
    ),
    Port("make_dual", "torch:_make_dual", "capture forward-mode differentiation"),
    Port("unpack_dual", "torch:_unpack_dual", "capture forward-mode differentiation"),
    Port("FunctionBase", "torch._C:_FunctionBase", "know the contexts of autograd.Function", instead=A_CLASS),
    Port(
        "SingleLevelFunction",
        "torch.autograd.function:_SingleLevelFunction",
        "read which methods an autograd.Function overrides",
        instead=A_CLASS,
    ),
    Port("engine_run_backward", "torch.autograd.graph:_engine_run_backward", "tell a program's own backward calls"),
    Port("autograd_functions", "torch._C._autograd", "find the C functions of autograd"),
    Port("get_creation_meta", "torch._C._autograd:_get_creation_meta", "know how views may be written to"),
    Port("get_data_attr", "torch._C._autograd:_get_data_attr", "capture Tensor.data"),
    Port(
        "unsafe_set_version_counter",
        "torch._C._autograd:_unsafe_set_version_counter",
        "put back version counters after a failed graph",
    ),
    Port("push_saved_hooks", "torch._C._autograd:_push_saved_tensors_default_hooks", "capture hooks on saved tensors"),
    Port("pop_saved_hooks", "torch._C._autograd:_pop_saved_tensors_default_hooks", "capture hooks on saved tensors"),
    Port("top_saved_hooks", "torch._C._autograd:_top_saved_tensors_default_hooks", "capture hooks on saved tensors"),
    Port("saved_hooks_disable", "torch._C._autograd:_saved_tensors_hooks_disable", "capture hooks on saved tensors"),
    Port("saved_hooks_enable", "torch._C._autograd:_saved_tensors_hooks_enable", "capture hooks on saved tensors"),
    Port(
        "saved_hooks_error",
        "torch._C._autograd:_saved_tensors_hooks_get_disabled_error_message",
        "capture hooks on saved tensors",
    ),
    Port("torch_c", "torch._C", "find the C functions of forward-mode differentiation"),
    Port("functorch", "torch._C._functorch", "capture function transforms"),
    Port("is_batchedtensor", "torch._C._functorch:is_batchedtensor", "capture torch.cond below vmap"),
    Port(
        "is_functorch_wrapped_tensor",
        "torch._C._functorch:is_functorch_wrapped_tensor",
        "know tensors of function transforms",
    ),
    Port(
        "peek_interpreter_stack", "torch._C._functorch:peek_interpreter_stack", "see function transforms around a call"
    ),
    Port("eager_transforms", "torch._functorch.eager_transforms", "capture function transforms"),
    Port("vmap_module", "torch._functorch.vmap", "capture function transforms"),
    Port("predispatch", "torch._functorch.predispatch", "capture function transforms", instead=None),
    Port("autograd_function_module", "torch._functorch.autograd_function", "export autograd.Function"),
)
