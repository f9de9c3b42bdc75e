"""The Python interface: captures in; messages, findings, share sessions, groups, events and tables out."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypedDict, Unpack

from kshark.analysis import APIS, AnalysisResult, Analyzer, Delivery, PackedSessions, ShareSession
from kshark.analysis.results.packed_findings import PackedFindings
from kshark.api_keys import API_VERSIONS
from kshark.capture import Captures, expand, open_captures
from kshark.capture.keys import key_log
from kshark.codec import plain
from kshark.delivery_changes import BODIES as DELIVERED
from kshark.delivery_changes import DeliveryChanges
from kshark.errors import NothingJudged, UsageError, close_to
from kshark.groups import APIS as GROUP_APIS
from kshark.groups import OFFSET_APIS, Groups
from kshark.groups.listed import ListedGroup
from kshark.incidents import ROWS
from kshark.listed_message import ListedMessage
from kshark.model import Event, Finding, Message, PacketBatch, Weird
from kshark.names import TopicNames
from kshark.output.catalogue import codes_of_rules
from kshark.output.json_findings import ListedFinding, explained_by, json_findings
from kshark.pipeline import JUDGED, Engine
from kshark.pipeline import Options as Reading
from kshark.registry import Registry
from kshark.run import Listing, Run
from kshark.timeline import KINDS, Entry, Kind, Timeline
from kshark.units import counted
from kshark_dissectors.topics import NAMING_APIS

if TYPE_CHECKING:
    import pyarrow as pa

#: Codes of events, which can be seen beside TLS, too.
_EVENTS: Final = frozenset(row.code for row in ROWS)


class Options(TypedDict, total=False):
    """The keyword arguments that every function about captures takes.

    `tls_keys`: a key log file (SSLKEYLOGFILE) to decrypt TLS. `dissectors`: files with additional APIs.
    `max_request_bytes`: the brokers' `socket.request.max.bytes`, if it is known. `ports`: TCP ports whose connections
    are Kafka, whatever their bytes look like. UsageError is raised for a file that is no key log, SchemaError for one
    that is no dissector.
    """

    tls_keys: str | Path | None
    dissectors: Iterable[str | Path]
    max_request_bytes: int | None
    ports: Iterable[int]


class _Captures:
    """Captures that are read as one: iterate over its pages once."""

    def __init__(self, paths: Sequence[str | Path], reading: Reading, given: Options) -> None:
        """`reading`: what is read; `given`: the caller's options."""
        for name in given.keys() - Options.__annotations__:
            raise TypeError(f"no option {name!r}{close_to(name, Options.__annotations__)}")
        keys = given.get("tls_keys")
        self._reading = replace(
            reading,
            tls_keys=b"" if keys is None else key_log(keys),
            dissectors=tuple(map(Path, given.get("dissectors", ()))),
            max_request_bytes=given.get("max_request_bytes"),
            kafka_ports=frozenset(given.get("ports", ())),
        )
        #: True if a key log was given.
        self.has_keys = keys is not None
        self.registry = Registry(self._reading.dissectors)
        self._paths = [*paths]
        self._captures: Captures | None = None
        self._engine = Engine(self._reading, self.registry)
        #: The number of packets so far.
        self.packets = 0

    def __iter__(self) -> Iterator[list[Event]]:
        self._captures = open_captures(self._paths)
        for page in self._engine.pages(self._counted(self._captures)):
            self._place(page)
            yield page

    def _counted(self, items: Iterable[PacketBatch | Weird]) -> Iterator[PacketBatch | Weird]:
        for item in items:
            self.packets += len(item.number) if isinstance(item, PacketBatch) else 0
            yield item

    @property
    def names(self) -> TopicNames | None:
        """Names of topic ids so far; None if bodies are not shown."""
        return self._engine.back.names

    def _place(self, page: Iterable[Event]) -> None:
        """Set the file of each message, if there are several."""
        if self._captures is not None and (locate := self._captures.locate) is not None:
            for event in page:
                if type(event) is Message and (location := locate(event.packet)) is not None:
                    event.file, event.frame = location

    def place(self, findings: Iterable[Finding]) -> None:
        """Set the files of the findings' packets, if there are several, and name the lines of request logs."""
        if self._captures is not None:
            self._captures.place(findings)


