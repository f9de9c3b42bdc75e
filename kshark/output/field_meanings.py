"""Meanings of fields: a dissector's own, otherwise those of kshark_dissectors.meanings."""

from __future__ import annotations

import re
from typing import Final

from kshark.codec.paths import Names
from kshark.schema import Field
from kshark_dissectors.meanings import COVERED, EVERYWHERE, MEANINGS

_KIND: Final = re.compile("(?:Request|Response)$")


def meaning_of(layout: str, names: Names, field: Field) -> str:
    """Return what a field means; empty if that is not known. `layout`: the name of the message, as FetchRequest.

    Of several meanings the most special holds: of the message, of the API, of all; and of these the longest path.
    """
    if about := field.about or (field.element is not None and field.element.about):
        return about
    ends = [".".join(names[first:]) for first in range(len(names))]
    keys = [*(f"{layout}.{end}" for end in ends), *(f"{_KIND.sub('', layout)}.{end}" for end in ends)]
    if layout.startswith(COVERED):
        keys += ends
    own = next((MEANINGS[key] for key in keys if key in MEANINGS), "")
    return own or next((EVERYWHERE[end] for end in ends if end in EVERYWHERE), "")
