"""`kshark explain KAFKA-19950`, `kshark explain session.timeout.ms`: the rules that name a ticket or a setting."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from typing import Final, NamedTuple

from kshark.analysis import Rule
from kshark.analysis.facts.bases import Setting
from kshark.analysis.rules.causes import ADVICE
from kshark.output.catalogue import CODES, EVERY_RULE
from kshark.output.spans import API, CODE, DIM, LABEL, PLAIN, Line, folded, hanging
from kshark.units import counted

#: A setting's name in a sentence; not part of a file's name, a path or a filter.
_SETTING: Final = re.compile(r"(?<![\w./-])[a-z]+(?:\.[a-z0-9]+)+(?![\w(/=]|\.\w)")
_TICKET: Final = re.compile(r"(?:KAFKA-[0-9]+|(?P<repository>[\w-]+/[\w-]+)#(?P<number>[0-9]+))")


class Mention(NamedTuple):
    """A place in the catalogue: how it names a setting, the code of its rule or cause, and its sentence."""

    how: str
    code: str
    text: str


#: The ways in which rows name a setting, in the order in which they are shown.
_RESTS, _ADVISES, _TESTS, _SAYS = "resting on it", "with advice about it", "tested with it", "about it"


@cache
def settings() -> dict[str, Sequence[Mention]]:
    """Return where the catalogue names each setting of a broker, a topic, a group or a client, by its name."""
    found: dict[str, dict[Mention, None]] = {}
    for mention in _mentions():
        for name in _SETTING.findall(mention.text):
            found.setdefault(name, {})[mention] = None
    return {name: _once(mentions) for name, mentions in sorted(found.items())}


def _mentions() -> Iterator[Mention]:
    for entry in CODES.values():
        rule = entry if isinstance(entry, Rule) else None
        for basis in () if rule is None else rule.rests_on:
            if isinstance(basis, Setting):
                yield Mention(_RESTS, entry.code, basis.sentence)
        yield Mention(_ADVISES, entry.code, entry.advice)
        yield Mention(_TESTS, entry.code, "" if rule is None else rule.provoked_by)
        yield Mention(_SAYS, entry.code, entry.text)
        yield Mention(_SAYS, entry.code, "" if rule is None else rule.must)
    for cause, advice in ADVICE.items():
        yield Mention(_ADVISES, cause, advice)


def _once(mentions: Iterable[Mention]) -> list[Mention]:
    """Return the first mention of each row in each way."""
    return [*{(mention.how, mention.code): mention for mention in reversed([*mentions])}.values()][::-1]


def setting_lines(name: str, width: int | None) -> Iterator[Line]:
    """Return the page of a setting. Raises KeyError for one that no row names."""
    mentions = settings()[name]
    yield [(name, CODE), (f"  {counted(len({mention.code for mention in mentions}), 'rule')} of kshark", DIM)]
    for how in (_RESTS, _ADVISES, _TESTS, _SAYS):
        named = [mention for mention in mentions if mention.how == how]
        if named:
            yield []
            yield [("rules", API), (f"  {len(named)} {how}", DIM)]
            if how is _RESTS:  # the sentence is about the setting
                for sentence in dict.fromkeys(mention.text for mention in named):
                    yield from folded([(f"  {sentence}", DIM)], width, 2)
                named = [mention._replace(text=CODES[mention.code].text) for mention in named]
            yield from _rows([(mention.code, mention.text) for mention in named], width)
    alike = [other for other in settings() if _ends(other, name) or _ends(name, other)]
    if alike:
        yield []
        yield from hanging([("see also   ", LABEL), (", ".join(alike), CODE)], width, 11)


def _ends(longer: str, shorter: str) -> bool:
    """True if one name is the other with a prefix: that of a broker's setting for groups of one type."""
    return longer.endswith(f".{shorter}")


@cache
def tickets() -> dict[str, Sequence[Rule]]:
    """Return the rules that name each ticket of Kafka or of a client, by the ticket's name."""
    found: dict[str, list[Rule]] = {}
    for rule in EVERY_RULE:
        for ticket in rule.tickets:
            found.setdefault(ticket, []).append(rule)
    return dict(sorted(found.items()))


def ticket_lines(ticket: str, width: int | None) -> Iterator[Line]:
    """Return the page of a ticket. Raises KeyError for one that no rule names."""
    rules = tickets()[ticket]
    yield [(ticket, CODE), (f"  {_address(ticket)}", DIM)]
    yield []
    yield [("rules", API), (f"  {len(rules)} that {'names' if len(rules) == 1 else 'name'} it", DIM)]
    for rule in rules:
        yield from _rows([(rule.code, rule.text)], width)
        yield from hanging([("  → ", DIM), (rule.advice, PLAIN)], width, 4)


def _address(ticket: str) -> str:
    """Return the address of a ticket."""
    found = _TICKET.fullmatch(ticket)
    if found is None:
        raise ValueError(f"{ticket} is not the name of a ticket")
    if found["repository"] is None:
        return f"https://issues.apache.org/jira/browse/{ticket}"
    return f"https://github.com/{found['repository']}/issues/{found['number']}"


def _rows(rows: Sequence[tuple[str, str]], width: int | None) -> Iterator[Line]:
    wide = max(len(code) for code, _ in rows)
    for code, text in rows:
        head = f"  {code.ljust(wide)}  "
        yield from hanging([(head, CODE), (text, PLAIN)], width, len(head))
