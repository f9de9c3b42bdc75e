"""Every command over damaged files and words by chance: it ends with an exit code that its help names, and errors are
one sentence."""

from __future__ import annotations

import gzip
import io
import struct
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Final

import msgspec

from kshark.capture import source
from kshark.cli import COMMANDS, main
from kshark.cli.check import NOTHING_JUDGED
from tests.fuzz.captures import damaged, some_of
from tests.fuzz.filters import names
from tests.fuzz.kind import Broken, Kind, Seen, shorter, shorter_bytes
from tests.fuzz.mutating import mutated
from tests.packets import Packet, pcap

#: What an uncaught error says instead of its traceback (kshark.cli.ending).
FAULT: Final = "a bug in kshark"
#: Commands that end by themselves; live does not.
ENDING: Final = [name for name in COMMANDS if name != "live"]
#: Commands that judge: they alone end with 1 (a violation) and NOTHING_JUDGED.
JUDGING: Final = ("check", "diff", "report")
#: Where a damaged file, a folder to write to, and a small file stand in the words.
FILE, FOLDER, TEXT = "FILE", "FOLDER", "TEXT"
_OPTIONS: Final = (
    ["-T", "json"], ["-T", "text"], ["-T", "fields", "-e", "kafka.api"], ["-T", "xml"], ["-V"], ["-q"], ["-n"],
    ["-c", "3"],
    ["-c", "x"], ["-c"], ["--each"], ["--since", "+1s"], ["--until", "+2s"], ["--since", "14:99"],
    ["--until", "2026-13-45"],
    ["-d", "tcp.port==9092,kafka"], ["-d", "port=1"], ["-d", "tcp.port==99999,kafka"], ["--no-records"],
    ["--no-payload"],
    ["--secrets"], ["--jobs", "0"], ["--jobs", "1"], ["--tls-keys", TEXT], ["--dissector", TEXT], ["-o", FOLDER],
    ["-o", FILE],
    ["-w", FOLDER + "/w"], ["--evidence", FOLDER], ["--records"], ["--select", "EPOCH_SKIP_AHEAD"], ["--ignore", ""],
    ["--select", "NOTHING"], ["--group", "g"], ["--topic", "t"], ["--partition", "0"], ["--at", "5"], ["--at", "x"],
    ["--offset", "3"], ["--holders"], ["--flows"], ["--coverage"], ["--help"], ["-r", FILE], ["-r", "/nowhere"],
    ["--header"],
    ["--format", "x"], ["-e", "kafka.nothing"], ["--", FILE], ["-x"], [""], ["\udcff"], ["-Y"],
)  # fmt: skip
#: Commands with which two processes must say what one says.
_OF_EACH: Final = (
    "read -T json", "read", "check -T json", "check", "check -T junit", "sessions", "groups -T json", "deliveries",
    "stats",
)  # fmt: skip
#: Later times have no room in pcap files.
_PCAP_NS: Final = 10**9 << 32
_UINT32: Final = (1 << 32) - 1
_PLAIN: Final = (
    "ShareFetch",
    "78",
    "1",
    "123",
    "request",
    "response",
    "tables",
    "fields",
    "EPOCH_SKIP_AHEAD",
    "-1",
    "99999999999999999999",
    "NONE",
)


class Call(msgspec.Struct):
    """A command's words, and what its file holds; `twice`: two processes must say what one says."""

    words: list[str]
    data: bytes
    twice: bool = False


