"""Operators, their overloads, higher-order operators, and the libraries that register them."""

from .port import Port, area, parts

__getattr__ = area(
    globals(),
    "custom operators and higher-order operators inside graphs",
    parts("torch.distributed._functional_collectives", "record collectives in graphs", "collectives="),
    parts("torch.distributed.distributed_c10d", "record collectives in graphs", "distributed_c10d="),
    parts("torch", "record collectives in graphs", "collective_operators=ops._c10d_functional"),
    parts("torch._ops", "know operators that take functions", "HigherOrderOperator"),
    parts("torch._ops", "know operators", "OpOverload OpOverloadPacket OperatorBase"),
    parts("torch._ops", "know torch.ops and its parts", "_OpNamespace _Ops"),
    parts("torch", "write assertions on numbers into graphs", "ops.aten._assert_scalar"),
    parts("torch._library.custom_ops", "know functions of torch.library.custom_op", "CustomOpDef"),
    parts("torch._library.custom_ops", "find functions of torch.library.custom_op in another process", "OPDEFS"),
    parts("torch._library.fake_class_registry", "describe script objects", "fake_class_registry= FakeScriptObject"),
    Port(
        "is_custom_class",
        "torch._library.opaque_object:is_custom_class",
        "know which classes operators and graphs may hold instances of",
        others=("torch._library.opaque_object:is_opaque_type",),
    ),
    parts("torch._decomp", "run torch's kernels in Python without importing TorchDynamo", "global_decomposition_table"),
    parts("torch._decomp", "compile operations on floats that change", "decomposition_table"),
    parts("torch._higher_order_ops", "capture invoke_quant", "InvokeQuant"),
    parts("torch._higher_order_ops.base_hop", "capture invoke_quant and operators like it", "BaseHOP"),
    parts(
        "torch._higher_order_ops.invoke_subgraph",
        "capture torch.compiler.nested_compile_region as a region",
        "invoke_subgraph_placeholder",
    ),
    parts("torch._higher_order_ops.torchbind", "capture methods of script objects", "call_torchbind"),
    parts(
        "torch._higher_order_ops.triton_kernel_wrap",
        "capture Triton kernels",
        "get_mutated_tensors kernel_side_table triton_kernel_wrapper_mutation",
    ),
    parts("torch._higher_order_ops.utils", "export autograd.Function", "reenter_make_fx unique_graph_id"),
    parts("torch._higher_order_ops.wrap", "compile activation checkpoints", "tag_activation_checkpoint"),
)
