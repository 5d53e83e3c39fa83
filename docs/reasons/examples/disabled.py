import torch


def inputs():
    return (torch.ones(4),)


@torch.compiler.disable
def slow(x):
    return x + 1


def quick(x):
    return x + 1


def broken(x):
    return slow(x) * 2


def fixed(x):
    return quick(x) * 2
