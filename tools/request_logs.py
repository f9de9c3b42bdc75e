"""Compare the findings from captures of packets with those from the brokers' request logs beside them.

    python -m tools.request_logs [FOLDER]

Prints a Markdown table: findings that both have, that only one has, and why. A violation that only the log has is a
wrong accusation until the packets show it.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from kshark.capture import open_captures
from kshark.model import Finding
from kshark.pipeline import JUDGED, Engine
from kshark.registry import Registry
from kshark.run import Run
from kshark.units import counted

_LOG: Final = ".requests.jsonl.gz"
#: What a log does not have, with the findings that need it.
_ABSENT: Final = {
    "no requests without a response": (
        "REQUEST_UNANSWERED", "FRAME_LENGTH_INVALID", "FRAME_TRUNCATED_AT_CLOSE", "FOREIGN_PROTOCOL",
        "UNDECODABLE_BODY", "TRAILING_BYTES", "VERSION_NOT_ADVERTISED", "CORRELATION_ID_REUSED", "BROKER_DOWN",
        "RESPONSE_WITHOUT_REQUEST", "EARLY_ACCESS_SHARE_API",
    ),
    "no records": (
        "BATCH_COUNT_MISMATCH", "BATCH_CRC", "CODEC_INVALID", "LEGACY_MAGIC", "SEQUENCE_OUT_OF_ORDER",
        "GAP_ON_REAL_RECORD",
    ),
    "no ends of connections": ("SESSION_NOT_CLOSED", "SESSION_CROSS_CONNECTION", "SESSION_UNKNOWN",
                                "SESSION_KILLED_BY_OLD_CONNECTION"),
    "no authentication": ("NOT_AUTHORIZED", "APIVERSIONS_FALLBACK", "SASL_SEQUENCE", "TLS_HANDSHAKE_FAILED",
                          "RETRY_WITHOUT_REMEDY"),
    "no network": ("PERSIST_SLOW", "STREAM_GAP"),
    "order of connections unknown": (
        "ACK_NOT_OWNER", "CONCURRENT_SESSION_REQUESTS", "DUPLICATE_MEMBER", "FETCH_OVERTAKEN", "GENERATION_STALE",
        "SESSION_REOPEN", "EPOCH_REFUSED",
    ),
    "what the client had received is unknown": (
        "ADVANCED_AFTER_ERROR", "NO_RECOVERY", "REOPEN_HOT_LOOP", "DOUBLE_ACK", "USE_AFTER_FINAL",
        "MEMBER_EPOCH_BEHIND", "NO_REJOIN_AFTER_FENCE", "WRITE_BEFORE_READ", "WRITE_UNINITIALIZED",
    ),
}  # fmt: skip
_WHY: Final = {code: why for why, codes in _ABSENT.items() for code in codes}
#: Verdict, code, cause, client, and the correlation id of the last witness.
_Key = tuple[str, str, str | None, str, int | None]


class Compared(NamedTuple):
    """The findings of a capture by packets and by the log."""

    capture: str
    equal: int
    only_packets: Counter[_Key]
    only_log: Counter[_Key]

    @property
    def accused(self) -> set[tuple[str, int | None]]:
        """Clients that only the log accuses, and the request that is the last witness."""
        by_log, by_packets = (
            {(client, number) for verdict, _, _, client, number in keys if verdict == "violation"}
            for keys in (self.only_log, self.only_packets)
        )
        return by_log - by_packets

    def reasons(self) -> dict[str, set[str]]:
        """Return the codes of differing findings by the reason; "" is none."""
        reasons: dict[str, set[str]] = {}
        for _, code, *_ in self.only_packets:
            reasons.setdefault(_WHY.get(code, ""), set()).add(code)
        return reasons


def pairs(folder: Path) -> Iterator[tuple[Path, Path]]:
    """Yield each capture of a folder that has a log beside it, and the log. Packets with secrets of TLS come first."""
    for log in sorted(folder.rglob(f"*{_LOG}")):
        stem = log.name.removesuffix(_LOG)
        captures = [log.with_name(stem + end) for end in (".pcapng", ".pcap", ".pcap.zst")]
        yield from [(capture, log) for capture in captures if capture.exists()][:1]


def compare(capture: Path, log: Path) -> Compared:
    """Judge both."""
    by_packets, by_log = Counter(map(_key, _findings(capture))), Counter(map(_key, _findings(log)))
    both = by_packets & by_log
    return Compared(capture.name, both.total(), by_packets - by_log, by_log - by_packets)


def _findings(path: Path) -> Iterable[Finding]:
    registry = Registry()
    run = Run(registry)
    for page in Engine(JUDGED, registry).pages(open_captures([path])):
        run.page(page)
    run.close()
    return run.findings


def _key(finding: Finding) -> _Key:
    number = finding.witness[-1].correlation_id if finding.witness else None
    # The end of a connection has no number, and which of them is named first differs.
    client = finding.client if number is not None else ""
    return finding.verdict, finding.code, finding.cause, client, number


def _listed(keys: Counter[_Key]) -> str:
    kinds = Counter((verdict, code) for verdict, code, *_ in keys.elements())
    return ", ".join(f"{verdict} {code} ×{count}" for (verdict, code), count in sorted(kinds.items()))


def main(folders: list[str]) -> int:
    """Print the table; return 1 if only a log accuses somebody."""
    wrong = equal = captures = 0
    print("| capture | equal | only packets | only the log | not in the log |\n|---|--:|---|---|---|")
    for folder in folders or ["captures"]:
        for capture, log in pairs(Path(folder)):
            compared = compare(capture, log)
            why = "; ".join(
                f"{reason or '?'}: {', '.join(sorted(codes))}" for reason, codes in compared.reasons().items()
            )
            print(
                f"| {compared.capture} | {compared.equal} | {_listed(compared.only_packets)} | "
                f"{_listed(compared.only_log)} | {why} |",
                flush=True,
            )
            wrong += len(compared.accused)
            equal += compared.equal
            captures += 1
    print(f"\n{counted(captures, 'capture')}, {counted(equal, 'equal finding')}, {wrong} accused by the log alone")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
