"""Contents of torch._dynamo's names while the drop-in is installed: records, logs, caches, settings.

Nothing here imports TorchDynamo: each module is used when the program has done so.
"""
