"""Keys and signatures of packages: an HMAC over the manifest, which has the digests of all other parts.

A package is signed with the user's own key, which is that of kept captures (cache/seal.py), or with a key that
the user names: bytes, or the path of a file.
"""

from __future__ import annotations

import os
from typing import Any

from ..cache.refusals import NotMine
from ..cache.seal import mac, user_key
from ..exc import PackageError, WrongType

_FEWEST = 16  # bytes of a key


def key_bytes(key: Any) -> bytes:
    """The key that a user names."""
    if type(key) is not bytes:
        try:
            with open(os.fspath(key), "rb") as file:
                key = file.read(1 << 16).strip()
        except OSError as error:
            raise PackageError(f"the key {key} cannot be read: {error}") from None
        except TypeError:
            raise WrongType(f"a key is bytes, or the path of a file, not {type(key).__name__}") from None
    if len(key) < _FEWEST:
        raise PackageError(f"a key has at least {_FEWEST} bytes; this one has {len(key)}")
    return key


def known_keys(key: Any) -> tuple[bytes, ...]:
    """Return the keys that are trusted: one that the user names, and the user's own."""
    named = () if key is None else (key_bytes(key),)
    try:
        return (*named, user_key(make=False))
    except (OSError, NotMine):
        return named


def signing_key(key: Any) -> bytes | None:
    """Return the key that signs a new package: one that the user names, by default the user's own; False: none."""
    if key is False:
        return None
    if key is not None:
        return key_bytes(key)
    try:
        return user_key(make=True)
    except (OSError, NotMine) as error:
        raise PackageError(
            f"the user's key cannot be made or read: {error} (FRAMELIFT_CACHE_DIR says where it is); name one with "
            "key=, or leave the package unsigned with key=False"
        ) from None


def key_id(key: bytes) -> str:
    """A name for a key, which tells nothing of it."""
    return signature(key, b"id")[:16]


def signature(key: bytes, manifest: bytes) -> str:
    return mac(key, "package", manifest).decode()
