"""Values by key, of which the least recently used are forgotten beyond a limit."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Final, Generic, TypeVar

from kshark import limits

_Key = TypeVar("_Key", bound=Hashable)
_Value = TypeVar("_Value")


class Recent(Generic[_Key, _Value]):
    """Values that `make` makes when `of` is first asked for their key. `limit`: the name of their most in limits."""

    def __init__(self, make: Callable[[], _Value], limit: str) -> None:
        self._make: Final = make
        self._limit: Final = limit
        self._values: Final[OrderedDict[_Key, _Value]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._values)

    def of(self, key: _Key) -> _Value:
        """Return the value of a key, which is the most recently used one then; a new value if there is none."""
        value = self._values.get(key)
        if value is None:
            value = self._values[key] = self._make()
            if len(self._values) > getattr(limits, self._limit):
                self._values.popitem(last=False)
        else:
            self._values.move_to_end(key)
        return value

    def get(self, key: _Key) -> _Value | None:
        """Return the value of a key; None if there is none."""
        return self._values.get(key)

    def forget(self, key: _Key) -> None:
        self._values.pop(key, None)
