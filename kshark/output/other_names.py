"""Other names for parts of the protocol: old ones, abbreviations, names of Java classes, names of drafts."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from kshark.output.spans import CODE, PLAIN, Line
from kshark.registry import Registry
from kshark_dissectors.enums import ErrorCode
from kshark_dissectors.other_names import FORMER_NAMES, TERMS, Other

_SUFFIX: Final = re.compile("(?:request|response|exception|code)$")
_EXCEPTION: Final = re.compile("(?:exception|code)$")


class Meant(NamedTuple):
    """The meaning of another name: a line, and the name of the page that follows; empty if there is none."""

    line: Line
    see: str


def term(name: str) -> Meant | None:
    """Return the meaning of a term or an abbreviation, in upper or lower case; None if it is none."""
    other = _by_plain_name(TERMS).get(_plain(name))
    return None if other is None else Meant([(name, CODE), (f"  {other.text}", PLAIN)], other.see)


def former_name(name: str, registry: Registry) -> Meant | None:
    """Return the meaning of a name from the old protocol guide, from Java or from a draft; None if it is none.

    Ignores case and underscores, and the words Request, Response, Exception and Code at the end.
    """
    plain = _plain(name)
    bare = _SUFFIX.sub("", plain)
    names = _by_plain_name(FORMER_NAMES)
    errors = {_plain(error.name): error.name for error in ErrorCode}
    other = names.get(plain) or names.get(bare) if plain not in errors else None
    if other is not None:
        return Meant([(name, CODE), (f"  {other.text.format(other.see)}", PLAIN)], other.see)
    error = errors.get(plain) or errors.get(_EXCEPTION.sub("", plain))
    if error is not None:
        return Meant([(name, CODE), (f"  stands for {error}", PLAIN)], error)
    apis = {_plain(api): api for api in registry.names().values()}
    if bare in apis:
        return Meant([(name, CODE), (f"  a message of {apis[bare]}", PLAIN)], apis[bare])
    values = {_plain(value.removesuffix("Value")): value for value in registry.structures() if value.endswith("Value")}
    if plain in values:
        record = values[plain].removesuffix("Value")
        return Meant(
            [(name, CODE), (f"  a record: its key is {record}Key, its value {record}Value", PLAIN)], values[plain]
        )
    return None


def other_names() -> list[str]:
    """Return all of these names, for a hint at a similar one."""
    return [*TERMS, *FORMER_NAMES]


def _plain(name: str) -> str:
    return re.sub("[^a-z0-9]", "", name.lower())


def _by_plain_name(names: Mapping[str, Other]) -> dict[str, Other]:
    return {_plain(name): other for name, other in names.items()}
