"""Places of values in the words of TorchDynamo's graphs."""

from __future__ import annotations

import torch

from framelift.graph.fx.named_places import NamedPlaces
from framelift.graph.fx.placeholder_names import source_name
from framelift.graph.fx.named_places import module_path, source_text, state_name
from framelift.vocabulary.origins import arg, const

SCALE = {"by": torch.ones(2)}


def _closure() -> tuple[object, object]:
    w = {"a": torch.ones(2)}

    def inner() -> object:
        return w

    return inner, w


def test_places_are_called_alike_whatever_was_asked_before() -> None:
    places = NamedPlaces()
    module = arg(0, "self").to("dict").to("item", "_modules").to("item", "fc")
    weight = module.to("dict").to("item", "_parameters").to("item", "weight")
    for asked in (places, NamedPlaces(), places):  # known, anew, known
        assert source_text(weight, asked) == "L['self']._modules['fc']._parameters['weight']"
        assert state_name(weight, asked) == "fc.weight" and state_name(module, asked) == ""
        assert module_path(module, asked) == "L['self'].fc"
        assert source_name(weight, asked) == "L_self_modules_fc_parameters_weight_"
        assert source_name(arg(0, "self").to("dict").to("item", "scale"), asked) == "L_self_scale"


def test_globals_and_variables_of_closures_begin_a_place() -> None:
    inner, _ = _closure()
    cell = const(inner).to("cell", 0).to("contents")
    for places in (NamedPlaces(), NamedPlaces()):
        assert source_text(cell, places) == "L['w']"
        assert source_text(cell.to("item", "a"), places) == "L['w']['a']"
        assert source_name(cell.to("item", "a"), places) == "L_w_a_"
        scale = const(globals()).to("item", "SCALE")
        assert source_text(scale, places) == "G['SCALE']"
        assert source_text(scale.to("item", "by"), places) == "G['SCALE']['by']"
        assert source_text(scale.to("dict").to("item", "by"), places) == "G['SCALE'].by"
        assert source_name(scale.to("item", "by"), places) == "G_SCALE_by_"
        assert module_path(scale.to("item", "by"), places) == "G['SCALE'].by"


def test_a_key_of_the_program_is_asked_for_its_text_only_for_names() -> None:
    class Key:
        def __str__(self) -> str:
            raise AssertionError("asked")

    assert "Key" in source_text(arg(0, "d").to("item", Key()))
