"""numpy.random's functions, which are methods of one RandomState: every call draws from the real one, before the graph.

Captured code is shown what a private copy draws.  Numbers are symbolic; arrays are inputs of the graph.  Seeds, states
and generators made inside are left to eager mode.
"""

from __future__ import annotations

import functools
from typing import Any

import torch

from ...boundary.becomes.arrays import array_over, numpy
from ...boundary.becomes.leaves import is_leaf
from ...calls.call_tables import substitute
from ...graph.symbols.meanings import Drawn
from ...graph.symbols.numpy_numbers import SCALARS
from ...recording.drawn_numbers import STATES, may_follow
from ...recording.session import Session
from ...vocabulary.feature_state import FeatureState
from ...vocabulary.reasons import Interrupt

#: methods that draw and do nothing else, of plain values; the numbers among their arguments say how many and between
#: what bounds
_DRAWS = "rand randn random random_sample uniform normal standard_normal randint choice permutation beta gamma poisson"
#: external ones and private copies of them, by the ids of their sources
_COPIES: FeatureState[dict[int, tuple[Any, Any]]] = FeatureState(dict)


def _is_plain_data(value: Any) -> bool:
    if type(value) in (list, tuple):
        return all(map(_is_plain_data, value))
    return is_leaf(value) and type(value) in (int, float, bool, str, type(None))


def _frozen(value: Any) -> Any:
    """Lists as tuples, which nobody changes later."""
    return tuple(map(_frozen, value)) if type(value) in (list, tuple) else value


def _draw(session: Session, callable_: Any, generator: Any, /, *args: Any, **kwargs: Any) -> Any:
    record, name = session.record_of(generator), f"numpy.random.{callable_.__name__}"
    if record is None or type(generator._bit_generator) is not numpy.random.MT19937:
        raise Interrupt("unknown-callable", f"{name} of a generator that was made inside, or that is another one")
    if not all(map(_is_plain_data, (*args, *kwargs.values()))):
        raise Interrupt("unknown-callable", f"{name} of other than plain values")
    copies, source = _COPIES.of(session), id(generator._bit_generator)
    if source not in copies:
        copies[source] = generator, numpy.random.RandomState()
        copies[source][1].set_state(generator.get_state(legacy=False))
    owner, copy = copies[source]
    if owner is not generator:
        raise Interrupt("unknown-callable", f"{name} of one of two generators with one source")
    given, named = _frozen(args), {key: _frozen(value) for key, value in kwargs.items()}
    hint = callable_(copy, *given, **named)
    kind = getattr(torch, hint.dtype.name, None) if type(hint) is numpy.ndarray else None
    number = type(hint) is float or type(hint) in SCALARS or type(hint) is int and -(2**62) < hint < 2**62
    if not may_follow(session, "numpy's generator") or not number and type(kind) is not torch.dtype:
        raise Interrupt("random-state", "numpy's generator")
    symbols = session.recorder.with_symbols()
    drawing = functools.partial(callable_, **named) if named else callable_
    meaning = Drawn(drawing, given, record.origin)
    if number:
        return symbols.drawn(meaning, hint, f"{name}()")
    tensor = torch.from_numpy(hint)
    symbols.drawn_tensor(meaning, tensor)
    drawn = session.recorder.stand_in(tensor, "drawn")
    return array_over(session.recorder.call(torch.clone, (drawn,), {}), owns=True)


if numpy is not None:
    _KIND = numpy.random.RandomState
    STATES[_KIND] = lambda one: one.get_state(legacy=False), lambda one, state: one.set_state(state)
    substitute(*(getattr(_KIND, name) for name in _DRAWS.split() if hasattr(_KIND, name)))(_draw)