def pages(paths: Sequence[str | Path], options: Reading | None = None) -> Iterator[list[Event]]:
    """Yield the events of the captures, as of one capture, in pages of one time line."""
    return Engine(options).pages(open_captures(list(paths)))


def analysed(pages: Iterable[list[Event]]) -> Iterator[tuple[list[Event], list[AnalysisResult]]]:
    """Yield each page with the results that it proves: findings, share sessions, their requests. At the end yield an
    empty page with the rest, and with the findings that an incident may explain."""
    listing = Listing(Registry())
    for page in pages:
        yield page, listing.page(page)
    yield [], listing.close()


def read(
    *paths: str | Path, records: bool = True, payload: bool = True, secrets: bool = False, **options: Unpack[Options]
) -> Iterator[ListedMessage]:
    """Yield the messages of the captures, in the order in which they end. `body` is a dict of plain values, with the
    decoded contents of bytes fields next to them.

    `records` False leaves record batches unopened. `payload` False leaves out keys, values and header values.
    `secrets`: show credentials, which are masked otherwise. Raises kshark.UnreadableInput for a file that is no
    capture.
    """
    reading = Reading(records=records, payload=payload, embedded=True, secrets=secrets, knows=False)
    return _messages(_Captures(paths, reading, options))


def _messages(captures: _Captures) -> Iterator[ListedMessage]:
    for page in captures:
        for event in page:
            if isinstance(event, Message):
                event.body = plain(event.body)
                yield ListedMessage(event)


def check(
    *paths: str | Path,
    select: str | Iterable[str] = (),
    ignore: str | Iterable[str] = (),
    records: bool = False,
    **options: Unpack[Options],
) -> Iterator[ListedFinding]:
    """Yield the findings of the rule catalogue and the events, sorted by packet, as `kshark check -T json` prints them.

    `select`, `ignore`: codes of the findings to yield, or to leave out. `records`: also open record batches, for the
    rules about their records. Warns by kshark.NothingJudged if the capture has nothing to judge, such as TLS without
    keys. Raises kshark.UnreadableInput for a file that is no capture, UsageError for a code that does not exist.
    """
    wanted, unwanted = _codes(select), _codes(ignore)
    captures = _Captures(paths, replace(JUDGED, records=True) if records else JUDGED, options)
    return _findings(captures, wanted, unwanted)


def _findings(captures: _Captures, wanted: Collection[str], unwanted: Collection[str]) -> Iterator[ListedFinding]:
    run = Run(captures.registry, shows=lambda it: (not wanted or it.code in wanted) and it.code not in unwanted)
    for page in captures:
        run.page(page)
    run.close()
    observed = run.observed
    has_events = any(finding.code in _EVENTS for finding in run.findings)
    why = observed.why_empty(has_keys=captures.has_keys, has_events=has_events)
    if why is not None:
        warnings.warn(f"nothing could be judged: {why}", NothingJudged, stacklevel=2)
    yield from json_findings(_placed(captures, run.findings), explained_by(run.findings))


def _placed(captures: _Captures, findings: PackedFindings) -> Iterator[Finding]:
    for finding in findings:
        captures.place((finding,))
        yield finding


def _codes(given: str | Iterable[str]) -> set[str]:
    return codes_of_rules([given] if isinstance(given, str) else given)


def sessions(*paths: str | Path, steps: bool = False, **options: Unpack[Options]) -> Iterator[ShareSession]:
    """Yield the share sessions of the captures, in the order in which they ended; `steps`: with their requests.

    Raises kshark.UnreadableInput for a file that is no capture.
    """
    return _sessions(_Captures(paths, Reading(records=False, bodies=APIS), options), steps)


def _sessions(captures: _Captures, steps: bool) -> Iterator[ShareSession]:
    analyzer, listed = Analyzer(sessions=True, steps=steps), PackedSessions()
    for page in captures:
        analyzer.page(page)
        listed.add(analyzer.listed())
    analyzer.close()
    listed.add(analyzer.listed())
    _warn(int(analyzer.summary()["sessions"]) - len(listed), "share session")
    yield from listed


