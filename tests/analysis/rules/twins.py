"""Twins: the conversations of rows and promises again, with another clock, other settings, smaller tables, or less of
the traffic.

None may add a violation. `python -m tests.analysis.rules.twins` makes all of them, prints those that do, and writes how
many there are to twins.txt."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import combinations
from pathlib import Path
from typing import Final, NamedTuple

from kshark import limits
from kshark.analysis import RULES
from kshark.analysis.facts.bases import Limit
from kshark.anomaly import CATALOGUE
from tests.analysis.rules.examples import Example
from tests.analysis.rules.promises import PROMISES
from tests.analysis.talks import sets, shows
from tests.conversation import Conversation, Thinned, everything
from tests.packets import Packet
from tests.thinning import added

WRITTEN: Final = Path(__file__).with_name("twins.txt")
Row = tuple[int, Packet]
#: A twin: the difference in words, its packets, and a limit that is set to a small number.
Twin = tuple[str, list[Row], tuple[str, int] | None]
_SECOND: Final = 1_000_000_000
#: The distance of packet numbers between which others are inserted.
_ROOM: Final = 1_000
#: Low and high values of the settings that rules read.
SETTINGS: Final = {
    "group.share.delivery.count.limit": (2, 10),
    "group.share.max.delivery.count.limit": (5, 25),
    "share.delivery.count.limit": (2, 25),
    "group.share.partition.max.record.locks": (100, 10_000),
    "share.partition.max.record.locks": (100, 10_000),
    "socket.request.max.bytes": (1_000, (1 << 31) - 1),
}
#: By how many seconds a clock is set.
_STEPS: Final = (-40, -3, 3, 40)
#: Where silences of the capture are reported, a step of the clock within one is no proof of a time either.
_SEES_SILENCES: Final = "SILENCE_UNPROVED" in CATALOGUE
#: Limits of tables that the analysis keeps; those of the stages before it have tests of their own.
LIMITS: Final = sorted(
    {basis.name for rule in RULES for basis in rule.rests_on if isinstance(basis, Limit)}
    - {"FRAME_BYTES", "OPEN_BYTES"}
)


class Talk(NamedTuple):
    """A conversation that twins are made of."""

    name: str
    made: Callable[[], Conversation]


def talks() -> Iterator[Talk]:
    """Yield what rows show as wrong and right, and the promises."""
    for rule in RULES:
        for side in ("wrong", "right"):
            lines = getattr(rule, side)
            if lines and is_played(lines):
                yield Talk(f"{rule.code} {side}", lambda lines=lines: Example(lines).talk)  # type: ignore[misc]
    for promise in PROMISES:
        yield Talk(promise.__name__, lambda promise=promise: promise()[0])  # type: ignore[misc]


def is_played(lines: str) -> bool:
    """True if it is written in the words of conversations: some rows about bytes are not."""
    try:
        Example(lines)
    except ValueError:
        return False
    return True


def ends(packet: Packet) -> tuple[bytes, bytes]:
    """Return address and port of the sender and of the receiver."""
    data = packet.data
    return data[26:30] + data[34:36], data[30:34] + data[36:38]


def connection(packet: Packet) -> tuple[bytes, ...]:
    return tuple(sorted(ends(packet)))


def without_times(rows: list[Row]) -> Iterator[Twin]:
    first_ns = rows[0][1].time_ns
    yield "times of zero", [(number, packet.at(0)) for number, packet in rows], None
    yield "equal times", [(number, packet.at(first_ns)) for number, packet in rows], None
    seconds = [(number, packet.at(packet.time_ns // _SECOND * _SECOND)) for number, packet in rows]
    yield "times in seconds", seconds, None


def clock_steps(rows: list[Row]) -> Iterator[Twin]:
    for at in range(1, len(rows)):
        gap_ns = rows[at][1].time_ns - rows[at - 1][1].time_ns
        for step in _STEPS:
            if _SEES_SILENCES or gap_ns + step * _SECOND < 0:
                later = [(number, packet.at(packet.time_ns + step * _SECOND)) for number, packet in rows[at:]]
                yield f"the clock is set by {step} s at packet {rows[at][0]}", rows[:at] + later, None


def hidden(rows: list[Row]) -> Iterator[Twin]:
    """Yield what a sniffer elsewhere holds: without connections, hosts, directions."""
    every = dict.fromkeys(connection(packet) for _, packet in rows)
    for some in (*((one,) for one in every), *combinations(every, 2)):
        yield "without connections", [row for row in rows if connection(row[1]) not in some], None
    for sender in dict.fromkeys(ends(packet) for _, packet in rows):
        yield "without a direction", [row for row in rows if ends(row[1]) != sender], None
    for host in {end[:4] for pair in every for end in pair}:
        left = [row for row in rows if host not in {end[:4] for end in ends(row[1])}]
        yield "without a host", left, None


def lost(rows: list[Row]) -> Iterator[Twin]:
    for at in range(len(rows)):
        yield f"without packet {rows[at][0]}", rows[:at] + rows[at + 1 :], None


def late(rows: list[Row]) -> Iterator[Twin]:
    """Yield one direction of a connection stamped later than it was, from each of its packets on."""
    for sender in dict.fromkeys(ends(packet) for _, packet in rows):
        for by_ns in (5_000_000, 2 * _SECOND):
            moved = [(packet.time_ns + by_ns * (ends(packet) == sender), number, packet) for number, packet in rows]
            stamped = [packet.at(time_ns) for time_ns, _, packet in sorted(moved, key=lambda row: row[:2])]
            yield f"a direction is stamped {by_ns / 1e9} s late", [*enumerate(stamped, 1)], None


def small_tables(rows: list[Row]) -> Iterator[Twin]:
    for name in LIMITS:
        for room in (1, 2):
            yield f"{name} is {room}", rows, (name, room)


def other_settings(rows: list[Row]) -> Iterator[Twin]:
    """Yield what else the broker shows before the conversation, and in its middle: high settings, and low ones that are
    raised at once. The numbers of `rows` leave room for it.
    """
    for is_raised in (False, True):
        talk = Conversation()
        talk._ports += 9_000
        connection = talk.connection()
        for name, (low, high) in SETTINGS.items():
            group = "" if name.startswith(("group.", "socket.")) else "g"
            shows(connection, name, low if is_raised else high, group=group, read_only=not is_raised)
            if is_raised:
                sets(connection, name, str(high), group=group)
        shown = [packet for _, packet in talk.packets()]
        for at in (0, len(rows) // 2):
            number, packet = rows[at]
            more = [*enumerate((other.at(packet.time_ns) for other in shown), number - len(shown))]
            words = "low settings that are raised" if is_raised else "high settings"
            yield f"{words} at packet {number // _ROOM}", rows[:at] + more + rows[at:], None


#: Twins by the kind of what they take away.
KINDS: Final[dict[str, Callable[[list[Row]], Iterator[Twin]]]] = {
    "duration: no times": without_times,
    "duration: steps of the clock": clock_steps,
    "absence": hidden,
    "setting and awareness: lost packets": lost,
    "order": late,
    "limit": small_tables,
    "setting": other_settings,
}


@contextmanager
def room_for(limit: tuple[str, int] | None) -> Iterator[None]:
    if limit is None:
        yield
        return
    name, room = limit
    before = getattr(limits, name)
    setattr(limits, name, room)
    try:
        yield
    finally:
        setattr(limits, name, before)


def accusations(kind: str, talk: Talk) -> tuple[int, list[str]]:
    """Return the number of twins of a conversation, and the violations that they add."""
    rows = talk.made().packets()
    if KINDS[kind] is other_settings:
        rows = [(number * _ROOM, packet) for number, packet in rows]
    whole, wrong, count = everything(Thinned(rows)), [], 0
    for words, twin, limit in KINDS[kind](rows):
        if not twin:
            continue
        count += 1
        with room_for(limit):
            more = added(whole, everything(Thinned(twin)))
        if KINDS[kind] is other_settings:  # the connection shows that the listener answers without a header
            more = [finding for finding in more if finding.code != "PROXY_HEADER_REFUSED"]
        wrong += [f"{talk.name}, {words}: {finding.code} by {finding.blame}: {finding.argument}" for finding in more]
    return count, wrong


def summary(counts: dict[str, int]) -> list[str]:
    return [f"{kind}: {count} twins, none adds a violation" for kind, count in counts.items()]


def main() -> None:
    counts = dict.fromkeys(KINDS, 0)
    for kind in KINDS:
        for talk in talks():
            count, wrong = accusations(kind, talk)
            counts[kind] += count
            print(*wrong, sep="\n", end="\n" * bool(wrong), flush=True)
        print(kind, counts[kind], flush=True)
    WRITTEN.write_text("".join(f"{line}\n" for line in summary(counts)))


if __name__ == "__main__":
    main()
