import torch


def inputs():
    return (torch.ones(4),)


def broken(x):
    if x.mean() > 0:
        return x * 2
    return x - 1


def fixed(x):
    return torch.where(x.mean() > 0, x * 2, x - 1)
