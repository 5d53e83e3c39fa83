"""Damaged and hostile files in the folder of kept captures: none of them is used, none does any harm.

    python tests/cache/hostile.py --files 10000

A real capture is written, and for each number one file is made of it: bits flipped, cut off, parts swapped or taken
from another capture, other versions, signed with another key, moved to another place, or no plain file at all.  For
each the store must give nothing, and the untouched capture beside it must still be found.
"""

from __future__ import annotations

import argparse
import collections
import json
import os
import random
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import framelift
from framelift.cache import seal, store

__all__ = ["KINDS", "Place", "attack", "make_place"]

KEY, OTHER_KEY = "a1" * 20, "b2" * 20


class Place(NamedTuple):
    """A folder with two captures of two keys."""

    folder: Path
    whole: bytes
    other: bytes

    def path(self, key: str, name: str) -> Path:
        return self.folder / key[:2] / key / name


Kind = Callable[[random.Random, Place], bytes]


def _flipped(rng: random.Random, place: Place) -> bytes:
    content = bytearray(place.whole)
    for _ in range(rng.choice((1, 1, 1, 2, 8, 64))):
        content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
    return bytes(content) if bytes(content) != place.whole else _cut(rng, place)


def _cut(rng: random.Random, place: Place) -> bytes:
    return place.whole[: rng.randrange(len(place.whole))]


def _longer(rng: random.Random, place: Place) -> bytes:
    at = rng.randrange(len(place.whole) + 1)
    return place.whole[:at] + rng.randbytes(rng.randint(1, 40)) + place.whole[at:]


def _overwritten(rng: random.Random, place: Place) -> bytes:
    at = rng.randrange(len(place.whole))
    junk = rng.choice((bytes(rng.randint(1, 4096)), rng.randbytes(rng.randint(1, 200))))
    made = place.whole[:at] + junk + place.whole[at + len(junk) :]
    return made if made != place.whole else _cut(rng, place)


def _swapped(rng: random.Random, place: Place) -> bytes:
    """Two parts of the file change places."""
    a, b, c = sorted(rng.sample(range(len(place.whole)), 3))
    made = place.whole[:a] + place.whole[b:c] + place.whole[a:b] + place.whole[c:]
    return made if made != place.whole else _cut(rng, place)


def _grafted(rng: random.Random, place: Place) -> bytes:
    """The signature of one capture, the content of another; or one file up to some point, then the other."""
    if rng.random() < 0.3:
        head = place.whole.split(b"\n", 2)
        return b"\n".join([*head[:2], place.other.split(b"\n", 2)[2]])
    at = rng.randrange(1, min(len(place.whole), len(place.other)))
    made = place.whole[:at] + place.other[at:]
    return made if made not in (place.whole, place.other) else _cut(rng, place)


def _other_version(rng: random.Random, place: Place) -> bytes:
    head, rest = place.whole.split(b"\n", 1)
    version = b"%d" % rng.randint(2, 10**6)
    other = (head[:-1] + version, head + b" ", b"framelift", version, b"", head.upper())
    return rng.choice(other) + b"\n" + rest


def _forged(rng: random.Random, place: Place) -> bytes:
    """Signed, but not with the user's key; what it holds would end the process."""
    head, _, payload = place.whole.split(b"\n", 2)
    record = json.loads(payload)
    record["plan"] = ["import os\nos._exit(7)\n", {}, 0, False]
    content = json.dumps(record).encode()
    secret = rng.choice((rng.randbytes(32), b"", bytes(32), KEY.encode()))
    signature = rng.choice((seal.mac(secret, f"capture {KEY}", content), b"0" * 64, b"", payload[:64]))
    return head + b"\n" + signature + b"\n" + content


def _moved(rng: random.Random, place: Place) -> bytes:
    """A good file of another place."""
    return place.other


def _junk(rng: random.Random, place: Place) -> bytes:
    return rng.choice((b"", b"\n" * 99, rng.randbytes(rng.randint(1, 5000)), b"[" * 100_000, place.whole * 2))


CONTENTS: dict[str, Kind] = {
    "flipped": _flipped,
    "cut": _cut,
    "longer": _longer,
    "overwritten": _overwritten,
    "swapped": _swapped,
    "grafted": _grafted,
    "other version": _other_version,
    "forged": _forged,
    "moved": _moved,
    "junk": _junk,
}


def _link(rng: random.Random, place: Place, path: Path) -> None:
    path.symlink_to(rng.choice(("/dev/zero", "/etc/passwd", "nowhere", str(path), "..", str(place.folder / "key"))))


def _folder(rng: random.Random, place: Place, path: Path) -> None:
    path.mkdir()


def _pipe(rng: random.Random, place: Place, path: Path) -> None:
    os.mkfifo(path)


def _large(rng: random.Random, place: Place, path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(1 << 40)


def _link_to_another(rng: random.Random, place: Place, path: Path) -> None:
    path.hardlink_to(next(place.path(OTHER_KEY, "").glob("*.capture")))


#: what is no plain file of its own
TRICKS: dict[str, Callable[[random.Random, Place, Path], None]] = {
    "link": _link,
    "folder": _folder,
    "pipe": _pipe,
    "large": _large,
    "hard link": _link_to_another,
}
KINDS = (*CONTENTS, *CONTENTS, *CONTENTS, *TRICKS)
NAMES = ("f" * 32, "0", "..", " ", "a b", "\n", "ä", "%s", "-rf", "x" * 200, "key", "../../key".replace("/", "_"))


def make_place(folder: Path, records: list[bytes]) -> Place:
    """A folder with two captures, by the store's own hand.  `records`: contents of real ones."""
    for key, payload in zip((KEY, OTHER_KEY), records, strict=True):
        assert store.write(key, json.loads(payload))
    found = [next((folder / key[:2] / key).glob("*.capture")) for key in (KEY, OTHER_KEY)]
    return Place(folder, *[path.read_bytes() for path in found])


def attack(number: int, place: Place) -> str:
    """Put one hostile file in the folder, look, and take it away again.  The kind it was of."""
    rng = random.Random(number)
    kind = rng.choice(KINDS)
    good = next(place.path(KEY, "").glob("*.capture"))
    path = place.path(KEY, rng.choice(NAMES) + ".capture")
    if kind in TRICKS:
        TRICKS[kind](rng, place, path)
    else:
        path.write_bytes(CONTENTS[kind](rng, place))
    try:
        found = list(store.records(KEY))
        assert [one for one, _ in found] == [str(good)], f"{number}: {kind} {path.name!r} was used"
        assert number % 50 or store.write(KEY, found[0][1]), f"{number}: {kind} {path.name!r} stops writing"
    finally:
        path.rmdir() if kind == "folder" else path.unlink()
    return kind


def real_records() -> list[bytes]:
    """Contents of two captures."""
    import torch

    with tempfile.TemporaryDirectory() as folder, framelift.config.patch(cache=True, cache_dir=folder):
        for by in (2, 3):
            framelift.reset()
            framelift.compile(torch.nn.Linear(by, by), backend="eager")(torch.ones(1, by))
        return [path.read_bytes().split(b"\n", 2)[2] for path in sorted(Path(folder).rglob("*.capture"))]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--files", type=int, default=10_000)
    options = parser.parse_args()
    records = real_records()
    kinds: collections.Counter[str] = collections.Counter()
    with tempfile.TemporaryDirectory() as folder, framelift.config.patch(cache=True, cache_dir=folder):
        place = make_place(Path(folder), records)
        for number in range(options.files):
            kinds[attack(number, place)] += 1
    print(f"{options.files} hostile files, none used: {dict(kinds)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
