"""Prints what missing packets and wrong times add: `python -m tests.walks.thinned [--variants N] [--seed N] [PCAP...]`.

Of each capture, N variants that miss something (tests.thinning says in which ways), and with `--clocks` N more whose
times are wrong (tests.walks.clocks says how), each with the violations that the whole does not have. proved: of the
added ones, those whose cause the walker knows to be right; what is missing took a doubt along. misnamed: violations at
refusals that the whole explains as the same one's fault, with a cause that the walker knows to be none. Without names:
every recorded variant of the shared folder, then all its walks."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache, cached_property
from itertools import cycle, islice
from multiprocessing import Pool
from pathlib import Path
from random import Random
from typing import Final

from kshark.model import Finding, PacketBatch, Weird
from tests.packets import Packet, pcap
from tests.thinning import Loss, Place, Whole, added, findings_in, findings_of, place_of, removals
from tests.walks.clocks import CLOCKS, Variant
from tests.walks.marking import CODES, WALKS, steps_of

#: Recorded variants, each named after its walk.
THINNED = WALKS / "thinned"
PROCESSES = 2
_COLUMNS = "{:<36}{:>9}{:>10}{:>7}{:>8}{:>10}  {}"


#: A walker that acknowledges records on purpose that it does not hold writes down only that it did.
_NOT_ITS_OWN: Final = frozenset({"not_owner", "not_acquired", "twice", "beyond_end", "after_lock"})
_OF_MISTAKES: Final = dict.fromkeys(
    ("ack_foreign", "ack_late", "ack_too_far", "ack_twice", "renew_not_held"), _NOT_ITS_OWN
)
#: What is right of any walker: each offset of a walk has a record, and now and then one is passed over.
_ALWAYS_RIGHT: Final = frozenset({"GAP_ON_REAL_RECORD"})
#: What a walker does all the time with a partition, or after it left: said of another of its requests where the first
#: one is missing, or where its order is unknown.
_OF_A_MEMBER: Final = frozenset({"FETCH_UNASSIGNED_PARTITION", "FETCH_BY_DEPARTED_MEMBER"})


@dataclass(frozen=True)
class Added:
    """A variant of a capture, the violations that it has and the whole has not (those that are `proved` by the walker
    apart), and those whose cause is none."""

    index: int
    words: str
    found: list[Finding]
    proved: list[Finding]
    misnamed: list[Finding]
    #: What the whole says at the same exchanges.
    whole: list[str]


@dataclass
class Report:
    """Variants of one capture."""

    variants: int = 0
    added: list[Added] = field(default_factory=list)

    @property
    def that_add(self) -> list[Added]:
        return [it for it in self.added if it.found]

    @property
    def proved(self) -> int:
        return sum(len(it.proved) for it in self.added)

    @property
    def misnamed(self) -> int:
        return sum(len(it.misnamed) for it in self.added)

    @property
    def codes(self) -> Counter[str]:
        return Counter(finding.code for it in self.added for finding in it.found)


def losses(whole: Whole, seed: int, count: int) -> Iterator[Loss]:
    """The seeded variants of a capture: a quarter miss a single packet, the others go round the kinds of loss."""
    return islice(removals(whole, Random(seed), singles=count // 4, others=count), count)


def variants(whole: Whole, seed: int, count: int, clocks: int) -> Iterator[Variant]:
    """So many seeded variants that miss something, then so many whose times are wrong, which go round the kinds; every
    second of these misses something, too."""
    yield from thinned(whole, losses(whole, seed, count))
    random = Random(seed)
    missing = removals(whole, random, singles=clocks // 8, others=clocks)
    for index, clock in zip(range(clocks), cycle(CLOCKS), strict=False):
        words, keep = next(missing) if index // len(CLOCKS) % 2 else ("", whole.everything())
        how, batches = clock([*whole.thinned(keep)] or whole.batches, random)
        yield " and ".join(filter(None, (how, words))), batches


def thinned(whole: Whole, losses: Iterable[Loss]) -> Iterator[Variant]:
    return ((words, whole.thinned(keep)) for words, keep in losses)


@dataclass(frozen=True)
class Known:
    """A capture, what is found in it, and where a walker stood by, which causes it allows, and which codes tell of its
    mistakes."""

    whole: Whole
    found: list[Finding]
    causes: dict[tuple[str, int | None], frozenset[str]]
    mistakes: dict[tuple[str, int | None], str]

    @cached_property
    def codes(self) -> set[tuple[str, Place]]:
        return {(finding.code, place_of(finding)) for finding in self.found}

    def proved(self, finding: Finding) -> bool:
        """Whether the walker knows it, or its cause, to be right."""
        if finding.code in _OF_A_MEMBER:
            return _about(finding) in map(_about, self.found)
        told = self.mistakes.get(_key(finding))
        return finding.code in _ALWAYS_RIGHT or finding.code == told or finding.cause in self._causes_of(finding)

    def misnamed(self, finding: Finding) -> bool:
        """Whether it accuses by a cause that the walker knows to be none, and that the whole does not name."""
        if finding.verdict != "violation" or finding.cause is None or (finding.code, place_of(finding)) in self.codes:
            return False
        causes = self._causes_of(finding)
        return bool(causes) and causes.isdisjoint({"unknown", finding.cause})

    def _causes_of(self, finding: Finding) -> frozenset[str]:
        return self.causes.get(_key(finding), frozenset())

    def there(self, findings: Iterable[Finding]) -> list[str]:
        """What the whole says at the exchanges of these findings."""
        places = set(map(place_of, findings))
        return [f"{it.code} ({it.verdict}, {it.cause})" for it in self.found if place_of(it) in places]


def _key(finding: Finding) -> tuple[str, int | None]:
    client, _, correlation_id = place_of(finding)
    return client.rsplit(":", 1)[1], correlation_id


def _about(finding: Finding) -> tuple[str, str, str | None, str | None, int | None]:
    return finding.code, finding.verdict, finding.member_id, finding.topic_id, finding.partition


@cache
def loaded(capture: Path) -> Known:
    whole = Whole.load(capture)
    causes: dict[tuple[str, int | None], frozenset[str]] = {}
    mistakes: dict[tuple[str, int | None], str] = {}
    for step in steps_of(capture):
        key = str(step.client_port), step.request[1]
        causes[key] = causes.get(key, frozenset()) | step.causes | _OF_MISTAKES.get(step.mistake or "", frozenset())
        if step.mistake in CODES:
            mistakes[key] = CODES[step.mistake]
    return Known(whole, findings_of(whole, whole.everything()), causes, mistakes)


def added_by(capture: Path, variants: Iterable[tuple[int, Variant]]) -> Iterator[Added]:
    """The variants that add a violation or name a cause that there is not."""
    it = loaded(capture)
    for index, (words, batches) in variants:
        found = findings_in(batches)
        more = added(it.found, found)
        misnamed = [finding for finding in found if it.misnamed(finding) and finding not in more]
        if more or misnamed:
            proved = [finding for finding in more if it.proved(finding)]
            wrong = [finding for finding in more if not it.proved(finding)]
            yield Added(index, words, wrong, proved, misnamed, it.there([*more, *misnamed]))


def _share(capture: Path, seed: int, count: int, clocks: int, turn: int) -> list[Added]:
    """Every second of the variants, for one of two processes."""
    every = enumerate(variants(loaded(capture).whole, seed, count, clocks))
    return list(added_by(capture, islice(every, turn, None, PROCESSES)))


def report(capture: Path, seed: int, count: int, clocks: int = 0) -> Report:
    with Pool(PROCESSES) as pool:
        parts = pool.starmap(_share, [(capture, seed, count, clocks, turn) for turn in range(PROCESSES)])
    return Report(count + clocks, sorted((it for part in parts for it in part), key=lambda it: it.index))


def whole_of(variant: Path) -> Path:
    """The walk that a recorded variant was made of: the longest name that its own begins with."""
    return max(
        (path for path in WALKS.glob("*.pcap") if variant.stem.startswith(f"{path.stem}-")),
        key=lambda path: len(path.stem),
    )


def recorded(variant: Path) -> list[Finding]:
    """Violations of a recorded variant that its walk does not have."""
    return added(loaded(whole_of(variant)).found, findings_in(Whole.load(variant).batches))


def write(batches: Iterable[PacketBatch | Weird], path: Path) -> None:
    """A variant as a capture file; its packets are numbered anew, in the order in which kshark reads them."""

    def packets(batch: PacketBatch) -> Iterator[Packet]:
        rows = zip(batch.time_ns, batch.offset, batch.length, batch.wire_length, batch.link_type, strict=True)
        for time_ns, offset, length, wire, link_type in rows:
            yield Packet(int(time_ns), batch.buffer[offset : offset + length], int(wire), int(link_type))

    every = [packet for batch in batches if isinstance(batch, PacketBatch) for packet in packets(batch)]
    path.write_bytes(pcap(every, link_type=every[0].link_type))


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m tests.walks.thinned", description="what missing packets and wrong times add"
    )
    parser.add_argument("captures", nargs="*", type=Path, metavar="PCAP")
    parser.add_argument("--variants", type=int, default=500, help="so many of each capture")
    parser.add_argument("--clocks", type=int, default=0, help="so many more of each whose times are wrong")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "-v", "--verbose", action="store_true", help="the first ten variants of each that add something"
    )
    parser.add_argument(
        "-w", "--write", type=Path, metavar="DIR", help="those ten as captures, their packets numbered anew"
    )
    asked = parser.parse_args()
    if not asked.captures and not WALKS.exists():
        parser.error(f"no captures in {WALKS}; name some, or set KSHARK_SHARED")
    if not asked.captures:
        _print_recorded(asked.verbose)
    print(_COLUMNS.format("capture", "variants", "that add", "added", "proved", "misnamed", "added by code"))
    for capture in asked.captures or sorted(WALKS.glob("*.pcap")):
        made = report(capture, asked.seed, asked.variants, asked.clocks)
        counts = made.variants, len(made.that_add), made.codes.total(), made.proved, made.misnamed
        print(_COLUMNS.format(capture.stem, *counts, _told(made.codes)), flush=True)
        for it in made.added[:10]:
            if asked.verbose:
                print(
                    f"  {it.index}: {it.words}; the whole says there {', '.join(it.whole) or 'nothing'}",
                    *map(_line, it.found),
                    *map(_proved, it.proved),
                    *map(_misnamed, it.misnamed),
                    sep="\n",
                )
            if asked.write is not None:
                asked.write.mkdir(parents=True, exist_ok=True)
                whole = loaded(capture).whole
                every = variants(whole, asked.seed, asked.variants, asked.clocks)
                _, batches = next(islice(every, it.index, None))
                write(batches, asked.write / f"{capture.stem}-{asked.seed}-{it.index}.pcap")


def _print_recorded(verbose: bool) -> None:
    print(_COLUMNS.format("recorded variant", "", "", "added", "", "", "by code"))
    for variant in sorted(THINNED.glob("*.pcap")):
        more = recorded(variant)
        codes = Counter(finding.code for finding in more)
        print(
            _COLUMNS.format(variant.stem, "", "", len(more), "", "", _told(codes)),
            *(map(_line, more) if verbose else ()),
            sep="\n",
        )


def _told(codes: Counter[str]) -> str:
    return " · ".join(f"{code} {count}" for code, count in sorted(codes.items()))


def _line(finding: Finding) -> str:
    return f"      added: {finding.code} {finding.cause or ''} at packet {finding.packet}: {finding.argument}"


def _proved(finding: Finding) -> str:
    return f"      proved: {finding.code} {finding.cause} at packet {finding.packet}: {finding.argument}"


def _misnamed(finding: Finding) -> str:
    return f"      misnamed: {finding.code} {finding.cause} at packet {finding.packet}: {finding.argument}"


if __name__ == "__main__":
    main()
