"""The table of share sessions of a broker is full. Incident 134."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from kshark import limits
from kshark.analysis.facts.bases import SHARE_SESSIONS
from kshark.analysis.facts.clock import PacketTime
from kshark.analysis.facts.reading import is_whole
from kshark.analysis.results.error_codes import PlacedCode
from kshark.analysis.rules.rule import Rule
from kshark.api_keys import SHARE_FETCH
from kshark.endpoints import host_of
from kshark.incidents.due import Due
from kshark.incidents.incident import Incident, Where, witness_of
from kshark.incidents.scene import Scene
from kshark.incidents.sentences import client_id_of, client_of, listed, span
from kshark.incidents.watcher import NOTHING, Awaited, Watcher
from kshark.model import Exchange, Flow, Witness
from kshark.units import counted
from kshark_dissectors.enums import ErrorCode

#: Refusals that are no further apart belong to one incident.
_PAUSE_NS: Final = 30_000_000_000
#: Refused clients try again within this time. Kafka: max.wait of a ShareFetch and retry.backoff.max.ms, 1.5 s together.
_RETRY_NS: Final = 5_000_000_000

SESSION_TABLE_FULL: Final = Rule(
    number=134,
    code="SESSION_TABLE_FULL",
    text="A broker has no room for more share sessions, and refuses several clients.",
    source="KIP-932; Kafka: SharePartitionManager, ShareSessionCache (group.share.max.share.sessions)",
    rests_on=(SHARE_SESSIONS,),
    blame=(),
    verdicts=("note",),
    must="A broker holds one share session for each member that fetches from it, up to a limit.",
    advice="Raise group.share.max.share.sessions (default 2000), or run fewer consumers.",
    weight=75,
    explains=("SESSION_LIMIT", "REOPEN_HOT_LOOP", "SESSION_FLAPPING"),
)


class _Table:
    """The sessions of a broker since it refused the first one."""

    def __init__(self, watcher: SessionTables, flow: Flow, since: PacketTime) -> None:
        self._watcher = watcher
        self.flow = flow
        self.since = self.until = since
        #: The first refusal and the last one.
        self._evidence: tuple[Witness, ...] = ()
        #: ShareFetches since the first refusal, up to the last one and in all.
        self.fetches_until = 0
        self.fetches = 0
        self.refused = 0
        #: True if it has opened a session since the last refusal.
        self.has_room = False
        self._members: dict[tuple[str | None, str | None], str] = {}
        self._clients: set[tuple[str, str]] = set()
        self._groups: dict[str, None] = {}
        self._last_member: tuple[str | None, str | None] | None = None
        self._is_several = False

    def refuse(self, exchange: Exchange, until: PacketTime) -> None:
        """Note a refused session."""
        assert exchange.request is not None
        body: Any = exchange.request.body
        member = body.group_id, body.member_id
        name = client_of(exchange.flow, client_id_of(exchange.request))
        # A member that returns is another client than those that were refused in between.
        self._is_several = self._is_several or (member in self._members and self._last_member != member)
        self._last_member = member
        if len(self._members) < limits.SESSIONS:
            self._members[member] = name
            self._clients.add((host_of(exchange.flow.client), name))
            self._groups[str(body.group_id)] = None
        self._evidence = (*self._evidence[:1], *witness_of(exchange))
        self.refused += 1
        self.fetches_until, self.until, self.has_room = self.fetches, until, False

    def due_ns(self) -> int:
        return self.until.time_ns + _PAUSE_NS

    def missed(self) -> Iterable[Incident]:
        return self._watcher.over(self)

    def incident(self, now: PacketTime) -> Iterable[Incident]:
        """Yield the incident, if members of several clients were refused."""
        if len(self._clients) < 2 and not self._is_several:
            return
        lasts = not self.has_room and now.time_ns - self.until.time_ns < _RETRY_NS
        until = None if lasts else self.until
        yield Incident(
            SESSION_TABLE_FULL,
            self.since,
            until,
            self.flow,
            f"broker {self.flow.broker} had no room for more share sessions {span(self.since, until)}: it refused "
            f"{self.refused:,} of {self.fetches_until:,} ShareFetches (133), of "
            f"{counted(len(self._members), 'member')} ({listed(self._members.values())}) in "
            f"{'group' if len(self._groups) == 1 else 'groups'} {listed(self._groups)}",
            Where(brokers=frozenset({self.flow.broker})),
            self._evidence,
        )


class SessionTables(Watcher):
    """Count what a broker refuses for lack of room."""

    rows = (SESSION_TABLE_FULL,)
    apis = frozenset({SHARE_FETCH})
    refusals = True

    def __init__(self, scene: Scene, due: Due[Awaited]) -> None:
        super().__init__(scene, due)
        self._tables: dict[str, _Table] = {}

    def exchange(self, exchange: Exchange) -> Iterable[Incident]:
        table = self._tables.get(exchange.flow.broker) if self._tables else None
        if table is not None:
            table.fetches += 1
            if exchange.response is not None and _opens(exchange):
                table.has_room = table.has_room or getattr(exchange.response.body, "error_code", None) == 0
        return NOTHING

    def refused(self, exchange: Exchange, codes: Sequence[PlacedCode]) -> Iterable[Incident]:
        request = exchange.request
        if request is None or request.api_key != SHARE_FETCH or not is_whole(request) or not _is_full(exchange):
            return NOTHING
        broker = exchange.flow.broker
        table = self._tables.get(broker)
        if table is None:
            if len(self._tables) >= limits.BROKERS:
                return NOTHING
            table = self._tables[broker] = _Table(self, exchange.flow, self.scene.now)
            table.fetches = 1
        table.refuse(exchange, self.scene.now)
        self.due.add(table)
        return NOTHING

    def over(self, table: _Table) -> Iterable[Incident]:
        """Return the incident of a broker that has refused no session for a while."""
        del self._tables[table.flow.broker]
        return table.incident(self.scene.now)

    def lasting(self) -> Iterable[Incident]:
        return (incident for incident in self.close() if incident.until is None)

    def close(self) -> Iterable[Incident]:
        for table in self._tables.values():
            yield from table.incident(self.scene.now)


def _opens(exchange: Exchange) -> bool:
    """True if the request opens a session."""
    return exchange.request is not None and getattr(exchange.request.body, "share_session_epoch", None) == 0


def _is_full(exchange: Exchange) -> bool:
    """True if a session was refused for lack of room. Kafka 4.0 answers an initial epoch with 122 for that reason."""
    response = exchange.response
    code = getattr(response.body, "error_code", None) if response is not None and is_whole(response) else None
    if code == ErrorCode.SHARE_SESSION_LIMIT_REACHED:
        return True
    is_old = exchange.request is not None and exchange.request.version == 0
    return is_old and code == ErrorCode.SHARE_SESSION_NOT_FOUND and _opens(exchange)
