"""The file of a package: a zip archive of named parts, a manifest with their digests, and a signature.

Reading one runs nothing and writes nothing.  Parts are read into memory, under the names of `_PARTS` alone, and only
as the manifest says they are.  What is damaged, cut off or foreign is a `PackageError`: a package is asked for by the
user, so it is never passed over in silence.
"""

from __future__ import annotations

import hashlib
import hmac
import io
import json
import os
import re
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ..cache.files_below import replace_in
from ..exc import PackageError
from .signing import key_bytes, key_id, signature

#: how packages are written; to be raised when that changes
FORMAT = "framelift package 4"
_MANIFEST, _SIGNATURE = "manifest.json", "signature.json"
#: the names that parts have
_PARTS = re.compile(r"(?:captures|artifacts|libraries|compiled)/[0-9]{1,6}|weights\.safetensors")
_MOST_PARTS = 10_000
_MOST_BYTES = 1 << 38  # of all parts
_MOST_PLAIN = 1 << 28  # of the manifest
_TIME = (1980, 1, 1, 0, 0, 0)  # equal packages are equal files


@dataclass
class Container:
    """The content of a package: the manifest, and other parts by name."""

    manifest: dict[str, Any]
    parts: Mapping[str, bytes] = field(default_factory=dict)
    trusted: bool = False  # signed with a known key, or trusted by the user
    signed_by: str = ""  # the id of the key; "": nobody

    def part(self, name: str) -> bytes:
        found = self.parts.get(name)
        if found is None:
            raise PackageError(f"the package has no part {name}")
        return found

    def json(self, name: str) -> Any:
        """A part that is JSON."""
        return _json(self.part(name), name)


# ---- writing


def written(manifest: dict[str, Any], parts: Mapping[str, bytes], key: bytes | None) -> bytes:
    """The bytes of a package."""
    digests = {name: [len(content), hashlib.sha256(content).hexdigest()] for name, content in parts.items()}
    wrong = [name for name in parts if _PARTS.fullmatch(name) is None]
    assert not wrong, wrong
    head = json.dumps({"format": FORMAT, **manifest, "parts": digests}, indent=1, allow_nan=False).encode()
    signed = {} if key is None else {"key": key_id(key), "hmac": signature(key, head)}
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name, content in {_MANIFEST: head, _SIGNATURE: json.dumps(signed).encode(), **parts}.items():
            info = zipfile.ZipInfo(name, _TIME)
            info.compress_type = zipfile.ZIP_STORED if name.endswith(".safetensors") else zipfile.ZIP_DEFLATED
            archive.writestr(info, content)
    return buffer.getvalue()


def write_file(path: str | os.PathLike[str], content: bytes) -> None:
    """Write a file at once: whoever looks sees the old one or the new one."""
    folder, name = os.path.split(os.path.abspath(path))
    parent = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        replace_in(parent, name, content, 0o666, sync=True)
    finally:
        os.close(parent)


# ---- reading


def read_file(path: str | os.PathLike[str]) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def read_container(content: bytes, keys: tuple[bytes, ...] = (), trust: bool = False) -> Container:
    """The content of a package; raises `PackageError`.

    It is `trusted` where it was signed with one of `keys`, or where the caller trusts it.
    """
    try:
        return _read(content, keys, trust)
    except (PackageError, MemoryError):
        raise
    except Exception as error:  # noqa: BLE001  zipfile, zlib and json have many ways to refuse a file
        raise PackageError(f"the package is damaged, or no package: {type(error).__name__}: {error}") from None


def _read(content: bytes, keys: tuple[bytes, ...], trust: bool) -> Container:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        infos = archive.infolist()
        names = [info.filename for info in infos]
        if len(infos) > _MOST_PARTS or len(set(names)) != len(names):
            raise PackageError("the package has too many parts, or two of one name")
        strange = [name for name in names if name not in (_MANIFEST, _SIGNATURE) and not _PARTS.fullmatch(name)]
        if strange:
            raise PackageError(f"the package has parts that no package has: {strange[:3]}")
        if _MANIFEST not in names or _SIGNATURE not in names:
            raise PackageError("the file is damaged, or no package: it has no manifest or no signature")
        head = _part(archive, _MANIFEST, _MOST_PLAIN)
        manifest = _json(head, _MANIFEST)
        if type(manifest) is not dict or manifest.get("format") != FORMAT:
            raise PackageError(f"the package is not of this version's format ({FORMAT})")
        by, trusted = _who(_json(_part(archive, _SIGNATURE, _MOST_PLAIN), _SIGNATURE), head, keys)
        digests = manifest["parts"]
        if sorted(digests) != sorted(set(names) - {_MANIFEST, _SIGNATURE}):
            raise PackageError("the package's manifest names other parts than there are")
        if sum(size for size, _ in digests.values()) > _MOST_BYTES:
            raise PackageError("the package is too large")
        parts = {}
        for name, (size, digest) in digests.items():
            parts[name] = _part(archive, name, size)
            if hashlib.sha256(parts[name]).hexdigest() != digest:
                raise PackageError(f"the package is damaged: its part {name} is not what the manifest says")
    return Container(manifest, parts, trusted or trust, by)


def _part(archive: zipfile.ZipFile, name: str, most: int) -> bytes:
    with archive.open(name) as file:
        found = file.read(most + 1)
    if len(found) > most:
        raise PackageError(f"the package is damaged: its part {name} is larger than it should be")
    return found


def _json(content: bytes, name: str) -> Any:
    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        raise PackageError(f"the package is damaged: its part {name} cannot be read") from None


def _who(signed: Any, head: bytes, keys: tuple[bytes, ...]) -> tuple[str, bool]:
    """Who signed a manifest, and whether that is one of the known keys.  A known key with a wrong signature is an
    error, also for who trusts everything.
    """
    if type(signed) is not dict or not all(type(value) is str for value in signed.values()):
        raise PackageError("the package's signature cannot be read")
    by = signed.get("key", "")
    for key in map(key_bytes, keys):
        if by == key_id(key):
            if not hmac.compare_digest(signature(key, head).encode(), signed.get("hmac", "").encode()):
                raise PackageError("the package was changed after it was signed")
            return by, True
    return by, False
