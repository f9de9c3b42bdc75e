"""Credentials in bodies are masked: in their place stands how long they were, `<16 bytes, masked>`, in the field's own
type.

Which fields are credentials is the dissectors' matter (kshark.schema.Secret); here they are found and masked. Layouts
without any cost nothing: they have no masks, and nobody asks again for each message."""

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
    """A field that may be a credential: the way to the structures that have it, its name, and when it is one
    (kshark.schema.Secret)."""

    way: Names
    name: str
    always: bool
    flag: str
    beside: str
    name_matches: Callable[[Any], bool]


@lru_cache(maxsize=1024)
def masks_of(layout: Layout, version: int) -> tuple[Mask, ...]:
    """Of that version's bodies."""
    return tuple(
        _mask(path.names, path.field.secret) for path in paths(layout.root, version) if path.field.secret is not None
    )


def _mask(names: Names, secret: Secret) -> Mask:
    return Mask(names[:-1], names[-1], not secret.flag and not secret.name, secret.flag, secret.name, _told(secret))


@lru_cache(maxsize=64)
def _told(secret: Secret) -> Callable[[Any], bool]:
    """Whether a name is one of a credential: brokers list the same few hundred again and again."""
    ends = "|".join(re.escape(end).replace(r"\.", "[._-]?") for end in secret.ends) or "(?!)"
    search = re.compile(f"(?:{ends})$", re.IGNORECASE).search
    longest = max(map(len, secret.ends), default=0) + 1  # `$` lets a line feed follow

    @lru_cache(maxsize=1024)
    def ends_so(tail: str) -> bool:
        return search(tail) is not None

    return lambda name: ends_so(str(name)[-longest:])


def mask(masks: Sequence[Mask], body: Any) -> bool:
    """Masks the credentials in a body, of the codec or a dict; whether there were any."""
    get: Callable[[Any, str, None], Any] = dict.get if isinstance(body, dict) else getattr
    put: Callable[[Any, str, Any], None] = dict.__setitem__ if isinstance(body, dict) else setattr
    found = False
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
                found = True
    return found


def masked(value: Any) -> Any:
    """What stands in the place of a text, or of bytes."""
    size = len(value if isinstance(value, bytes) else value.encode("utf-8", "backslashreplace"))
    told = f"<{size} byte{'' if size == 1 else 's'}, masked>"
    return told.encode() if isinstance(value, bytes) else told


class Masking:
    """Bodies with credentials, until their page is complete and whoever had to look into them has: then they are
    masked."""

    def __init__(self) -> None:
        self._waiting: list[tuple[tuple[Mask, ...], Any]] = []

    def add(self, masks: tuple[Mask, ...], body: Any) -> None:
        self._waiting.append((masks, body))

    def masked(self, page: T) -> T:
        """The page, which is complete."""
        if self._waiting:
            for masks, body in self._waiting:
                mask(masks, body)
            self._waiting.clear()
        return page
