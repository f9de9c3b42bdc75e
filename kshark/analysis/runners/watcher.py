"""Who looks at exchanges for the machines of one sort; the session's alone are moved by the Analyzer itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from kshark.analysis.facts.connections import Connection
from kshark.analysis.runners.verdict import Verdict
from kshark.model import Message


class Watcher(Protocol):
    """`look` takes the exchanges of the APIs in `apis` in the order of the time line, `close` says what had to wait for
    the end."""

    @property
    def apis(self) -> frozenset[int]: ...

    def look(self, request: Message, response: Message | None, connection: Connection) -> Sequence[Verdict]:
        """What the rules say of an exchange; `response` None: there is no answer."""

    def close(self) -> Sequence[Verdict]:
        """No more exchanges."""
