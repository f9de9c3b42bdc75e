"""Rules about bytes: judge messages and events that carry the codes which rules name, once the capture has shown all
that the verdict needs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from msgspec import UNSET
from msgspec.structs import replace

from kshark import limits
from kshark.analysis.facts.argument import EXCHANGE, Argument
from kshark.analysis.facts.calls import Call, Sighting
from kshark.analysis.facts.connections import ConnectionFacts, PacketOrder
from kshark.analysis.facts.judge import NOTE
from kshark.analysis.facts.known import ALWAYS, known_if, never
from kshark.analysis.facts.reading import call_of, doubt_by
from kshark.analysis.rules import RuleBook
from kshark.analysis.rules.byte_fault import ByteFault
from kshark.analysis.rules.rule import Rule
from kshark.analysis.runners.verdict import Verdict, judged
from kshark.anomaly import CATALOGUE, Blame
from kshark.model import Closed, Exchange, Gap, Message, Weird, Witness

#: Reasons for doubt that no missing bytes explain.
_COMPLETE: Final = ("disorder", "hidden_traffic")
_SENDER: Final[dict[str, Blame]] = {"request": "client", "response": "broker"}
#: Why bytes are missing, in words, by the reason of the gap.
_GAP_REASONS: Final = {
    "missing": "",
    "snapped": " (cut off by the snap length)",
    "body": " (cut off by the snap length)",
    "buffer_full": " (given up: too much followed them)",
    "at_close": " (up to the end)",
    "undecrypted": " (not decrypted)",
    "unlogged": " (the client skipped correlation ids)",
}


class ByteFaultRunner:
    """Look at messages and events that carry one of `codes`. Some faults wait for the end of their connection."""

    def __init__(self, book: RuleBook, clock: PacketOrder) -> None:
        self._book, self._clock = book, clock
        self.codes: Final = book.weirds.keys()

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._book, self._clock)

    def exchange(self, exchange: Exchange, connection: ConnectionFacts | None) -> Sequence[Verdict]:
        """Return the verdicts on an exchange of which a message carries codes."""
        if connection is None:
            return ()
        request, response = exchange.request, exchange.response
        verdicts: list[Verdict] = []
        if request is not None and self._concerns(request):
            is_answered = response is not None
            call = call_of(request, None, connection)
            verdicts += self._message(request, call, connection, is_answered=is_answered)
        if response is not None and self._concerns(response):
            call = _alone(response, connection) if request is None else call_of(request, response, connection)
            verdicts += self._message(response, call, connection)
        return verdicts

    def _concerns(self, message: Message) -> bool:
        """True if a rule is about one of its codes."""
        return message.weird is not UNSET and not self.codes.isdisjoint(message.weird)

    def frame(self, message: Message, connection: ConnectionFacts | None) -> Sequence[Verdict]:
        """Return the verdicts on a message of which only the position and the size are known."""
        if connection is None or message.weird is UNSET:
            return ()
        return [*self._message(message, _alone(message, connection), connection)]

    def event(self, weird: Weird, connection: ConnectionFacts | None) -> Sequence[Verdict]:
        """Return the verdicts on a fault that belongs to no message."""
        if connection is None:
            return ()
        rule, flow, packet = self._book.weirds[weird.code], connection.flow, weird.packet
        if rule.at == "end" and weird.first_packet is not None:
            packet = weird.first_packet
        seen = Witness(flow.id, None, None, None, packet, "bytes")
        if weird.stage == "exchange":
            seen = Witness(flow.id, weird.correlation_id, packet, None)
        sender: Blame = "client" if weird.side is None else flow.sender(weird.side)
        call = _sighting(connection, packet, weird.time_ns, weird.correlation_id, f"the {sender}'s bytes", seen)
        return self._judge_or_keep(
            ByteFault(rule, connection, sender, call, weird.detail, (weird.code,), times=weird.times)
        )

    def ended(self, connection: ConnectionFacts, closed: Closed) -> Sequence[Verdict]:
        """Return the verdicts that waited for the end of a connection."""
        waiting, connection.odd = connection.odd, ()
        verdicts: list[Verdict] = []
        for odd in waiting:
            odd.end = closed
            verdicts += [self._judged(odd, argument) for argument in _arguments(odd)]
        gap, rule = connection.first_gap, self._book.weirds.get("STREAM_GAP")
        if gap is not None and rule is not None and connection.flow.service == "kafka":
            verdicts.append(_incomplete(rule, connection, gap))
        return verdicts

    def _message(
        self, message: Message, call: Call, connection: ConnectionFacts, *, is_answered: bool = False
    ) -> Iterator[Verdict]:
        codes = [] if message.weird is UNSET else message.weird
        call.any_doubt = None  # a fault is no doubt about itself
        for rule in {rule.code: rule for code in codes if (rule := self._book.weirds.get(code)) is not None}.values():
            if CATALOGUE[rule.weird[0]].group == "exchange":
                known = known_if("RESYNC" not in codes, "resync")
            else:
                doubt = doubt_by(code for code in codes if code not in rule.weird)
                if message.kind == "response":
                    doubt = doubt or call.doubt or ("disorder" if self._may_be_anothers(codes, connection) else None)
                known = ALWAYS if doubt is None else never(doubt)
            yield from self._judge_or_keep(
                ByteFault(
                    rule,
                    connection,
                    _SENDER[message.kind],
                    call,
                    _detail(rule, message),
                    codes,
                    known,
                    is_answered=is_answered,
                )
            )

    def _judge_or_keep(self, odd: ByteFault) -> Sequence[Verdict]:
        """Judge a fault now, or keep it for the end of its connection if the verdict needs all holes of that."""
        arguments = [] if odd.rule.at == "end" else _arguments(odd)
        if odd.rule.at != "end" and not any(argument.needs.whole for argument in arguments):
            return [self._judged(odd, argument) for argument in arguments]
        alike = [other for other in odd.connection.odd if other.rule is odd.rule]
        # The limit is for each rule: another Spark bucket may be the only one that knows the faults of other rules.
        if len(alike) < limits.WEIRDS_PER_FLOW:
            odd.connection.odd += (odd,)
        else:
            alike[-1].times += odd.times  # stands for all after it
        return ()

    def _judged(self, odd: ByteFault, argument: Argument) -> Verdict:
        """Judge a fault. Where bytes are missing that would prove it, the row that notes this reports it instead."""
        verdict = judged(odd.rule, argument)
        noting = self._book.by_code.get(odd.rule.unproved_as)
        if noting is None or verdict.judgement.verdict != "unknown" or verdict.judgement.because in _COMPLETE:
            return verdict
        odd.rule = noting
        return Verdict(noting, replace(argument, text=odd.sentence, blame="capture"), NOTE)

    def _may_be_anothers(self, codes: Sequence[str], connection: ConnectionFacts) -> bool:
        """True if an answer that does not fit may answer another request with the same correlation id."""
        return "RESPONSE_OUT_OF_ORDER" in codes or (self._clock.disorder_ns > 0 and connection.orphans > 0)


def _arguments(odd: ByteFault) -> list[Argument]:
    return [argument for check in odd.rule.checks if (argument := check.look(odd)) is not None]


def _incomplete(rule: Rule, connection: ConnectionFacts, gap: Gap) -> Verdict:
    """Report the first hole of a connection, once."""
    flow = connection.flow
    by = flow.sender(gap.side)
    missing = "bytes" if gap.size < 0 else f"{gap.size} bytes"
    what = "requests may be missing" if gap.reason == "unlogged" else f"{missing} from the {by} are missing"
    others = f", the first of {flow.gaps} holes" if flow.gaps > 1 else ""
    text = f"{what} between packets {gap.first_packet} and {gap.last_packet}{_GAP_REASONS[gap.reason]}{others}"
    call = _sighting(
        connection, gap.packet, gap.time_ns, None, "", Witness(flow.id, None, None, None, gap.packet, "gap")
    )
    return Verdict(rule, Argument(text, (call,), EXCHANGE), NOTE)


def _detail(rule: Rule, message: Message) -> str:
    """Return the parts of the message's detail that the rule is about."""
    if message.detail is UNSET:
        return "too short for a header" if message.correlation_id is UNSET else ""
    parts = (part for part in message.detail.split("; ") if part.startswith(rule.weird))
    return "; ".join(part.removeprefix(rule.code).lstrip(": ").removesuffix(", field (none)") for part in parts)


def _alone(message: Message, connection: ConnectionFacts) -> Sighting:
    """Return a call for a message that belongs to no exchange."""
    flow, correlation_id = connection.flow.id, message.correlation_id
    shown_id = correlation_id if isinstance(correlation_id, int) else None
    subject = f"a frame of {message.size} bytes" if shown_id is None else f"an answer with correlation id {shown_id}"
    places = (message.packet, None) if message.kind == "request" else (None, message.packet)
    return _sighting(connection, message.packet, message.time_ns, shown_id, subject, Witness(flow, shown_id, *places))


def _sighting(
    connection: ConnectionFacts, packet: int, time_ns: int, correlation_id: int | None, subject: str, seen: Witness
) -> Sighting:
    return Sighting(
        connection, 0, subject, 0, packet, time_ns, correlation_id or 0, None, None, None, 0, seen=seen, settled=True
    )
