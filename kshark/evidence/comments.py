"""Comments of packets, for Wireshark: findings, and messages in one line."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from kshark.analysis import Analyzer, ListedStep, Rule
from kshark.evidence.capture import Copied
from kshark.model import Event, Exchange, Finding, Message
from kshark.output.catalogue import CODES
from kshark.output.findings import judgement
from kshark.output.lines import MessageLines
from kshark.output.spans import plain
from kshark.pipeline import Options
from kshark.units import safe

#: Options of pages whose messages are shown: no payload, and no credentials.
SHOWN: Final = Options(payload=False, embedded=True, knows=False)
#: APIs of share groups: sessions, heartbeats, descriptions, and those of share coordinators.
SESSION_APIS: Final = frozenset((78, 79))
SHARE_APIS: Final = SESSION_APIS | {76, 77, *range(83, 88), *range(90, 93)}
#: New comments, by packet number.
NewComments = dict[int, list[str]]


def finding_comment(finding: Finding) -> str:
    """Return what a finding says: code, verdict, rule, evidence."""
    entry = CODES.get(finding.code)
    parts = [f"{finding.code}: {plain(judgement(finding))}."]
    if entry is not None:
        parts.append(entry.text)
    if isinstance(entry, Rule) and entry.must:
        parts.append(f"Must be: {entry.must}")
    parts.append(f"Evidence: {safe(finding.argument)}")
    return " ".join(parts)


def signed(comments: NewComments) -> dict[int, list[str]]:
    """Return the comments with the name of who wrote them: the capture may have others."""
    return {packet: [f"kshark: {text}" for text in texts] for packet, texts in comments.items()}


def add_finding(comments: NewComments, finding: Finding) -> None:
    """Add a finding to the packet that proves it, and a short comment to the other packets of its evidence."""
    comments.setdefault(finding.packet, []).append(finding_comment(finding))
    short = f"Evidence of {finding.code} in packet {finding.packet}"
    others = {packet for witness in finding.witness for packet in (witness.request_packet, witness.response_packet)}
    others |= {witness.packet for witness in finding.witness}
    for packet in sorted(others - {None, finding.packet}, key=lambda packet: packet or 0):
        if packet is not None:
            comments.setdefault(packet, []).append(short)
    if isinstance(finding.until_packet, int) and finding.until_packet != finding.packet:
        comments.setdefault(finding.until_packet, []).append(
            f"{finding.code}, which began in packet {finding.packet}, ends here"
        )


def add_messages(comments: NewComments, capture: Copied, path: Path, packets: Iterable[int]) -> None:
    """Add messages of a copy in one line: those of exchanges that begin or end in `packets`, and their neighbours on
    each connection. Share requests say which epoch was due.
    """
    added = _Messages(comments, capture, _epochs_due(capture.pages(path)))
    wanted = {*packets}
    before: dict[int, Exchange] = {}
    follows: set[int] = set()
    for exchange in _exchanges(capture.pages(path, added.options)):
        flow = exchange.flow.id
        if not wanted.isdisjoint(message.packet for message in _sides(exchange)):
            if flow in before:
                added.add(before[flow])
            added.add(exchange)
            follows.add(flow)
        elif flow in follows:
            added.add(exchange)
            follows.discard(flow)
        before[flow] = exchange


def add_share_messages(comments: NewComments, capture: Copied, most: int) -> bool:
    """Add the messages of share groups and share coordinators of a capture in one line. Return False if `most` packets
    with comments were reached.
    """
    added = _Messages(comments, capture, _epochs_due(capture.again(capture.options)))
    for exchange in _exchanges(capture.again(added.options)):
        if any(message.api_key in SHARE_APIS for message in _sides(exchange)):
            added.add(exchange)
            if len(comments) >= most:
                return False
    return True


class _Messages:
    """Adds each message once."""

    def __init__(self, comments: NewComments, capture: Copied, due: Mapping[int, str]) -> None:
        self.options = replace(SHOWN, kafka_ports=capture.options.kafka_ports, tls_keys=capture.options.tls_keys)
        self._comments = comments
        self._lines = MessageLines(capture.registry)
        self._due = due
        self._done: set[tuple[int, int, str, object]] = set()

    def add(self, exchange: Exchange) -> None:
        for message in _sides(exchange):
            key = message.flow, message.packet, message.kind, message.correlation_id
            if key not in self._done:
                self._done.add(key)
                self._comments.setdefault(message.packet, []).append(self._line(message))

    def _line(self, message: Message) -> str:
        text = self._lines.brief(message)
        is_due = message.kind == "request" and message.packet in self._due and message.api_key in SESSION_APIS
        return f"{text} (epoch due: {self._due[message.packet]})" if is_due else text


def _exchanges(pages: Iterable[list[Event]]) -> Iterator[Exchange]:
    return (event for page in pages for event in page if type(event) is Exchange)


def _sides(exchange: Exchange) -> list[Message]:
    return [message for message in (exchange.request, exchange.response) if message is not None]


def _epochs_due(pages: Iterable[list[Event]]) -> dict[int, str]:
    """Return the epoch that the broker expected, by the packet of the share request."""
    analyzer = Analyzer(sessions=True, steps=True)
    due: dict[int, str] = {}

    def take() -> None:
        for listed in analyzer.listed():
            if isinstance(listed, ListedStep) and listed.step.expected is not None:
                expected = listed.step.expected
                text = " or ".join(map(str, expected)) if isinstance(expected, list) else str(expected)
                due[listed.witness.request_packet or listed.step.packet] = text

    for page in pages:
        analyzer.page(page)
        take()
    analyzer.close()
    take()
    return due
