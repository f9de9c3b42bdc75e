"""The Python interface: captures in, messages and findings out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from kshark.analysis import AnalysisResult
from kshark.capture import open_captures
from kshark.capture.keys import key_log
from kshark.codec import plain
from kshark.model import Event, Finding, Message
from kshark.pipeline import JUDGED, Engine, Options
from kshark.registry import Registry
from kshark.run import Listing, Run


def pages(paths: Sequence[str | Path], options: Options | None = None) -> Iterator[list[Event]]:
    """Yield the events of the captures, as of one capture, in pages of one time line."""
    return Engine(options).pages(open_captures(list(paths)))


def analysed(pages: Iterable[list[Event]]) -> Iterator[tuple[list[Event], list[AnalysisResult]]]:
    """Yield each page with the results that it proves: findings, share sessions, their requests. At the end yield an
    empty page with the rest, and with the findings that an incident may explain."""
    listing = Listing(Registry())
    for page in pages:
        yield page, listing.page(page)
    yield [], listing.close()


def read(
    *paths: str | Path,
    records: bool = True,
    payload: bool = True,
    dissectors: Iterable[str | Path] = (),
    tls_keys: str | Path | None = None,
    secrets: bool = False,
    max_request_bytes: int | None = None,
) -> Iterator[Message]:
    """Yield the messages of the captures, in the order in which they end. `body` is a dict of plain values, with the
    decoded contents of bytes fields next to them.

    `records` False leaves record batches unopened. `payload` False leaves out keys, values and header values.
    `dissectors`: files with additional APIs. `tls_keys`: a key log file to decrypt TLS. `secrets`: show credentials,
    which are masked otherwise. `max_request_bytes`: the brokers' `socket.request.max.bytes`, if it is known. Raise
    kshark.UnreadableInput for a file that is no capture, UsageError for a file that is no key log, SchemaError for a
    file that is no dissector."""
    options_of_read = Options(
        records=records,
        payload=payload,
        dissectors=tuple(map(Path, dissectors)),
        embedded=True,
        secrets=secrets,
        knows=False,
        max_request_bytes=max_request_bytes,
    )
    for page in pages(paths, replace(options_of_read, tls_keys=_key_log(tls_keys))):
        for event in page:
            if isinstance(event, Message):
                event.body = plain(event.body)
                yield event


def _key_log(path: str | Path | None) -> bytes:
    return b"" if path is None else key_log(path)


def check(
    *paths: str | Path, tls_keys: str | Path | None = None, max_request_bytes: int | None = None
) -> Iterator[Finding]:
    """Yield the findings of the rule catalogue and the events, sorted by packet.

    `tls_keys` and `max_request_bytes` as for `read`. Raises kshark.UnreadableInput for a file that is no capture.
    """
    run = Run(Registry())
    for page in pages(paths, replace(JUDGED, tls_keys=_key_log(tls_keys), max_request_bytes=max_request_bytes)):
        run.page(page)
    run.close()
    yield from run.findings
