"""Parts of torch that libraries read and set to live with a compiler: flags, logs, settings."""

from .port import Port, area

__getattr__ = area(
    globals(),
    "what torch's logs and libraries see of a capture",
    Port(
        "is_compiling_flag",
        "torch.compiler:_is_compiling_flag",
        "let torch.compiler.is_compiling() be true in a capture",
        variable=True,
    ),
    Port("disable_dynamo", "torch:_disable_dynamo", "run torch's kernels in Python without importing TorchDynamo"),
    Port("utils_is_compiling", "torch._utils:is_compiling", "answer it inside captured code"),
    Port("config_module", "torch.utils._config_module", "follow settings that a program writes"),
    Port("logging_internal", "torch._logging._internal", "write captures to torch's logs"),
    Port("get_artifact_logger", "torch._logging:getArtifactLogger", "write captures to torch's logs"),
    Port("from_traceback", "torch._logging.structured:from_traceback", "write captures to torch's structured trace"),
)
