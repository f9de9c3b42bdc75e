"""Bodies as plain values: what users get, and what the writer takes."""

from __future__ import annotations

from typing import Any

import msgspec


def plain(body: Any) -> Any:
    """A body as dicts, lists, str, int, float, bool, bytes and None; absent fields have no key."""
    return msgspec.to_builtins(body, builtin_types=(bytes,))
