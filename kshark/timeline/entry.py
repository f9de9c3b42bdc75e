"""An entry of the timeline: something that happened or changed, at a packet or from a packet to a packet."""

from __future__ import annotations

from typing import Final, Literal

from kshark.model import Shown

#: What an entry is about. `event`: an incident of the catalogue. `session`: a share session that did not end by its
#: client's wish. `capture`: the capture itself.
Kind = Literal[
    "event", "connection", "leader", "coordinator", "topic", "group", "member", "session", "administration", "capture"
]
KINDS: Final[tuple[Kind, ...]] = (
    "event", "connection", "leader", "coordinator", "topic", "group", "member", "session", "administration", "capture",
)  # fmt: skip


class Entry(Shown, omit_defaults=True):
    """One entry; its fields, in this order, are the JSON line (`kshark events -T json`). Absent fields are unknown, or
    do not apply.

    `code`: of an incident. `count`: the number of happenings that it sums up. `about`: no packet shows `time_ns`,
    which is inferred; `packet` is only the one from which on the capture shows it.
    """

    time_ns: int
    packet: int
    kind: Kind
    text: str
    until_ns: int | None = None
    until_packet: int | None = None
    code: str | None = None
    verdict: str | None = None
    count: int = 1
    broker: str | None = None
    client: str | None = None
    client_id: str | None = None
    group_id: str | None = None
    member_id: str | None = None
    topic: str | None = None
    partition: int | None = None
    about: bool = False

    def __repr__(self) -> str:
        return f"<Entry {self.kind}, packet {self.packet}: {self.text!r}>"


def in_order(entry: Entry) -> tuple[int, int, int, str]:
    """Return the sort key of the timeline."""
    return entry.time_ns, entry.packet, KINDS.index(entry.kind), entry.text
