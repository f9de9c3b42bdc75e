"""Mask credentials in bodies: their length replaces them, `<16 bytes, masked>`, in the field's own type.

The dissectors define which fields are credentials (kshark.schema.Secret); this module finds and masks them. Layouts
without credentials cost nothing: they have no masks, and no message of theirs is checked again.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple, TypeVar

from kshark.codec.paths import Names, paths
from kshark.schema import Layout, Secret

T = TypeVar("T")

_TEXT: Final = (str, bytes)


class Mask(NamedTuple):
    """A field that may hold a credential.

    `way` leads to the structures that have the field. The rest says when it holds one (kshark.schema.Secret).
    """

    way: Names
    name: str
    always: bool
    flag: str
    beside: str
    name_matches: Callable[[Any], bool]


@lru_cache(maxsize=1024)
def masks_of(layout: Layout, version: int) -> tuple[Mask, ...]:
    """Return the masks for the bodies of one version."""
    return tuple(
        _mask(path.names, path.field.secret) for path in paths(layout.root, version) if path.field.secret is not None
    )


def _mask(names: Names, secret: Secret) -> Mask:
    return Mask(
        names[:-1], names[-1], not secret.flag and not secret.name, secret.flag, secret.name, _name_matcher(secret)
    )


@lru_cache(maxsize=64)
def _name_matcher(secret: Secret) -> Callable[[Any], bool]:
    """Return a predicate: True if a name is that of a credential.

    It remembers names, since brokers list the same few hundred repeatedly.
    """
    ends = "|".join(re.escape(end).replace(r"\.", "[._-]?") for end in secret.ends) or "(?!)"
    search = re.compile(f"(?:{ends})$", re.IGNORECASE).search
    longest = max(map(len, secret.ends), default=0) + 1  # `$` also matches before a final line feed

    @lru_cache(maxsize=1024)
    def matches(tail: str) -> bool:
        return search(tail) is not None

    return lambda name: matches(str(name)[-longest:])


def mask(masks: Sequence[Mask], body: Any) -> bool:
    """Mask the credentials in a body, which is an object of the codec or a dict. Return True if there were any."""
    get: Callable[[Any, str, None], Any] = dict.get if isinstance(body, dict) else getattr
    put: Callable[[Any, str, Any], None] = dict.__setitem__ if isinstance(body, dict) else setattr
    any_masked = False
    for way, name, always, flag, beside, name_matches in masks:
        owners = [body]
        for step in way:
            above, owners = owners, []
            for owner in above:
                below = get(owner, step, None)
                if isinstance(below, list):
                    owners += below
                elif below is not None:
                    owners.append(below)
        for owner in owners:
            value = get(owner, name, None)
            if (
                value
                and isinstance(value, _TEXT)
                and (always or get(owner, flag, None) is True or name_matches(get(owner, beside, None)))
            ):
                put(owner, name, masked(value))
                any_masked = True
    return any_masked


def masked(value: Any) -> Any:
    """Return the replacement of a text or of bytes."""
    size = len(value if isinstance(value, bytes) else value.encode("utf-8", "backslashreplace"))
    text = f"<{size} byte{'' if size == 1 else 's'}, masked>"
    return text.encode() if isinstance(value, bytes) else text


class Masking:
    """Bodies with credentials that wait for masking.

    They are masked when their page is complete and every stage has read them.
    """

    def __init__(self) -> None:
        self._waiting: list[tuple[tuple[Mask, ...], Any]] = []

    def add(self, masks: tuple[Mask, ...], body: Any) -> None:
        self._waiting.append((masks, body))

    def masked(self, page: T) -> T:
        """Mask the waiting bodies, and return the page, which is complete."""
        if self._waiting:
            for masks, body in self._waiting:
                mask(masks, body)
            self._waiting.clear()
        return page
