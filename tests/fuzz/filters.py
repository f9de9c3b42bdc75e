"""Conditions as people type them, and what is none: a filter that says yes or no to every message, or a sentence that
says what to mend."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from random import Random
from typing import Final

import msgspec

from kshark.codec.paths import paths
from kshark.conditions.fields import COMMON, Fields
from kshark.conditions.filter import Filter
from kshark.errors import Error
from kshark.model import Message
from kshark.pipeline import Engine, Options
from kshark.registry import kafka_registry
from tests.fuzz.kind import Broken, Kind, Seen, shorter_bytes
from tests.packets import batch
from tests.property.mangled import packets_of
from tests.shared import CAPTURES

#: Texts of one case.
MANY: Final = 20
#: Characters of a sentence, beside those of the text that it may repeat.
SENTENCE: Final = 500
FIELDS: Final = Fields(kafka_registry())
_OPERATORS: Final = (
    "==",
    "!=",
    "<",
    "<=",
    ">",
    ">=",
    "contains",
    "matches",
    "~",
    "in",
    "eq",
    "ne",
    "lt",
    "&",
    "===",
    "=",
)
_JOINS: Final = ("and", "or", "&&", "||", "not", "!", "xor", "")
_VALUES: Final = (
    "ShareFetch", "0", "1", "-1", "78", "0x4e", "1.5", "1e400", "9" * 400, '"a '
        'b"', "'x", '"\\', "null", "true", "10ms", "+5s",
    "127.0.0.1", "::1", "[::1]:9092", "aa:bb", "{1 2}", "{1..5, "
        "9}", "{", "}", "{}", "NONE", "(((", "é", "\0", "\u202e", "[a-z", "(a+)+$",
    "*", "INVALID_SHARE_SESSION_EPOCH", "2026-11-23T10:00:00Z", "1" * 5_000, "{1..99999999999999999999}", "%s", "%n",
    "${x}", "{0}",
)  # fmt: skip


class Texts(msgspec.Struct):
    texts: list[str]


@cache
def names() -> tuple[str, ...]:
    """Of fields, some of them ambiguous, some unknown."""
    registry, found = (
        kafka_registry(),
        {*COMMON, "kafka", "tcp.port", "ip.addr", "frame", "kafka.nothing", "kafka.", "http.request"},
    )
    for key in registry.names():
        api = registry.api(key)
        for layout in (api.request, api.response) if api is not None else ():
            for path in map(str, paths(layout.root, layout.versions.high)):
                found.add(f"kafka.{path}")
                found.add(f"kafka.{path.rsplit('.', 1)[-1]}")
    return tuple(sorted(found))


@cache
def messages() -> tuple[Message, ...]:
    """One of each API and kind that the bundled captures have, damaged ones too."""
    found: dict[object, Message] = {}
    for name in ("adv-frames.pcap", "share-errors.pcap", "zk-old-clients.pcap", "hostile-records.pcap"):
        for page in Engine(Options(embedded=True), kafka_registry()).pages([batch(packets_of(CAPTURES / name))]):
            for event in page:
                if isinstance(event, Message):
                    found.setdefault((event.api_key, event.kind, tuple(event.weird or ())), event)
    return tuple(found.values())


class Filters(Kind[Texts]):
    name = "filters"
    case = Texts
    share = 1

    def make(self, random: Random) -> Texts:
        return Texts([_text(random) for _ in range(MANY)])

    def check(self, case: Texts) -> Seen:
        for text in case.texts:
            check_text(text)
        return Seen(len(case.texts), sum(map(len, case.texts)))

    def smaller(self, case: Texts) -> Iterator[Texts]:
        if len(case.texts) > 1:
            yield from (Texts([text]) for text in case.texts)
            return
        (text,) = case.texts
        for data in shorter_bytes(text.encode("utf-8", "surrogatepass")):
            yield Texts([data.decode("utf-8", "replace")])


def check_text(text: str) -> None:
    try:
        wanted = Filter(text, FIELDS)
    except Error as error:
        said = str(error)
        if not said or "\n" in said or len(said) > SENTENCE + len(text):
            raise Broken("a mistake is not told in one sentence", repr(said)) from error
        return
    for message in messages():
        if not isinstance(wanted.passes(message), bool):
            raise Broken("a filter says neither yes nor no", text)


def _text(random: Random) -> str:
    if random.random() < 0.1:
        return random.randbytes(random.randrange(30)).decode("utf-8", random.choice(("replace", "backslashreplace")))
    if random.random() < 0.02:
        return random.choice(
            (
                "(" * 3_000 + "kafka",
                "not " * 3_000 + "kafka",
                " and ".join(["kafka"] * 2_000),
                "kafka or " * 2_000 + "kafka",
            )
        )
    words = " ".join(_comparison(random) for _ in range(random.choice((1, 1, 2, 4))))
    if random.random() < 0.3:
        words = list(words)
        for _ in range(random.choice((1, 2))):
            at = random.randrange(len(words) + 1)
            words[at : at + random.randrange(3)] = random.choice(
                ("", "(", ")", '"', " ", "{", "}", ".", "\\", "\n", "=", "!")
            )
        words = "".join(words)
    return words


def _comparison(random: Random) -> str:
    name, join = random.choice(names()), random.choice(_JOINS)
    if random.random() < 0.2:
        return f"{join} {name}"
    other = random.choice(names()) if random.random() < 0.1 else random.choice(_VALUES)
    said = f"{name} {random.choice(_OPERATORS)} {other}"
    return f"{join} ({said})" if random.random() < 0.2 else f"{join} {said}"
