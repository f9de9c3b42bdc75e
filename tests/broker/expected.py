"""What a capture of a walk should lead to: every share request with its packets and, where it was refused, what may be
said of it.

The packets are found by dpkt, not by kshark: requests by their place in the client's bytes, responses by their
correlation id."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import dpkt

from kshark.analysis.states.partition.situations import EXPLAINED
from tests.broker.diary import SHARE_GROUP_HEARTBEAT, Diary, Step, results_of

NAMES: Final = {78: "ShareFetch", 79: "ShareAcknowledge"}
HOW_TO_READ: Final = (
    "every share request of the walk. error_code is the answer on the wire. causes: what the one finding of a 122 or "
    "123 may say by the "
    "walker's own model of the broker, first_cause the likeliest; provable false: races, steps at which the model had "
    "lost the session, "
    "and members that never had one (unknown is right there). refused: topic id, partition and error of "
    "acknowledgements that were not "
    "taken. clean: nothing was wrong with this request itself (going on after a "
    "refusal, rule 38, may still be said of it)."
)
WRAP: Final = 1 << 32


@dataclass
class Stream:
    """One direction of a connection: its bytes by place, each with the packet that brought it last."""

    first_seq: int | None = None
    data: bytearray = field(default_factory=bytearray)
    ends: list[tuple[int, int]] = field(default_factory=list)

    def take(self, number: int, tcp: dpkt.tcp.TCP) -> None:
        if tcp.flags & dpkt.tcp.TH_SYN:
            self.first_seq = (tcp.seq + 1) % WRAP
        if self.first_seq is None or not tcp.data:
            return
        at = (tcp.seq - self.first_seq) % WRAP
        if at == len(self.data):  # loopback loses nothing; what comes again is not taken
            self.data += tcp.data
            self.ends.append((len(self.data), number))

    def frames(self) -> Iterator[tuple[bytes, int]]:
        """Each frame without its length, and the packet with its last byte."""
        at, index = 0, 0
        while at + 4 <= len(self.data):
            end = at + 4 + int.from_bytes(self.data[at : at + 4], "big")
            if end > len(self.data):
                return
            while self.ends[index][0] < end:
                index += 1
            yield bytes(self.data[at + 4 : end]), self.ends[index][1]
            at = end


def packets_of(capture: Path, broker_port: int) -> dict[tuple[int, int], tuple[int, int | None]]:
    """Request and response packet by client port and correlation id."""
    streams: dict[tuple[int, int], Stream] = {}
    with capture.open("rb") as file:
        for number, (_, data) in enumerate(dpkt.pcap.Reader(file), 1):
            tcp = dpkt.ethernet.Ethernet(data).data.data
            if broker_port in (tcp.sport, tcp.dport):
                streams.setdefault((tcp.sport, tcp.dport), Stream()).take(number, tcp)
    out: dict[tuple[int, int], tuple[int, int | None]] = {}
    for (source, target), stream in streams.items():
        if target != broker_port:
            continue
        back = streams.get((target, source), Stream())
        answers = {int.from_bytes(frame[:4], "big"): number for frame, number in back.frames()}
        for frame, number in stream.frames():
            correlation_id = int.from_bytes(frame[4:8], "big")
            out[source, correlation_id] = (number, answers.get(correlation_id))
    return out


def expected(
    name: str, seed: int, diary: Diary, packets: dict[tuple[int, int], tuple[int, int | None]]
) -> dict[str, Any]:
    """The content of `NAME.expected.json`; raises AssertionError where the capture and the walk do not agree."""
    steps = [step for step in diary.steps if "n" in step and step["api"] != SHARE_GROUP_HEARTBEAT]
    rows = [_row(step, diary, packets) for step in steps]
    return {
        "capture": name,
        "broker": f"Apache Kafka {diary.model.release.version}",
        "seed": seed,
        "how_to_read": HOW_TO_READ,
        "steps": [row for row in rows if row is not None],
    }


def _row(step: Step, diary: Diary, packets: dict[tuple[int, int], tuple[int, int | None]]) -> dict[str, Any] | None:
    found = packets.get((step["port"], step["cid"]))
    if found is None:
        assert step["answer"] is None, f"step {step['n']} was answered and is not in the capture"
        return None
    request, response = found
    assert response is not None or step["answer"] is None, f"the answer to step {step['n']} is not in the capture"
    row = {
        "n": step["n"],
        "client_port": step["port"],
        "correlation_id": step["cid"],
        "api": NAMES[step["api"]],
        "epoch": step["epoch"],
        "request_packet": request,
        "response_packet": response,
        "error_code": step["answer"],
        "sent": step["action"],
        "mistake": step["mistake"],
        "refused": [result for result in results_of(step) if result[2] in EXPLAINED],
    }
    causes = diary.causes.get(step["n"])
    if causes is not None:
        row |= {
            "causes": sorted(causes.every),
            "first_cause": sorted(causes.first),
            "provable": causes.provable,
            "rules": causes.rules,
        }
    return {**row, "clean": is_clean(step)}


def is_clean(step: Step) -> bool:
    """Nothing was wrong with the request, and it was answered without an error, also what it acknowledged."""
    taken = all(error == 0 for _, _, error in results_of(step))
    return step["mistake"] is None and step["answer"] == 0 and taken and not step["surprise"]