def deliveries(
    *paths: str | Path,
    group: str | None = None,
    topic: str | None = None,
    partition: int | None = None,
    **options: Unpack[Options],
) -> Iterator[Delivery]:
    """Yield each change of the records that share groups have in flight, in the order of packets.

    `group`, `topic` (by name or id) and `partition` restrict it to share partitions. Raises
    kshark.UnreadableInput for a file that is no capture.
    """
    captures = _Captures(paths, Reading(records="checked", payload=False, bodies=DELIVERED), options)

    def is_wanted(it: Delivery) -> bool:
        return (
            group in (None, it.group_id)
            and topic in (None, it.topic, it.topic_id)
            and partition in (None, it.partition)
        )

    return filter(is_wanted, _deliveries(captures))


def _deliveries(captures: _Captures) -> Iterator[Delivery]:
    following = DeliveryChanges(captures.registry)
    changes: list[Delivery] = []
    for page in captures:
        for event in page:
            following.feed(event)
        changes += following.since()
    following.close()
    changes += following.since()
    if following.writes is not None:
        following.writes.attach(changes)
    for change in changes:
        change.topic = following.names.by_id.get(change.topic_id)
        yield change


def groups(*paths: str | Path, rebalances: bool = False, **options: Unpack[Options]) -> Iterator[ListedGroup]:
    """Yield the groups of the captures, of all types, by id: their states, members, offsets and administration.

    `rebalances`: with their rebalances, as `kshark groups --rebalances` shows them. Raises
    kshark.UnreadableInput for a file that is no capture.
    """
    bodies = GROUP_APIS | OFFSET_APIS | NAMING_APIS | {API_VERSIONS}
    # Headers of batches show how many offsets a Produce takes, and with that the ends of partitions.
    return _groups(_Captures(paths, Reading(records="headers", bodies=bodies, embedded=True), options), rebalances)


def _groups(captures: _Captures, rebalances: bool) -> Iterator[ListedGroup]:
    names = {} if captures.names is None else captures.names.by_id
    groups = Groups(names)
    for page in captures:
        for event in page:
            groups.feed(event)
    groups.close()
    listed = groups.listed(names, rebalances=rebalances)
    _warn(groups.left_out, "group")
    yield from listed


def events(*paths: str | Path, kinds: Iterable[Kind] = (), **options: Unpack[Options]) -> Iterator[Entry]:
    """Yield what happened in the captures, in the order of time: brokers silent or down, leaders and coordinators
    moved, topics made and deleted, groups, members, administration. `kinds`: only these, by default all.

    Raises kshark.UnreadableInput for a file that is no capture, UsageError for an unknown kind.
    """
    wanted = {*kinds} or {*KINDS}
    for kind in sorted(wanted - {*KINDS}):
        raise UsageError(f'no kind "{kind}"{close_to(kind, KINDS)} (accepted: {", ".join(KINDS)})')
    captures = _Captures(paths, replace(JUDGED, embedded=True), options)
    return (entry for entry in _events(captures) if entry.kind in wanted)


def _events(captures: _Captures) -> Iterator[Entry]:
    timeline = Timeline(captures.registry)
    for page in captures:
        timeline.page(page)
    entries = timeline.close()
    _warn(timeline.left_out, "entry", "entries")
    yield from entries


def tables(
    *paths: str | Path,
    only: Iterable[str] = (),
    records: bool = False,
    payload: bool = True,
    secrets: bool = False,
    **options: Unpack[Options],
) -> dict[str, pa.Table]:
    """Return the tables of `kshark export` by name, as Arrow tables in memory.

    `only`: the names of the tables to return, by default all. `records`: also a row for each record. `payload` and
    `secrets` as for `read`. Needs pyarrow: pip install 'kshark[parquet]'. Raises kshark.UnreadableInput for a file that
    is no capture, UsageError for an unknown table.
    """
    try:
        from kshark.output.parquet_memory import ArrowTables
    except ImportError:
        raise UsageError("Arrow tables need pyarrow: pip install 'kshark[parquet]'") from None
    made = ArrowTables([str(path) for path in expand(paths)], only, records=records)
    captures = _Captures(
        paths, Reading(records=records or "headers", payload=payload, embedded=True, secrets=secrets), options
    )
    for page, results in analysed(captures):
        made.page(page)
        made.page(results)
    return made.close(captures.packets)


def _warn(left_out: int, one: str, many: str = "") -> None:
    """Warn of what is missing because there was too much of it."""
    if left_out:
        warnings.warn(
            f"{counted(left_out, one, many)} beyond kshark's limits left out; read a shorter capture", stacklevel=3
        )
