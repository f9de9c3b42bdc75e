"""A headline: one thing that the first screen of `kshark check` says, in a sentence, with its advice."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct, field

from kshark.analysis.rules.rule import Verdict
from kshark.anomaly import Blame

#: What a headline is about, in the order of the screen: what of the capture cannot be trusted, who is hurt, the events
#: that explain it, the rules that were broken.
Kind = Literal["capture", "hurt", "event", "rule"]


class Headline(Struct, omit_defaults=True):
    """One headline; its fields are the JSON object.

    `text`: sentences without the advice. `code`: the rule or event with the most weight. `count`: findings that it
    sums up, `more` those by code that follow from it or come beside it. `clients`, `brokers`: at most a few names.
    """

    kind: Kind
    text: str
    advice: str = ""
    code: str | None = None
    verdict: Verdict | None = None
    blame: Blame | None = None
    weight: int = 0
    count: int = 1
    more: dict[str, int] = field(default_factory=dict)
    since_ns: int | None = None
    until_ns: int | None = None
    packets: tuple[int, int] | None = None
    clients: list[str] = field(default_factory=list)
    brokers: list[str] = field(default_factory=list)
    tickets: tuple[str, ...] = ()
