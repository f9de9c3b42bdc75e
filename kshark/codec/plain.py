"""Convert bodies to plain values: users get these, and the writer accepts them."""

from __future__ import annotations

from typing import Any

import msgspec


def plain(body: Any) -> Any:
    """Return a body as dicts, lists, str, int, float, bool, bytes and None; absent fields have no key."""
    return msgspec.to_builtins(body, builtin_types=(bytes,))
