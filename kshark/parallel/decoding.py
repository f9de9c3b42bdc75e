"""A share of a capture's connections, from its segments to what others need to know of it."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from dissectors.topics import NAMING_APIS
from kshark import limits
from kshark.facts import Fact, Question
from kshark.link.ends import EndsTable
from kshark.model import Event, Message, Moment
from kshark.names import TopicNames
from kshark.parallel.segments import Piece, unpack
from kshark.parallel.sorting import Packed, Sorter
from kshark.pipeline import Options, Share
from kshark.reassembly import Copies
from kshark.registry import Registry

#: Bytes of segments that are put together.
_TOGETHER: Final = 2 * limits.BATCH_BYTES


class Decoded(NamedTuple):
    """What a share tells when the capture is over.

    `common`: pickled, see Sorter. `names`: of topic ids, as far as messages of NAMING_APIS were read. `copies`, `taught` and `asked`: see
    kshark.pipeline.Share.
    """

    common: bytes
    exchanges: int
    gaps: int
    names: list[Fact]
    copies: Copies
    taught: list[Fact]
    asked: list[Question]


class Decoding:
    """Takes the pieces of a share in their order; gives its exchanges by bucket. `also`: who else takes its pages."""

    def __init__(self, options: Options, told: Iterable[Fact], buckets: int, also: Sequence[Callable[[list[Event]], object]] = ()) -> None:
        registry = Registry(options.dissectors)
        self._share = Share(options, registry, told)
        self._ends = EndsTable()
        self._sorter = Sorter(buckets)
        self._names = TopicNames(registry)
        self._also = also
        #: Pieces of small batches are put together: what is done a batch costs as much as a few hundred messages.
        self._waiting: list[Piece] = []
        self._bytes = 0

    def feed(self, piece: Piece) -> Iterator[Packed]:
        self._waiting.append(piece)
        self._bytes += len(piece.columns) + len(piece.payload)
        if self._bytes >= _TOGETHER:
            yield from self._put_together()

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
        sorter, share = self._sorter, self._share
        common, names = pickle.dumps(sorter.common, 5), [*self._names.taught("topic")]
        return Decoded(common, sorter.exchanges, sorter.gaps, names, share.copies, [*share.taught], [*share.asked])

    def _put_together(self) -> Iterator[Packed]:
        segments, self._waiting, self._bytes = unpack(self._waiting, self._ends), [], 0
        for page in self._share.feed(segments, self._ends):
            yield from self._page(page)

    def _page(self, page: list[Event]) -> Iterator[Packed]:
        for event in page:
            if type(event) is Message and event.api_key in NAMING_APIS:
                self._names.learn(event)
        for take in self._also:
            take(page)
        yield from self._sorter.page(page)
