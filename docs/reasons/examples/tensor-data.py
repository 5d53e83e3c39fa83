import torch


def inputs():
    return (torch.ones(4),)


def broken(x):
    return x + x.data_ptr() % 2


def fixed(x):
    return x + x.dim() % 2
