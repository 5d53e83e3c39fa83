"""One record for each code object, for as long as the code lives."""

from __future__ import annotations

import gc
from typing import Any

from framelift.vocabulary import code_knowledge
from framelift.vocabulary.code_knowledge import CodeKnowledge, forget, knowledge_of


def _made() -> Any:
    space: dict[str, Any] = {}
    exec("def f(): pass", space)
    return space["f"]


def test_changes_are_kept_until_they_are_forgotten() -> None:
    code = _made().__code__
    knowledge_of(code).lesson("reads_receivers")()
    assert knowledge_of(code).reads_receivers and knowledge_of(code) != CodeKnowledge()
    forget()
    assert knowledge_of(code) == CodeKnowledge()


def test_no_code_is_kept_alive() -> None:
    forget()
    function = _made()
    knowledge_of(function.__code__)
    assert len(code_knowledge._known) == 1
    del function
    gc.collect()
    assert len(code_knowledge._known) == 0
