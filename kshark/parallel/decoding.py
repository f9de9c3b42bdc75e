"""A share of a capture's connections, from its segments to what others need to know of it."""

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

#: Bytes of segments that are put together.
_TOGETHER: Final = 2 * limits.BATCH_BYTES


class Beside(Protocol):
    """Who else takes the pages of a share, told from the start what others taught; `taught` and `asked`: see
    kshark.pipeline.Share."""

    def page(self, events: list[Event], /) -> object: ...

    @property
    def taught(self) -> Iterable[Fact]: ...

    @property
    def asked(self) -> Iterable[Question]: ...

    def close(self) -> Any:
        """What he made of them."""


class Decoded(NamedTuple):
    """What a share tells when the capture is over.

    `common`: pickled, see Sorter. `observed`: of all that happened; which refusals are explained, who judges tells.
    `names`: of topic ids, as far as messages of NAMING_APIS were read. `copies`, `taught` and `asked`: see
    kshark.pipeline.Share. `beside`: what others made of its pages."""

    common: bytes
    observed: Observed
    names: list[Fact]
    notes: Notes
    copies: Copies
    taught: list[Fact]
    asked: list[Question]
    beside: Any


class Decoding:
    """Takes the pieces of a share in their order; gives its exchanges by bucket."""

    def __init__(self, options: Options, told: Iterable[Fact], buckets: int, beside: Beside | None = None) -> None:
        registry = Registry(options.dissectors)
        self._share = Share(options, registry, told)
        self._ends = EndsTable()
        self._sorter = Sorter(buckets, opened=options.records in (True, "headers"))
        self._names = TopicNames(registry)
        self._notes = Notes()
        self._observer = Observer(registry, coverage=True)
        self._beside = beside
        #: Pieces of small batches are put together: what is done a batch costs as much as a few hundred messages.
        self._waiting: list[Piece] = []
        self._bytes = 0

    def feed(self, piece: Piece) -> Iterator[Packed]:
        self._waiting.append(piece)
        self._bytes += len(piece.columns) + len(piece.payload)
        if self._bytes >= _TOGETHER:
            yield from self._put_together()

    def learn(self, secrets: bytes) -> Iterator[Packed]:
        """Secrets of TLS that the capture brings for the pieces that follow."""
        if self._waiting:
            yield from self._put_together()
        self._share.tls_keys.add(secrets)

    def close(self, end: Moment) -> Iterator[Packed]:
        """The capture ends there."""
        if self._waiting:
            yield from self._put_together()
        for page in self._share.close(end):
            yield from self._page(page)
        yield from self._sorter.close()

    @property
    def decoded(self) -> Decoded:
        """After `close`."""
        sorter, share, beside = self._sorter, self._share, self._beside
        common, names = pickle.dumps(sorter.common, 5), [*self._names.taught("topic")]
        taught, asked, made = [*share.taught], [*share.asked], None
        if beside is not None:
            made, taught, asked = beside.close(), [*taught, *beside.taught], [*asked, *beside.asked]
        return Decoded(common, self._observer.observed, names, self._notes, share.copies, taught, asked, made)

    def _put_together(self) -> Iterator[Packed]:
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
        self._observer.page(page)
        if self._beside is not None:
            self._beside.page(page)
        yield from self._sorter.page(page)
