"""The row of facts that defines a rule. `kshark explain`, Spark's screen and the bodies to read are derived from it."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, Final, Literal, NamedTuple

from msgspec import Struct

from kshark.analysis.facts.argument import Argument
from kshark.analysis.facts.bases import Basis
from kshark.analysis.facts.calls import EpochKind, Reply
from kshark.analysis.facts.heartbeats import HeartbeatReply
from kshark.analysis.rules.triggers import ALWAYS, Trigger
from kshark.analysis.states.tables import Machine
from kshark.anomaly import Blame
from kshark.conditions import ALWAYS as EVERY
from kshark.conditions import Condition

Verdict = Literal["violation", "unknown", "note"]
#: Packet of a finding: the request that breaks the rule, the answer that shows it (always for reasons of a refusal), or
#: the end of the session: the client's FIN, or its heartbeat that leaves. A fault in bytes is at its own packet, or
#: at the connection's end if its meaning depends on that.
At = Literal["request", "answer", "end"]
#: Items that test a rule about bytes, each time that one is read: frames, messages, requests, answers, answers matched
#: to their request, requests with and without an answer due, connections; answers to ApiVersions, requests that begin
#: authentication, share group requests that are not early access; messages with record batches, and of these: Produce
#: requests of today's format, messages with counted records, and messages with opened records.
Read = Literal[
    "", "frames", "messages", "requests", "answers", "matched", "due", "one_way", "connections",
    "api_versions", "authentications", "share_requests", "batches", "produced", "counted", "opened",
]  # fmt: skip
#: Order of the check that gets every refusal without a proved explanation.
CATCH_ALL: Final = 10_000
KINDS: Final = tuple(EpochKind)
REPLIES: Final = tuple(Reply)
#: Verdicts of a rule that accuses, of a rule that accuses or notes, and of a rule that never accuses.
ACCUSES: Final[tuple[Verdict, ...]] = ("violation", "unknown")
NOTES_TOO: Final[tuple[Verdict, ...]] = ("violation", "unknown", "note")
NOTES: Final[tuple[Verdict, ...]] = ("note",)
#: Verdicts of a rule that explains a refusal: an explanation that the capture cannot prove leaves the refusal
#: unexplained.
EXPLAINS: Final[tuple[Verdict, ...]] = ("violation",)
#: Report only when proved: in nearly every capture "unknown" would be noise.
PROVED: Final = EXPLAINS


class Check(Struct, frozen=True):
    """Function that looks at a step of a machine and returns an argument if something is wrong.

    `kinds`, `replies` (None: any): the steps of a session, or the heartbeats, that the check is about. It is called
    where `trigger` holds. The default trigger is always; another one declares that plain steps do not concern the
    check.
    `order`: position among the checks that explain a refusal. The first proved one gives the refusal its only cause.
    The last one has CATCH_ALL; its verdict is unknown.
    `reported_unproved`: report the explanation as unknown, instead of using CATCH_ALL, if it is not proved.
    `machine` None: the rule's machine. `about`: the situation that the check looks at, if a machine has several.
    `apis`: the requests to share coordinators that it is about, if not all.
    """

    look: Callable[[Any], Argument | None]
    kinds: Collection[EpochKind] = KINDS
    replies: Collection[Reply | HeartbeatReply] | None = None
    trigger: Trigger = ALWAYS
    order: int | None = None
    machine: Machine | None = None
    about: type = object
    apis: Collection[int] = ()
    reported_unproved: bool = False

    def is_about_reply(self, reply: Reply | HeartbeatReply) -> bool:
        """True if the check is called at steps with this reply."""
        return self.replies is None or reply in self.replies

    @property
    def concerns_plain(self) -> bool:
        """True if the check may report a plain step: it declares no trigger, and explains no refusal."""
        return self.trigger is ALWAYS and self.order is None


class Rule(Struct, frozen=True, kw_only=True):
    """One rule of the catalogue.

    A rule looks at one of these:
    - one exchange: requests of `apis` for which `given` and `when` hold, and whose answer, if any, meets `answer`;
    - the steps of `machine`, with `checks`;
    - faults in bytes, the codes in `weird` (kshark.anomaly), also with `checks`.

    `rests_on`: what its findings rest on besides the packets that they name, so that another capture of the same
    traffic may not prove them (kshark.analysis.facts.bases). Empty: these packets alone prove them.
    `blame`: the parties that it may accuse, the likeliest first. `verdicts`: all its possible verdicts. `causes`: all
    causes that its findings may name (kshark.analysis.rules.causes).

    `weight`: how much the findings matter, for the order in which people see them: lost data and faults of a broker
    come before any number of mistakes of clients. `explains`, `excuses`: of an incident (kshark.incidents), the codes
    of findings in its time and place that it explains, and of those that it also excuses: the accused could not do
    otherwise.

    For people, in sentences: `must` is the requirement, `advice` says what to do if it is not met, `act` what the
    blamed party did, in the past tense and without it ("skipped an epoch of its share session"). `wrong`
    and `right` are exchanges that break and keep the rule, or that cause a note and do not. `; ` separates them
    (README.md describes their syntax). `provoked_by`: settings or actions of a client that test the rule, where they
    are not obvious. `tickets`: known issues about the rule.
    """

    number: int | None
    code: str
    text: str
    source: str
    rests_on: tuple[Basis, ...] = ()
    blame: tuple[Blame, ...] = ("client",)
    verdicts: tuple[Verdict, ...] = ACCUSES
    causes: tuple[str, ...] = ()
    at: At = "answer"
    machine: Machine | None = None
    checks: tuple[Check, ...] = ()
    apis: tuple[int, ...] = ()
    given: Condition = EVERY
    when: Condition | None = None
    answer: Condition | None = None
    weird: tuple[str, ...] = ()
    #: For rules about bytes that have a number: the items that test it.
    read: Read = ""
    #: For rules about bytes: code of the row that notes it where the capture lacks the bytes that would prove it.
    unproved_as: str = ""
    #: Error codes that brokers answer to bytes with a fault in `weird`: the rule explains these errors.
    refused_with: tuple[int, ...] = ()
    #: True if the checks are alternatives: only one judges a step, the first that is reported, else the first.
    alternatives: bool = False
    #: Number of findings to report for each member (of the first witness) and topic. Then only the tenth, hundredth and
    #: so on are reported. 0: no limit.
    rationed: int = 0
    #: What the exchange shows, in a few words: part of the argument's sentence.
    sentence: str = ""
    act: str = ""
    must: str = ""
    advice: str = ""
    wrong: str = ""
    right: str = ""
    provoked_by: str = ""
    tickets: tuple[str, ...] = ()
    weight: int = 0
    explains: tuple[str, ...] = ()
    excuses: tuple[str, ...] = ()

    @property
    def accuses(self) -> bool:
        return "violation" in self.verdicts

    @property
    def broken_by(self) -> Condition | None:
        """Condition on the requests that break the rule."""
        return self.when if self.when is None or self.given is EVERY else self.given & self.when


class Checked(NamedTuple):
    """A check with the rule that it belongs to."""

    rule: Rule
    check: Check

    @property
    def situation(self) -> str:
        """Name of the situation that it looks at: the steps of its machine, or one of several situations of that."""
        machine = self.check.machine or self.rule.machine
        return self.check.about.__name__ if self.check.about is not object else "" if machine is None else machine.name
