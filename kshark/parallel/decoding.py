"""A share of a capture's connections, from its segments to what others need to know of it."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from dissectors.topics import NAMING_APIS
from kshark.facts import Fact, Question
from kshark.link.ends import EndsTable
from kshark.model import Event, Message, Moment
from kshark.names import TopicNames
from kshark.parallel.segments import Piece, unpack
from kshark.parallel.sorting import Packed, Sorter
from kshark.pipeline import Options, Share
from kshark.reassembly import Copies
from kshark.registry import Registry


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

    def feed(self, piece: Piece) -> Iterator[Packed]:
        for page in self._share.feed(unpack(piece, self._ends), self._ends):
            yield from self._page(page)

    def close(self, end: Moment) -> Iterator[Packed]:
        """The capture ends there."""
        for page in self._share.close(end):
            yield from self._page(page)
        yield from self._sorter.close()

    @property
    def decoded(self) -> Decoded:
        """After `close`."""
        sorter, share = self._sorter, self._share
        common, names = pickle.dumps(sorter.common, 5), [*self._names.taught("topic")]
        return Decoded(common, sorter.exchanges, sorter.gaps, names, share.copies, [*share.taught], [*share.asked])

    def _page(self, page: list[Event]) -> Iterator[Packed]:
        for event in page:
            if type(event) is Message and event.api_key in NAMING_APIS:
                self._names.learn(event)
        for take in self._also:
            take(page)
        yield from self._sorter.page(page)
