"""What connections teach each other, watched instead of learned ahead: for who prints no names of users' topics.

There a message depends on another connection's in one case only: it holds the id of a topic of Kafka's own, and the name of that id was
told elsewhere, a moment ago. Each process says which such names it has learned; the others are told with their next share. Where one of
them has a share already in which that id stands, nobody can be sure of the order: Crossed, and it is all done again with a Learner. That
happens a few times a capture at most, near the start of one, and spares reading all headers twice (2.5 us a message).
"""

from __future__ import annotations

from base64 import urlsafe_b64decode
from collections.abc import Iterable, Mapping

from kshark import limits
from kshark.parallel.shares import Lesson, Share
from kshark.parallel.worker import Made
from kshark.registry import Registry


class Crossed(Exception):
    """What one process has done may depend on what another one did."""


def telling_names(registry: Registry) -> frozenset[str]:
    """Names on which it depends what bytes and records hold."""
    inside = [place for key in registry.names() for kind in ("request", "response") for place in registry.places(key, kind)]
    return frozenset(name for place in inside for name in place.holds if name)


class Crossings:
    """Watches what the processes report. `in_flight`: the shares that were handed out, of the batch that is reported and later ones."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}
        self._known: dict[int, int] = {}

    def lesson(self, made: Mapping[int, Made], in_flight: Iterable[Mapping[int, Share]]) -> Lesson | None:
        """What all are to know from the next batch on. Raises Crossed."""
        shares = list(in_flight)
        names: list[tuple[str, str, int]] = []
        for worker, report in made.items():
            self._known[worker] = report.known
            for topic_id, name, packet in report.taught:
                before = self._names.setdefault(topic_id, name)
                if before != name:
                    raise Crossed
                if any(_is_asked_for(topic_id, name, share) for each in shares for other, share in each.items() if other != worker):
                    raise Crossed
                names.append((topic_id, name, packet))
        if sum(self._known.values()) >= limits.TOPICS:
            raise Crossed
        return Lesson(0, names) if names else None


def _is_asked_for(topic_id: str, name: str, share: Share) -> bool:
    """Whether the id stands there otherwise than behind its name, as where that is told again."""
    raw, told = urlsafe_b64decode(topic_id + "=="), name.encode()
    return share.data.count(raw) > share.data.count(told + raw) or topic_id.encode() in share.data
