"""Decode a share of a capture's connections: segments become exchanges by bucket and a summary for all buckets."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple, Protocol

from kshark import limits
from kshark.analysis import Observed, Observer
from kshark.facts import Fact, Question
from kshark.link.ends import EndsTable
from kshark.model import Event, Late, Message, Moment
from kshark.names import TopicNames
from kshark.output.notes import Notes
from kshark.parallel.segments import Piece, unpack
from kshark.parallel.sorting import Packed, Sorter
from kshark.pipeline import Options, Share
from kshark.reassembly import Copies
from kshark.registry import Registry
from kshark_dissectors.topics import NAMING_APIS

#: Bytes of segments that are decoded together.
_BATCH_BYTES: Final = 2 * limits.BATCH_BYTES


class PageReader(Protocol):
    """Another reader of a share's pages, created with the facts of other shares.

    `taught` and `asked`: see kshark.pipeline.Share.
    """

    def page(self, events: list[Event], /) -> object: ...

    @property
    def taught(self) -> Iterable[Fact]: ...

    @property
    def asked(self) -> Iterable[Question]: ...

    def close(self) -> Any:
        """Return the result."""


class Decoded(NamedTuple):
    """The results of a share at the end of the capture.

    `common`: pickled, see Sorter. `observed`: statistics of all events; the buckets report explained refusals. `names`:
    names of topic ids in messages of NAMING_APIS. `copies`, `taught` and `asked`: see kshark.pipeline.Share. `beside`:
    the result of the other reader.
    """

    common: bytes
    observed: Observed
    names: list[Fact]
    notes: Notes
    copies: Copies
    taught: list[Fact]
    asked: list[Question]
    beside: Any


class Decoding:
    """Decode the pieces of a share in their order to exchanges by bucket."""

    def __init__(self, options: Options, facts: Iterable[Fact], buckets: int, beside: PageReader | None = None) -> None:
        registry = Registry(options.dissectors)
        self._share = Share(options, registry, facts)
        self._ends = EndsTable()
        self._sorter = Sorter(buckets, opened=options.records in (True, "headers"))
        self._names = TopicNames(registry)
        self._notes = Notes()
        self._observer = Observer(registry, coverage=True)
        self._beside = beside
        #: Pieces of small batches, decoded together: the fixed cost of a batch equals that of a few hundred messages.
        self._waiting: list[Piece] = []
        self._bytes = 0

    def feed(self, piece: Piece) -> Iterator[Packed]:
        self._waiting.append(piece)
        self._bytes += len(piece.columns) + len(piece.payload)
        if self._bytes >= _BATCH_BYTES:
            yield from self._decode_waiting()

    def learn(self, secrets: bytes) -> Iterator[Packed]:
        """Add TLS secrets from the capture for the following pieces."""
        if self._waiting:
            yield from self._decode_waiting()
        self._share.tls_keys.add(secrets)

    def close(self, end: Moment) -> Iterator[Packed]:
        """End the capture at `end`."""
        if self._waiting:
            yield from self._decode_waiting()
        for page in self._share.close(end):
            yield from self._page(page)
        yield from self._sorter.close()

    @property
    def decoded(self) -> Decoded:
        """The results; call it after `close`."""
        sorter, share, beside = self._sorter, self._share, self._beside
        common, names = pickle.dumps(sorter.common, 5), [*self._names.taught("topic")]
        taught, asked, result = [*share.taught], [*share.asked], None
        if beside is not None:
            result, taught, asked = beside.close(), [*taught, *beside.taught], [*asked, *beside.asked]
        return Decoded(common, self._observer.observed, names, self._notes, share.copies, taught, asked, result)

    def _decode_waiting(self) -> Iterator[Packed]:
        segments, self._waiting, self._bytes = unpack(self._waiting, self._ends), [], 0
        for page in self._share.feed(segments):
            yield from self._page(page)

    def _page(self, page: list[Event]) -> Iterator[Packed]:
        for event in page:
            if type(event) is Message and event.api_key in NAMING_APIS:
                self._names.learn(event)
            elif type(event) is Late:
                self._names.reach(event.packet)
        self._notes.add(page)
        refusals = self._observer.page(page)
        if self._beside is not None:
            self._beside.page(page)
        yield from self._sorter.page(page, refusals)