class Commands(Kind[Call]):
    name = "commands"
    case = Call
    share = 3
    most_s = 30

    def make(self, random: Random) -> Call:
        command = random.choice(ENDING)
        words = [command]
        for _ in range(random.choice((0, 0, 0, 1, 1, 3))):
            words += ["-Y", _filter(random)] if random.random() < 0.15 else random.choice(_OPTIONS)
        if command in ("explain", "decode"):
            words += random.choices(_PLAIN, k=random.randrange(4))
        if command in ("export", "report") and random.random() < 0.8:
            words += ["-o", FOLDER]
        if command == "diff" and random.random() < 0.9:
            words.append(FILE)  # the other capture
        if random.random() < 0.04:
            return Call([*random.choice(_OF_EACH).split(), "--each", FILE, FILE], _file(random), True)
        return Call([*words, FILE] if random.random() < 0.95 else words, _file(random))

    def check(self, case: Call) -> Seen:
        with tempfile.TemporaryDirectory() as folder:
            path, text = Path(folder, "made.pcap"), Path(folder, "text")
            path.write_bytes(case.data)
            text.write_bytes(case.data[:50])
            places = {FILE: str(path), FOLDER: f"{folder}/out", TEXT: str(text)}
            words = [
                word.replace(FOLDER, places[FOLDER]) if FOLDER in word else places.get(word, word)
                for word in case.words
            ]
            code, _, said = run(words)
            two = [*words, str(path), "--each"]
            if case.twice and run(two) != run([*two, "--jobs", "2"]):
                raise Broken("two processes say something else than one", words)
        if code not in (0, 1, 2, NOTHING_JUDGED):
            raise Broken("another exit code than 0, 1, 2 or 3", code)
        if FAULT in said or "Traceback" in said:
            where = said[said.index(FAULT) :].partition(": ")[0] if FAULT in said else "a traceback"
            raise Broken(where, said)
        if code >= 2 and not said.strip():
            raise Broken(f"exit code {code} without a word", words)
        if code in (1, NOTHING_JUDGED) and case.words[0] not in JUDGING:
            raise Broken(f"exit code {code} of a command that does not judge", words)
        return Seen(1, len(case.data), Counter({f"{case.words[0]} {code}": 1}))

    def smaller(self, case: Call) -> Iterator[Call]:
        for words in shorter(case.words[1:]):
            yield Call([case.words[0], *words], case.data, case.twice)
        yield from (Call(case.words, data, case.twice) for data in shorter_bytes(case.data))


def run(words: list[str]) -> tuple[int, bytes, str]:
    """The command in this process: its exit code, what it said on stdout and on stderr; in batches of a few packets."""
    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", errors="backslashreplace") for _ in range(2))
    before, source.BATCH_BYTES = source.BATCH_BYTES, 8192
    with redirect_stdout(out), redirect_stderr(err):
        try:
            code = main(words)
        except SystemExit as leaving:  # argparse's --help
            code = int(leaving.code or 0)
        finally:
            source.BATCH_BYTES = before
    said = [stream.detach().getvalue() for stream in (out, err)]
    return code, said[0], said[1].decode()


def _filter(random: Random) -> str:
    return (
        f"{random.choice(names())} {random.choice(('==', '>', 'contains', 'matches'))} "
        f"{random.choice(('1', 'x', '{', '[a'))}"
    )


def _file(random: Random) -> bytes:
    """A capture in any format, its packets damaged, then its bytes too; or anything else."""
    if random.random() < 0.05:
        return random.choice(
            (
                b"",
                b"\n",
                b"hello",
                random.randbytes(100),
                b"\xd4\xc3\xb2\xa1",
                b"\x0a\x0d\x0d\x0a",
                b"\x1f\x8b",
                b"\x28\xb5\x2f\xfd",
            )
        )
    packets = [
        replace(it, time_ns=it.time_ns % _PCAP_NS, wire_length=it.wire_length & _UINT32)
        for it in damaged(random)[:150] or some_of(random)
    ]
    data = (
        _pcapng(packets)
        if random.random() < 0.4
        else pcap(packets, link_type=packets[0].link_type, nano=random.random() < 0.5)
    )
    if random.random() < 0.4:
        data = mutated(data, random, [data])
    if random.random() < 0.15:
        data = gzip.compress(data, 1)
        data = mutated(data, random) if random.random() < 0.5 else data
    return data


def _pcapng(packets: list[Packet]) -> bytes:
    """One interface for each link type."""
    types = sorted({it.link_type for it in packets})
    blocks = [(0x0A0D0D0A, struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1))]
    blocks += [(1, struct.pack("<HHI", link_type, 0, 0)) for link_type in types]
    for it in packets:
        ticks = it.time_ns // 1000
        head = struct.pack(
            "<IIIII",
            types.index(it.link_type),
            ticks >> 32 & 0xFFFFFFFF,
            ticks & 0xFFFFFFFF,
            len(it.data),
            it.wire_length,
        )
        blocks.append((6, head + it.data + bytes(-len(it.data) & 3)))
    return b"".join(
        struct.pack("<II", kind, len(body) + 12) + body + struct.pack("<I", len(body) + 12) for kind, body in blocks
    )
