"""Operators, their overloads, higher-order operators, and the libraries that register them."""

from .port import A_CLASS, Port, area

__getattr__ = area(
    globals(),
    "custom operators and higher-order operators inside graphs",
    Port("collectives", "torch.distributed._functional_collectives", "record collectives in graphs"),
    Port("distributed_c10d", "torch.distributed.distributed_c10d", "record collectives in graphs"),
    Port("collective_operators", "torch:ops._c10d_functional", "record collectives in graphs"),
    Port(
        "HigherOrderOperator", "torch._ops:HigherOrderOperator", "know operators that take functions", instead=A_CLASS
    ),
    Port("OpOverload", "torch._ops:OpOverload", "know operators", instead=A_CLASS),
    Port("OpOverloadPacket", "torch._ops:OpOverloadPacket", "know operators", instead=A_CLASS),
    Port("OperatorBase", "torch._ops:OperatorBase", "know operators", instead=A_CLASS),
    Port("OpNamespace", "torch._ops:_OpNamespace", "know torch.ops and its parts", instead=A_CLASS),
    Port("Ops", "torch._ops:_Ops", "know torch.ops and its parts", instead=A_CLASS),
    Port("assert_scalar", "torch:ops.aten._assert_scalar", "write assertions on numbers into graphs"),
    Port(
        "CustomOpDef",
        "torch._library.custom_ops:CustomOpDef",
        "know functions of torch.library.custom_op",
        instead=A_CLASS,
    ),
    Port("OPDEFS", "torch._library.custom_ops:OPDEFS", "find functions of torch.library.custom_op in another process"),
    Port("fake_class_registry", "torch._library.fake_class_registry", "describe script objects"),
    Port(
        "FakeScriptObject",
        "torch._library.fake_class_registry:FakeScriptObject",
        "describe script objects",
        instead=A_CLASS,
    ),
    Port(
        "is_custom_class",
        "torch._library.opaque_object:is_custom_class",
        "know which classes operators and graphs may hold instances of",
        others=("torch._library.opaque_object:is_opaque_type",),
    ),
    Port(
        "global_decomposition_table",
        "torch._decomp:global_decomposition_table",
        "run torch's kernels in Python without importing TorchDynamo",
    ),
    Port("decomposition_table", "torch._decomp:decomposition_table", "compile operations on floats that change"),
    Port("InvokeQuant", "torch._higher_order_ops:InvokeQuant", "capture invoke_quant", instead=A_CLASS),
    Port(
        "BaseHOP",
        "torch._higher_order_ops.base_hop:BaseHOP",
        "capture invoke_quant and operators like it",
        instead=A_CLASS,
    ),
    Port(
        "invoke_subgraph_placeholder",
        "torch._higher_order_ops.invoke_subgraph:invoke_subgraph_placeholder",
        "capture torch.compiler.nested_compile_region as a region",
    ),
    Port("call_torchbind", "torch._higher_order_ops.torchbind:call_torchbind", "capture methods of script objects"),
    Port(
        "get_mutated_tensors",
        "torch._higher_order_ops.triton_kernel_wrap:get_mutated_tensors",
        "capture Triton kernels",
    ),
    Port("kernel_side_table", "torch._higher_order_ops.triton_kernel_wrap:kernel_side_table", "capture Triton kernels"),
    Port(
        "triton_kernel_wrapper_mutation",
        "torch._higher_order_ops.triton_kernel_wrap:triton_kernel_wrapper_mutation",
        "capture Triton kernels",
    ),
    Port("reenter_make_fx", "torch._higher_order_ops.utils:reenter_make_fx", "export autograd.Function"),
    Port("unique_graph_id", "torch._higher_order_ops.utils:unique_graph_id", "export autograd.Function"),
    Port(
        "tag_activation_checkpoint",
        "torch._higher_order_ops.wrap:tag_activation_checkpoint",
        "compile activation checkpoints",
    ),
)
