"""print() into what was made inside: each argument is asked and written as CPython does it."""

import contextlib
import io

import pytest
import torch
from support import check


class _Text(str):
    __slots__ = ()

    def __str__(self):
        return f"<{super().__str__()}>"


class _Changing:
    """A file whose method is another one after its first use, and which counts who looks it up."""

    def __init__(self):
        self.lines, self.count = [], 0

    def write(self, text):
        self.lines.append(text)
        self.write = self.instead

    def instead(self, text):
        self.lines.append(("instead", text))

    def flush(self):
        self.lines.append("flush")


class _Asked:
    def __init__(self, lines):
        self.lines = lines

    def __bool__(self):
        self.lines.append("asked")
        return True

    def __str__(self):
        self.lines.append("text")
        return "a"


PRINTS = {
    "plain": lambda file: print(1, "a", None, file=file),
    "nothing": lambda file: print(file=file),
    "parts": lambda file: print(1, 2, sep="-", end="!", file=file),
    "parts of a subclass": lambda file: print(1, 2, sep=_Text("-"), end=_Text("!"), file=file),
    "a text of a subclass": lambda file: print(_Text("a"), _Text("b"), file=file),
    "a wrong part": lambda file: print(1, sep=2, file=file),
    "a wrong name": lambda file: print(1, other=2, file=file),
    "flush": lambda file: print(1, flush=[1], file=file),
}


@pytest.mark.parametrize("name", PRINTS)
@pytest.mark.parametrize("make", [io.StringIO, _Changing])
def test_print(name, make) -> None:
    def program(x):
        file = make()
        try:
            PRINTS[name](file)
        except TypeError as error:
            return x + 1, str(error), file.getvalue() if make is io.StringIO else file.lines
        return x + 1, file.getvalue() if make is io.StringIO else file.lines

    check(program, torch.ones(2))


def test_the_order_of_questions() -> None:
    def program(x):
        file = _Changing()
        print(_Asked(file.lines), _Asked(file.lines), flush=_Asked(file.lines), file=file)
        return x + 1, file.lines

    check(program, torch.ones(2))


def test_redirected() -> None:
    def program(x):
        with contextlib.redirect_stdout(io.StringIO()) as file:
            print(x.shape, sep="")
            print("a", end="")
        return x + 1, file.getvalue()

    check(program, torch.ones(2))
