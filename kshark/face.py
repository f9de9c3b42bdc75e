"""The Python face: captures in, messages and findings out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from kshark.analysis import AnalysisResult, Analyzer, PackedFindings
from kshark.capture import open_captures
from kshark.capture.keys import key_log
from kshark.codec import plain
from kshark.model import Event, Finding, Message
from kshark.pipeline import JUDGED, Engine, Options


def pages(paths: Sequence[str | Path], options: Options | None = None) -> Iterator[list[Event]]:
    """Everything that happens in the captures, as one capture, in pages of the one time line."""
    return Engine(options).pages(open_captures(list(paths)))


def analysed(pages: Iterable[list[Event]]) -> Iterator[tuple[list[Event], list[AnalysisResult]]]:
    """Each page, and what the analysis tells by then: findings, share sessions, their requests; at the end the rest,
    with an empty page."""
    analyzer = Analyzer(sessions=True, steps=True)
    for page in pages:
        yield page, [*analyzer.page(page), *analyzer.listed()]
    yield [], [*analyzer.close(), *analyzer.listed()]


def read(
    *paths: str | Path,
    records: bool = True,
    payload: bool = True,
    dissectors: Iterable[str | Path] = (),
    tls_keys: str | Path | None = None,
    secrets: bool = False,
) -> Iterator[Message]:
    """Messages of the captures, in the order in which they end; `body` is a dict of plain values, with what bytes hold
    beside them.

    `records` False leaves record batches unopened, `payload` False leaves out keys, values and header values;
    `dissectors` are files with APIs of one's own, `tls_keys` is a key log file with which TLS is decrypted; `secrets`
    shows credentials, which are masked otherwise. Raises kshark.UnreadableInput for what is no capture, UsageError for
    what is no key log, SchemaError for a file that is no dissector."""
    asked = Options(
        records=records, payload=payload, dissectors=tuple(map(Path, dissectors)), embedded=True, secrets=secrets
    )
    for page in pages(paths, replace(asked, tls_keys=_key_log(tls_keys))):
        for event in page:
            if isinstance(event, Message):
                event.body = plain(event.body)
                yield event


def _key_log(path: str | Path | None) -> bytes:
    return b"" if path is None else key_log(path)


def check(*paths: str | Path, tls_keys: str | Path | None = None) -> Iterator[Finding]:
    """Findings of the rule catalogue, sorted by packet; `tls_keys` as for `read`. Raises kshark.UnreadableInput for
    what is no capture."""
    analyzer, found = Analyzer(), PackedFindings()
    for page in pages(paths, replace(JUDGED, tls_keys=_key_log(tls_keys))):
        found.add(analyzer.page(page))
    found.add(analyzer.close())
    yield from found
