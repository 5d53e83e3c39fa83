"""Calls of module wrappers reach the compiled callable natively: what a call hands over, and each change that leads
elsewhere, beside the same calls of the plain module."""

import types

import pytest
import torch

import framelift


class Passes(torch.nn.Module):
    def forward(self, *args, **kwargs):
        return args, kwargs, torch.stack([*args, *kwargs.values()]).sum()


def _wrapped(module=None):
    return framelift.compile(module or Passes(), backend="eager")


def test_arguments_are_those_of_a_call() -> None:
    plain, wrapper = Passes(), _wrapped()
    one, two = torch.ones(2), torch.full((2,), 2.0)
    given, named = (one,), {"b": two, "a": one}
    for _ in range(4):
        for module in (plain, wrapper):
            args, kwargs, total = module(*given, **named)
            assert args == given and args is not given and kwargs is not named
            assert list(kwargs) == ["b", "a"] and kwargs["b"] is two and total == 8
            assert module(one)[1] == {} and module(b=one)[0] == ()
    assert named == {"b": two, "a": one} and wrapper._compiled.hits == 12


def test_keywords_that_functions_write_to_are_their_own() -> None:
    class Pops(torch.nn.Module):
        def forward(self, **kwargs):
            kwargs["y"] = kwargs.pop("x") + 1
            return kwargs

    for module in (Pops(), _wrapped(Pops())):
        for _ in range(3):
            named = {"x": torch.ones(1)}
            assert list(module(**named)) == ["y"] and list(named) == ["x"]


@pytest.mark.parametrize("named", [{"self": torch.ones(1)}, {1: torch.ones(1)}])
def test_misfits_raise_as_before(named) -> None:
    def message(module):
        with pytest.raises(TypeError) as raised:
            module(torch.ones(1), **named)
        return str(raised.value)

    wrapper = _wrapped()
    wrapper(torch.ones(1))
    assert message(Passes()) == message(wrapper)


def test_names_of_a_class_of_strings() -> None:
    class Name(str):
        pass

    for module in (Passes(), _wrapped()):
        for _ in range(3):
            assert module(**{Name("x"): torch.ones(1)})[2] == 1


def test_another_callable_in_the_wrapper() -> None:
    wrapper = _wrapped()
    assert wrapper(torch.ones(1))[2] == 1
    kept = wrapper.__dict__["_call"]
    wrapper.__dict__["_call"] = lambda *args, **kwargs: (args, kwargs)
    assert wrapper(1, a=2) == ((1,), {"a": 2})
    wrapper.__dict__["_call"] = kept
    assert wrapper(torch.ones(1))[2] == 1 and kept.hits == 2
    del wrapper.__dict__["_call"]
    with pytest.raises(AttributeError):
        wrapper(torch.ones(1))


def test_another_call_of_the_class(monkeypatch: pytest.MonkeyPatch) -> None:
    wrapper = _wrapped()
    assert wrapper(torch.ones(1))[2] == 1
    with monkeypatch.context() as patch:
        patch.setattr(framelift.OptimizedModule, "__call__", lambda self, x: "patched")
        assert wrapper(torch.ones(1)) == "patched"
    assert wrapper(torch.ones(1))[2] == 1
    with monkeypatch.context() as patch:
        patch.setattr(framelift.OptimizedModule, "_call", property(lambda self: lambda x: "patched"), raising=False)
        assert wrapper(torch.ones(1)) == "patched"
    assert wrapper(torch.ones(1))[2] == 1


def test_subclasses_of_the_wrapper() -> None:
    class Counted(framelift.OptimizedModule):
        calls = 0

        @property
        def __call__(self):
            Counted.calls += 1
            return self._call

    made = _wrapped()
    counted = Counted(made._orig_mod, made._compiled)
    for _ in range(3):
        assert counted(torch.ones(1))[2] == 1
    assert Counted.calls == 3 and made._compiled.hits == 3


def test_hooks_that_come_later_and_stances() -> None:
    wrapper, seen = _wrapped(), []
    assert wrapper(torch.ones(1))[2] == 1
    with framelift.set_stance("force_eager"):
        assert wrapper(torch.ones(1))[2] == 1
    assert wrapper._compiled.hits == 1
    wrapper.register_forward_hook(lambda module, args, result: seen.append(module))
    assert wrapper(torch.ones(1))[2] == 1
    assert seen == [wrapper] and wrapper._compiled.hits == 2


def test_a_call_that_replaces_its_own_callable() -> None:
    class Replaces(torch.nn.Module):
        def forward(self, x):
            holder.wrapper.__dict__.pop("_call", None)
            return x + 1

    holder = types.SimpleNamespace(wrapper=None)
    wrapper = holder.wrapper = _wrapped(Replaces())
    assert wrapper(torch.ones(1)) == 2


def test_what_is_raised_comes_of_the_plain_module() -> None:
    class Raises(torch.nn.Module):
        def forward(self, *args, **kwargs):
            raise ValueError(len(args), sorted(kwargs))

    for module in (Raises(), _wrapped(Raises())):
        for _ in range(3):
            with pytest.raises(ValueError) as raised:
                module(torch.ones(1), b=torch.ones(1), a=2)
            assert raised.value.args == (1, ["a", "b"])
