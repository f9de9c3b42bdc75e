"""Tables of many share requests, without their packets: rows of bundled captures, repeated for as many members as
wanted.

Twenty members are a group, and each has a partition of its own: it opens a share session, acknowledges what it was
handed and fetches more in turn, and closes it; now and then it asks for Metadata. One in a hundred is refused on its
way, for an epoch that was not due, and opens another session: one group of five has such a member. One member more may
send as many requests as all others."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from benchmarks.share_templates import Row, Templates
from kshark.output.export import Export
from kshark.output.manifest import Capture
from kshark.output.parquet import arrow_schema, coded
from kshark.output.parquet_files import GROUP_ROWS, OpenFile, PartFile
from kshark.output.parquet_part import Attempt, Part
from kshark.tables import TABLES

Int64s = NDArray[np.int64]
NAME: Final = "members.pcap"
#: One member in this many is refused once.
_REFUSED: Final = 100
#: Members of a group.
_TOGETHER_IN_GROUP: Final = 20
#: Records acquired in a response.
_RECORDS: Final = 15
#: Rows of each table that are created together.
_TOGETHER: Final = 200_000
_BEGIN_NS: Final = 1_795_000_000_000_000_000
_STEP_NS: Final = 1_000
#: Requests between two for Metadata.
_METADATA: Final = 100


@dataclass(frozen=True)
class Group:
    """A group of members with a number of requests each; `heavy`: another member sends as many as all others."""

    members: int
    requests: int
    heavy: bool = False

    @property
    def flows(self) -> int:
        return self.members + self.heavy

    @property
    def slots(self) -> int:
        """The number of requests in a round: one per member, and those of the heavy member."""
        return self.members * (1 + self.heavy)


def make(folder: Path, group: Group) -> None:
    """Write the tables of a capture of that group."""
    with Export(folder) as export:
        files = [*_written(export.attempt, group)]
        export.commit([Part(files, [Capture(NAME, [], {})])])


def _written(attempt: Attempt, group: Group) -> Iterator[PartFile]:
    known = Templates()
    flows = OpenFile(attempt.place, attempt.id, TABLES["flows"])
    flows.write([_flows(known, group)])
    yield flows.close()
    tables = {
        "exchanges": _exchanges, "share_requests": _share_requests, "acquired": _acquired,
        "acknowledgements": _acknowledgements
    }  # fmt: skip
    files = {name: OpenFile(attempt.place, attempt.id, TABLES[name]) for name in tables}
    for begin in range(-1, group.requests, max(1, _TOGETHER // group.slots)):
        rounds = np.arange(begin, min(group.requests, begin + max(1, _TOGETHER // group.slots)))
        for name, made in tables.items():
            rows = pa.Table.from_batches(made(known, group, rounds)).sort_by("packet").combine_chunks()
            if len(rows):
                files[name].write(rows.to_batches(GROUP_ROWS))
    for file in files.values():
        yield file.close()


# -- order of requests


@dataclass(frozen=True)
class _Steps:
    """Requests, one per element: their member, their number for the member, and their number in the capture."""

    group: Group
    member: Int64s
    number: Int64s
    place: Int64s

    @classmethod
    def of(cls, group: Group, rounds: Int64s) -> _Steps:
        slot, round_ = np.tile(np.arange(group.slots), len(rounds)), np.repeat(rounds, group.slots)
        member = np.minimum(slot, group.members)
        number = np.where(slot < group.members, round_, round_ * group.members + slot - group.members)
        return cls(group, member, number, (round_ + 1) * group.slots + slot)

    def __getitem__(self, chosen: NDArray[np.bool_]) -> _Steps:
        return _Steps(self.group, self.member[chosen], self.number[chosen], self.place[chosen])

    def __len__(self) -> int:
        return len(self.member)

    @cached_property
    def last(self) -> Int64s:
        heavy = self.group.requests * self.group.members
        return np.where(self.member < self.group.members, self.group.requests, heavy) - 1

    @cached_property
    def refusal(self) -> Int64s:
        """The number of the request that is refused; none: -1."""
        return np.where((self.member % _REFUSED == 7) | (self.member == self.group.members), self.last // 4 * 2, -1)

    @cached_property
    def epoch(self) -> Int64s:
        again = (self.refusal >= 0) & (self.number > self.refusal)
        epoch = np.where(again, self.number - self.refusal - 1, self.number)
        epoch = np.where(self.number == self.refusal, self.number + 1, epoch)
        return np.where(self.number == self.last, -1, epoch)

    @cached_property
    def previous_epoch(self) -> pa.Array:
        before = _Steps(self.group, self.member, self.number - 1, self.place).epoch
        return pa.array(before, pa.int32(), mask=self.number == 0)

    @cached_property
    def turn(self) -> Int64s:
        """The number without the refused request: even numbers fetch, the next number acknowledges."""
        return self.number - ((self.refusal >= 0) & (self.number > self.refusal))

    @cached_property
    def first_offset(self) -> Int64s:
        """Of what is handed out, or acknowledged."""
        return self.turn // 2 * _RECORDS

    @cached_property
    def packet(self) -> Int64s:
        """Of the request; the answer's is the next one."""
        return self.group.flows + 1 + 2 * self.place

    @cached_property
    def ids(self) -> pa.Array:
        return pc.binary_join_element_wise("member-", pc.cast(pa.array(self.member), pa.string()), "")

    @cached_property
    def groups(self) -> pa.Array:
        return pc.binary_join_element_wise(
            "group-", pc.cast(pa.array(self.member // _TOGETHER_IN_GROUP), pa.string()), ""
        )


def _kinds(known: Templates, steps: _Steps) -> Iterator[tuple[tuple[Row, Row], _Steps]]:
    """The requests by what they are."""
    refused, opening, closing = steps.number == steps.refusal, steps.epoch == 0, steps.epoch == -1
    other = ~(refused | opening | closing)
    odd = steps.turn % 2 == 1
    for template, chosen in (
        (known.opening, opening),
        (known.acknowledging, other & odd),
        (known.fetching, other & ~odd),
        (known.refused, refused),
        (known.closing, closing),
    ):
        if chosen.any():
            yield template, steps[chosen]


def _exchanges(known: Templates, group: Group, rounds: Int64s) -> list[pa.RecordBatch]:
    made = []
    if rounds[0] < 0:
        first = np.arange(group.flows)
        steps = _Steps(group, first, np.full(group.flows, -1), first)
        made.append(_batch("exchanges", known.introduction, _common(known, steps) | _places(steps)))
        rounds = rounds[1:]
    asking = _Steps.of(group, rounds)
    asking = asking[asking.number % _METADATA == 1]
    made.append(
        _batch(
            "exchanges",
            known.metadata,
            _common(known, asking) | _places(asking, 3) | {"correlation_id": pa.array(-asking.number, pa.int32())},
        )
    )
    for (row, _), steps in _kinds(known, _Steps.of(group, rounds)):
        texts = {
            "group_id": steps.groups,
            "member_id": steps.ids,
            "request_json": _asked(row, steps),
            "response_json": _all(_told(row["response_json"], steps), len(steps)),
        }
        made.append(_batch("exchanges", row, _common(known, steps) | _places(steps) | texts))
    return made


def _share_requests(known: Templates, group: Group, rounds: Int64s) -> list[pa.RecordBatch]:
    made = []
    for (_, row), steps in _kinds(known, _Steps.of(group, rounds[rounds >= 0])):
        own = {
            "group_id": steps.groups,
            "member_id": steps.ids,
            "epoch": pa.array(steps.epoch, pa.int32()),
            "session_key": pa.array(steps.member),
        }
        own["previous_epoch"] = steps.previous_epoch
        made.append(_batch("share_requests", row, _common(known, steps) | own))
    return made or [_batch("share_requests", known.opening[1], {}, 0)]


def _acquired(known: Templates, group: Group, rounds: Int64s) -> list[pa.RecordBatch]:
    steps = _Steps.of(group, rounds[rounds >= 0])
    return _ranges(
        "acquired",
        known,
        known.acquired,
        steps[(steps.turn % 2 == 0) & (steps.epoch >= 0) & (steps.number != steps.refusal)],
        1,
    )


def _acknowledgements(known: Templates, group: Group, rounds: Int64s) -> list[pa.RecordBatch]:
    steps = _Steps.of(group, rounds[rounds >= 0])
    return _ranges("acknowledgements", known, known.acknowledged, steps[(steps.turn % 2 == 1) & (steps.epoch > 0)], 0)


def _ranges(table: str, known: Templates, row: Row, steps: _Steps, behind: int) -> list[pa.RecordBatch]:
    """Rows with the member's partition and offsets; their packet comes so far behind the request's."""
    first, ts_ns = steps.first_offset, _times(steps.packet + behind)
    own = {
        "packet": pa.array(steps.packet + behind),
        "ts": pa.array(ts_ns // 1000, pa.timestamp("us", "UTC")),
        "ts_ns": pa.array(ts_ns),
        "group_id": steps.groups,
        "member_id": steps.ids,
        "partition": pa.array(steps.member, pa.int32()),
        "first_offset": pa.array(first),
        "last_offset": pa.array(first + _RECORDS - 1),
    }
    return [_batch(table, row, _common(known, steps) | own)]


def _flows(known: Templates, group: Group) -> pa.RecordBatch:
    first = np.arange(group.flows)
    steps = _Steps(group, first, np.zeros(group.flows, np.int64), first - group.slots)
    end = group.flows + 1 + 2 * (group.requests + 1) * group.slots
    packets = {
        "packet": first + 1,
        "first_request_packet": steps.packet + 2 * group.slots,
        "first_response_packet": steps.packet + 2 * group.slots + 1,
        "last_request_packet": np.full(group.flows, end - 2),
        "half_closed_packet": end + 2 * first,
        "closed_packet": end + 2 * first + 1,
        "last_packet": end + 2 * first + 1,
        "half_closed_position": np.full(group.flows, 6 * group.requests * group.members + 20),
    }
    times = {"half_closed_ts_ns": "half_closed_packet", "closed_ts_ns": "closed_packet", "last_ts_ns": "last_packet"}
    at = {name: pa.array(_times(packets[place])) for name, place in times.items()}
    return _batch(
        "flows", known.flow, _common(known, steps) | {name: pa.array(column) for name, column in packets.items()} | at
    )


# -- columns


def _common(known: Templates, steps: _Steps) -> dict[str, pa.Array]:
    flows = steps.group.flows
    where = pa.array(steps.member, pa.int32())
    ts_ns = _times(steps.packet)
    return {
        "capture": pa.DictionaryArray.from_arrays(pa.array(np.zeros(len(steps), np.int32)), pa.array([NAME])),
        "flow_id": pa.DictionaryArray.from_arrays(where, pa.array([f"{NAME}:{flow + 1}" for flow in range(flows)])),
        "client": pa.DictionaryArray.from_arrays(
            where, pa.array([f"10.{n >> 16 & 255}.{n >> 8 & 255}.{n & 255}:50001" for n in range(flows)])
        ),
        "packet": pa.array(steps.packet),
        "exchange": pa.array(steps.packet),
        "ts": pa.array(ts_ns // 1000, pa.timestamp("us", "UTC")),
        "ts_ns": pa.array(ts_ns),
        "correlation_id": pa.array(steps.number + 2, pa.int32()),
    }


def _times(packets: Int64s) -> Int64s:
    return packets * _STEP_NS + _mixed(packets) % _STEP_NS + _BEGIN_NS


def _places(steps: _Steps, behind: int = 0) -> dict[str, pa.Array]:
    """`behind`: so many events of the same packets come before."""
    at = 6 * (steps.number + 1) + behind
    columns = {
        "request_packet": steps.packet,
        "response_packet": steps.packet + 1,
        "request_ts_ns": _times(steps.packet),
        "response_ts_ns": _times(steps.packet + 1),
        "request_position": at + 1,
        "response_position": at + 2,
        "position": at + 3,
    }
    return {name: pa.array(column) for name, column in columns.items()}


def _asked(row: Row, steps: _Steps) -> pa.Array:
    """The request's body with its group, the member's id and the epoch."""
    begin, rest = row["request_json"].split(row["group_id"])
    before, rest = rest.split(row["member_id"])
    between, epoch, behind = rest.partition('"share_session_epoch":')
    behind = behind[behind.index(",") :]
    return pc.binary_join_element_wise(
        begin, steps.groups, before, steps.ids, between + epoch, _text(steps.epoch), _told(behind, steps), ""
    )


def _told(body: str, steps: _Steps) -> pa.Array | str:
    """The body with sizes, a partition and offsets of its own: what a fetch acquires, the request behind it
    acknowledges."""
    first = steps.first_offset
    last = first + _RECORDS - 1
    numbers = {
        "size": _mixed(steps.packet) % 60_000,
        "partition_index": steps.member,
        "first_offset": first,
        "last_offset": last,
    }
    numbers |= {"[[": first, ",": last}  # of a span, which has no names
    words = re.split(r'("(?:size|partition_index|first_offset|last_offset)":|\[\[(?=0,14)|(?<=\[\[0),(?=14))\d+', body)
    pieces: list[pa.Array | str] = [words[0]]
    for name, rest in zip(words[1::2], words[2::2], strict=True):
        pieces += [name, _text(numbers[name.strip('":')]), rest]
    return pc.binary_join_element_wise(*pieces, "") if len(pieces) > 1 else body


def _all(text: pa.Array | str, length: int) -> pa.Array:
    return pa.repeat(text, length) if isinstance(text, str) else text


def _mixed(numbers: Int64s) -> Int64s:
    """Return pseudo-random numbers, the same in each run."""
    return (numbers * 2_654_435_761 >> 8) & 0xFFFFFF


def _text(numbers: Int64s) -> pa.Array:
    return pc.cast(pa.array(numbers), pa.string())


def _batch(table: str, row: Row, changed: dict[str, pa.Array], length: int | None = None) -> pa.RecordBatch:
    """The row as often as its changed columns are long."""
    schema = coded(arrow_schema(TABLES[table]))
    length = len(changed["packet"]) if length is None else length
    return pa.RecordBatch.from_arrays(
        [
            _repeated(row[field.name], field.type, length) if field.name not in changed else changed[field.name]
            for field in schema
        ],
        schema=schema,
    )


def _repeated(value: Any, type: pa.DataType, length: int) -> pa.Array:
    if pa.types.is_dictionary(type):
        codes = pa.array(np.zeros(length, np.int32))
        return pa.DictionaryArray.from_arrays(codes, pa.array([value], pa.string()))
    if pa.types.is_nested(type) or value is None:
        return pa.array([value], type).take(pa.array(np.zeros(length, np.int64)))
    return pa.repeat(pa.scalar(value, type), length)
