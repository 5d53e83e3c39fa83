import torch


def inputs():
    return (torch.ones(4),)


def broken(x):
    largest = x.abs().max().item()
    return x / largest


def fixed(x):
    largest = x.abs().max()
    return x / largest
