"""The interface of a watcher: a machine that recognises one kind of incident, or a few that belong together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import ClassVar, Protocol

from kshark.analysis.results.error_codes import PlacedCode
from kshark.analysis.rules.rule import Rule
from kshark.incidents.due import Due
from kshark.incidents.incident import Incident
from kshark.incidents.scene import Scene
from kshark.model import Closed, Exchange, Finding, Gap, HalfClosed, Message, Opened, Weird

#: Events of the time line other than messages and exchanges.
ConnectionEvent = Opened | HalfClosed | Closed | Gap | Weird
NOTHING: Sequence[Incident] = ()


class Awaited(Protocol):
    """Something that a watcher awaits (kshark.incidents.due)."""

    def due_ns(self) -> int | None:
        """Return the time until which it must have come; None if nothing is due any more."""

    def missed(self) -> Iterable[Incident]:
        """Return the incident that it did not come in time, if that is one by now. The watcher may add it again."""


class Watcher:
    """Base of all watchers. Each method returns the incidents that are over, or decided, by now.

    `rows`: the rows of its incidents. `apis`: APIs of the exchanges that it takes, and `requests` of the requests, each
    before its answer is known; None: of all APIs. `judges`: APIs that its rows are about, where these are not about
    bytes or connections. `refusals`: take answers of any API with an error. `kinds`: classes of the other events that
    it takes; of Weird, only those whose codes are in `weirds`. An event of the capture's end (Closed with how
    "capture") comes before `close`.

    Of an API that is in neither set, a watcher of all APIs reads only numbers at the top level of a body: bodies are
    large, and may go to another process (kshark_spark.packing). `refused` reads whole bodies.

    All methods are called with `scene.now` at the current packet. Before an exchange is taken, its request is removed
    from `scene.open`.
    """

    rows: ClassVar[tuple[Rule, ...]] = ()
    apis: ClassVar[frozenset[int] | None] = frozenset()
    requests: ClassVar[frozenset[int] | None] = frozenset()
    judges: ClassVar[frozenset[int]] = frozenset()
    refusals: ClassVar[bool] = False
    kinds: ClassVar[tuple[type, ...]] = ()
    weirds: ClassVar[frozenset[str]] = frozenset()

    def __init__(self, scene: Scene, due: Due[Awaited]) -> None:
        self.scene = scene
        self.due = due

    def request(self, request: Message) -> Iterable[Incident]:
        """Take a request when it is sent."""
        return NOTHING

    def exchange(self, exchange: Exchange) -> Iterable[Incident]:
        """Take an exchange when it is complete, or has ended without an answer."""
        return NOTHING

    def refused(self, exchange: Exchange, codes: Sequence[PlacedCode]) -> Iterable[Incident]:
        """Take an exchange whose answer has error codes, after `exchange`."""
        return NOTHING

    def event(self, event: ConnectionEvent) -> Iterable[Incident]:
        """Take another event of the time line."""
        return NOTHING

    def lasting(self) -> Iterable[Incident]:
        """Return the incidents that last until now, and those that only the end of the capture decides, as that would
        give them. Change nothing.
        """
        return NOTHING

    def may_excuse(self, finding: Finding) -> bool:
        """True if an incident that is not over, or not decided, may excuse a finding of some time ago. Only rows with
        `excuses` are asked."""
        return False

    def close(self) -> Iterable[Incident]:
        """End the capture. Deadlines that have passed were taken before."""
        return NOTHING
