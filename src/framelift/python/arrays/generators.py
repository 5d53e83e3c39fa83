"""numpy's Generator and RandomState, and numpy.random's functions, which are methods of one: every call draws from the
real generator, before the graph.

Captured code is shown what a private copy draws.  Numbers are symbolic; arrays are inputs of the graph.  Seeds and
states are left to eager mode.  What captured code makes with a seed of its own gives constants.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import torch

from ...boundary.becomes.arrays import array_over, numpy
from ...boundary.becomes.leaves import is_leaf
from ...calls.call_tables import substitute
from ...graph.symbols.meanings import Drawn
from ...graph.symbols.numpy_numbers import SCALARS
from ...recording.drawn_numbers import STATES, may_follow
from ...vocabulary.feature_state import FeatureState
from ...vocabulary.reasons import Interrupt
from .functions import constant_array

if TYPE_CHECKING:
    from ...recording.session import Session

#: methods that draw and do nothing else, of plain values; the numbers among their arguments say how many and between
#: what bounds
_DRAWS = """
    rand randn random random_sample ranf sample uniform normal standard_normal randint integers random_integers
    choice permutation exponential standard_exponential beta gamma standard_gamma poisson binomial geometric laplace
    logistic lognormal gumbel triangular vonmises weibull rayleigh chisquare pareto power multinomial dirichlet
"""


#: private copies of external generators and of their sources, and generators made inside, by id
_COPIES: FeatureState[dict[int, Any]] = FeatureState(dict)
_MADE: FeatureState[dict[int, Any]] = FeatureState(dict)


def _is_plain_data(value: Any) -> bool:
    if type(value) in (list, tuple):
        return all(map(_is_plain_data, value))
    return is_leaf(value) and type(value) in (int, float, bool, str, type(None))


def _copy(session: Session, generator: Any) -> Any:
    """The private copy that this rehearsal draws from, sharing its source; None where it cannot be copied."""
    source, copies = generator._bit_generator, _COPIES.of(session)
    legacy = type(generator) is numpy.random.RandomState
    if type(source) not in ((numpy.random.MT19937,) if legacy else _SOURCES):
        return None
    if id(source) not in copies:
        copies[id(source)] = type(source)()
        copies[id(source)].state = source.state
    if id(generator) not in copies:
        made = copies[id(generator)] = type(generator)(copies[id(source)])
        if legacy:  # it keeps a number for the next time
            made.set_state({**generator.get_state(legacy=False), **made._bit_generator.state})
    return copies[id(generator)]


def _frozen(value: Any) -> Any:
    """Lists as tuples, which nobody changes later."""
    return tuple(map(_frozen, value)) if type(value) in (list, tuple) else value


def _make(session: Session, callable_: Any, /, *args: Any, **kwargs: Any) -> Any:
    """A generator with a seed: what it draws is known."""
    if (
        len(args) + len(kwargs) != 1
        or kwargs.keys() - {"seed"}
        or type(next(iter((*args, *kwargs.values())))) is not int
    ):
        raise Interrupt("unknown-callable", f"numpy.random.{callable_.__name__} without a plain seed")
    made = callable_(*args, **kwargs)
    _MADE.of(session)[id(made)] = made
    return made


def _known(session: Session, callable_: Any, generator: Any, /, *args: Any, **kwargs: Any) -> Any:
    """Draw from a generator made inside."""
    found = callable_(generator, *args, **kwargs) if all(map(_is_plain_data, (*args, *kwargs.values()))) else None
    shown = found if type(found) in (int, float) or type(found) in SCALARS else constant_array(session, found)
    if shown is None:
        raise Interrupt(
            "unknown-callable", f"numpy.random.{callable_.__name__} of many numbers, or of other than plain values,"
        )
    return shown


def _draw(session: Session, callable_: Any, generator: Any, /, *args: Any, **kwargs: Any) -> Any:
    recorder = session.recorder
    if id(generator) in _MADE.of(session):
        return _known(session, callable_, generator, *args, **kwargs)
    record = session.record_of(generator)
    name = f"numpy.random.{callable_.__name__}"
    copy = _copy(session, generator) if record is not None else None
    if record is None or copy is None or not all(map(_is_plain_data, (*args, *kwargs.values()))):
        raise Interrupt("unknown-callable", f"{name} of other than plain values")
    given, named = _frozen(args), {key: _frozen(value) for key, value in kwargs.items()}
    hint = callable_(copy, *given, **named)
    tensor = (
        torch.from_numpy(hint)
        if type(hint) is numpy.ndarray and type(getattr(torch, hint.dtype.name, None)) is torch.dtype
        else None
    )
    number = type(hint) is float or type(hint) in SCALARS or type(hint) is int and -(2**62) < hint < 2**62
    if not may_follow(session, "numpy's generator") or tensor is None and not number:
        raise Interrupt("random-state", "numpy's generator")
    symbols, meaning = (
        recorder.with_symbols(),
        Drawn(functools.partial(callable_, **named) if named else callable_, given, record.origin),
    )
    if tensor is None:
        return symbols.drawn(meaning, hint, f"{name}()")
    symbols.drawn_tensor(meaning, tensor)
    return array_over(recorder.call(torch.clone, (recorder.stand_in(tensor, "drawn"),), {}), owns=True)


def _set_source(generator: Any, state: Any) -> None:
    generator.bit_generator.state = state


_SOURCES: tuple[type, ...] = ()
if numpy is not None:
    _SOURCES = tuple(
        getattr(numpy.random, _name)
        for _name in ("MT19937", "PCG64", "PCG64DXSM", "Philox", "SFC64")
        if hasattr(numpy.random, _name)
    )
    STATES[numpy.random.RandomState] = lambda one: one.get_state(legacy=False), lambda one, state: one.set_state(state)
    STATES[numpy.random.Generator] = lambda one: one.bit_generator.state, _set_source
    substitute(numpy.random.RandomState, numpy.random.default_rng)(_make)
    for _kind in (numpy.random.RandomState, numpy.random.Generator):
        substitute(*(getattr(_kind, _name) for _name in _DRAWS.split() if hasattr(_kind, _name)))(_draw)
