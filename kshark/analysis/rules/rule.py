"""What a rule is: one row of facts. What `explain` says, what Spark screens for, which bodies are read is derived from
it."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, Final, Literal, NamedTuple

from msgspec import Struct

from kshark.analysis.facts.argument import Argument
from kshark.analysis.facts.calls import EpochKind, Reply
from kshark.analysis.facts.heartbeats import HeartbeatReply
from kshark.analysis.rules.triggers import ALWAYS, Trigger
from kshark.analysis.states.tables import Machine
from kshark.anomaly import Blame
from kshark.conditions import ALWAYS as EVERY
from kshark.conditions import Condition

Verdict = Literal["violation", "unknown", "note"]
#: Where a finding stands: at the request that breaks the rule, at the answer that shows it (what explains a refusal
#: always does), or where the client let go of its session: at its FIN, or the heartbeat by which it left. What is odd
#: stands where it was seen, or at the connection's end, if only that tells what it means.
At = Literal["request", "answer", "end"]
#: What puts a rule about bytes to the test, each time that it is read: frames that were cut, messages, requests,
#: answers, answers that have their request, requests that ask for an answer and those that ask for none, connections;
#: answers to ApiVersions, requests to begin authentication, requests of share groups that are no early access; messages
#: with record batches, and of these Produce requests of today's format, those whose batches' records were counted, and
#: those whose records were opened.
Read = Literal[
    "", "frames", "messages", "requests", "answers", "matched", "due", "one_way", "connections",
    "api_versions", "authentications", "share_requests", "batches", "produced", "counted", "opened",
]  # fmt: skip
#: The place of the check that takes every refusal that no explanation before it is proved for.
CATCH_ALL: Final = 10_000
KINDS: Final = tuple(EpochKind)
REPLIES: Final = tuple(Reply)
#: What a rule that accuses may come to, what one may that also notes, and what one that never accuses comes to.
ACCUSES: Final[tuple[Verdict, ...]] = ("violation", "unknown")
NOTES_TOO: Final[tuple[Verdict, ...]] = ("violation", "unknown", "note")
NOTES: Final[tuple[Verdict, ...]] = ("note",)
#: What one comes to that explains a refusal: what the capture cannot prove is no explanation, and the refusal stays
#: unexplained.
EXPLAINS: Final[tuple[Verdict, ...]] = ("violation",)
#: What one comes to of which nearly every capture could say that it is not known.
PROVED: Final = EXPLAINS


class Check(Struct, frozen=True):
    """A function that looks at a machine's step and says what is wrong, or nothing.

    `kinds`, `replies` (None: any): the steps of a session, or heartbeats, that it is about; it is called where
    `trigger` holds. The default is everywhere; another trigger declares that plain steps do not concern the check.
    `order`: its place among those that explain a refusal: the first one proved gives the refusal its one cause.
    CATCH_ALL is the last one's; it is unknown. `reported_unproved`: an explanation that is reported as unknown rather
    than that.
    `machine` None: the rule's. `about`: the situation that it looks at, where a machine has several; `apis`: of
    requests to share coordinators those that it is about, where not all."""

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
        """True if the check may have something to say of a plain step: it declares nothing, and explains no refusal."""
        return self.trigger is ALWAYS and self.order is None


class Rule(Struct, frozen=True, kw_only=True):
    """One rule of the catalogue.

    What it looks at is one exchange: of the requests of `apis` that it is about (`given`) those for which `when` holds,
    and whose answer
    `answer` holds for, if there is one; or the steps of `machine`, with `checks`; or what is odd about bytes, the codes
    of `weird` (kshark.anomaly), with `checks` too. `blame` are the parties that it may accuse, the likeliest first;
    `verdicts` all that it can come to; `causes` all that its findings may name (kshark.analysis.rules.causes).

    For people: `must` is what has to be so, `advice` what a client should do where it is not, in sentences; `wrong` and
    `right` are exchanges that break the rule and keep it, or bring a note about and do not, with `; ` between them
    (README.md says how they are written); `tickets` what is known of it."""

    number: int | None
    code: str
    text: str
    source: str
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
    #: Of rules about bytes, if they have a number.
    read: Read = ""
    #: Error codes with which brokers answer what carries one of these codes: the rule says why they came.
    refused_with: tuple[int, ...] = ()
    #: Its checks are alternatives: one of them speaks of a step, the first that is reported, else the first.
    alternatives: bool = False
    #: Of each member (the first witness's) and topic it is told so many times, then the tenth, the hundredth, and so
    #: on; 0: each time.
    rationed: int = 0
    #: What the exchange shows, in a few words for the argument's sentence.
    sentence: str = ""
    must: str = ""
    advice: str = ""
    wrong: str = ""
    right: str = ""
    tickets: tuple[str, ...] = ()

    @property
    def accuses(self) -> bool:
        return "violation" in self.verdicts

    @property
    def broken_by(self) -> Condition | None:
        """The requests that break it."""
        return self.when if self.when is None or self.given is EVERY else self.given & self.when


class Checked(NamedTuple):
    """A check with the rule that it belongs to."""

    rule: Rule
    check: Check

    @property
    def situation(self) -> str:
        """What it looks at: steps of its machine, or one of several situations of that."""
        machine = self.check.machine or self.rule.machine
        return self.check.about.__name__ if self.check.about is not object else "" if machine is None else machine.name
