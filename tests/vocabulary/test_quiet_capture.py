"""Collections and warnings are held back in one thread, and the process's switches for them are as before."""

from __future__ import annotations

import gc
import threading
import warnings

from framelift.vocabulary.quiet_capture import (
    collections_as_usual,
    no_collections,
    quietly,
    silenced,
    watching_warnings,
)


def test_no_collection_begins_within() -> None:
    before = gc.get_threshold()
    with no_collections():
        assert gc.get_threshold()[0] == 0 and gc.isenabled()
        with collections_as_usual():
            assert gc.get_threshold() == before
        assert gc.get_threshold()[0] == 0
    assert gc.get_threshold() == before


def test_a_threshold_that_somebody_else_sets_stays() -> None:
    before = gc.get_threshold()
    try:
        with no_collections():
            gc.set_threshold(123, 4, 5)
        assert gc.get_threshold() == (123, 4, 5)
    finally:
        gc.set_threshold(*before)


def test_warnings_are_nothing_in_this_thread_alone() -> None:
    def warn() -> None:
        warnings.warn("said", UserWarning, stacklevel=1)

    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        count = silenced()
        with quietly():
            warn()
            other = threading.Thread(target=warn)
            other.start()
            other.join()
        assert len(heard) == 1 and silenced() == count + 1
        warn()
        assert len(heard) == 2


def test_filters_that_are_added_within_stay() -> None:
    with warnings.catch_warnings():
        filters = warnings.filters
        with watching_warnings():
            warnings.filterwarnings("ignore", "a text of this test")
        assert warnings.filters is filters
        assert any(row[1] is not None and row[1].pattern == "a text of this test" for row in filters)
