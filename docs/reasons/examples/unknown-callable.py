import time

import torch


def inputs():
    return (torch.ones(4),)


def broken(x, now=None):
    return x * time.time()


def fixed(x, now=None):
    return x * now if now is not None else x      # the caller passes torch.tensor(time.time())
