"""What members do with records that they hold: acknowledge them in any way that there is, twice, late, and those of
others; renew locks.

Actions as in tests.broker.actions.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any, Final

from tests.broker.walk import Ack, Actor, Held, Walk

ACCEPT, RELEASE, REJECT, RENEW = 1, 2, 3, 4
#: Locks that are worth waiting for.
SHORT_NS: Final = 3_000_000_000
#: A request that only renews locks leaves these zero.
NO_LIMITS: Final = {"max_wait_ms": 0, "min_bytes": 0, "max_bytes": 0, "max_records": 0}


def acknowledges(walk: Walk, actor: Actor) -> None:
    """As it should be: all of a range or some of it, in one batch or several, with one type or one for each record."""
    if _holding(walk, actor):
        acks = [part for whole in walk.to_acknowledge(actor) for part in _in_parts(walk, whole)]
        _says(walk, actor, acks, "acknowledges")


def acknowledges_anothers(walk: Walk, actor: Actor) -> None:
    """Records that another member of the group holds; who may acknowledge them then."""
    others = [other for other in walk.actors if other.group == actor.group and other is not actor]
    other = walk.random.choice(others)
    held = _holding(walk, other)
    if held is None:
        return
    _says(walk, actor, [_ack(walk, held)], "acknowledges another's", "ack_foreign")
    if walk.random.random() < 0.5:
        _says(walk, other, [_ack(walk, held)], "acknowledges what another tried to")


def acknowledges_twice(walk: Walk, actor: Actor) -> None:
    held = _holding(walk, actor)
    if held is None:
        return
    ack = _ack(walk, held)
    _says(walk, actor, [ack], "acknowledges")
    for _ in range(walk.random.choice((1, 1, 2))):
        _says(
            walk, actor, [(*ack[:3], walk.random.choice((ACCEPT, RELEASE, REJECT)))], "acknowledges again", "ack_twice"
        )


def acknowledges_late(walk: Walk, actor: Actor) -> None:
    """When the lock has run out, or is just about to; somebody may have got the records meanwhile."""
    held = _holding(walk, actor)
    if held is None or held.lock_ns > SHORT_NS:
        return
    _waits(walk, held, walk.random.choice((-0.03, 0.0, 0.05, 0.2, 0.2)))
    if walk.random.random() < 0.4:
        other = walk.random.choice([other for other in walk.actors if other.group == actor.group])
        if due := walk.session(other):
            walk.does(other, due, "fetches what is free again", fetch=True, listed=[held.partition])
    _says(walk, actor, [_ack(walk, held)], "acknowledges late", "ack_late")


def contradicts_itself(walk: Walk, actor: Actor) -> None:
    """Batches that end before they begin, overlap, or have types that there are not, one for too many or none."""
    held = _holding(walk, actor)
    if held is None:
        return
    where, first, last = held.partition, held.first, held.last
    middle = (first + last) // 2
    forms: tuple[list[Ack], ...] = (
        [(where, last + 1, first, ACCEPT)],
        [(where, first, last, ACCEPT), (where, first, last, ACCEPT)],
        [(where, first, middle, ACCEPT), (where, middle, last, ACCEPT)],
        [(where, middle + 1, last, ACCEPT), (where, first, middle, ACCEPT)],
        [(where, first, last, ())],
        [(where, first, last, [ACCEPT] * (last - first + 2))],
        [(where, first, last, walk.random.choice((-1, 5, 9)))],
        [(where, first, last, RENEW)],
    )
    form = walk.random.choice(forms)
    _says(walk, actor, form, "contradicts itself", "ack_malformed")
    if walk.random.random() < 0.5:
        _says(walk, actor, [_ack(walk, held)], "acknowledges what it got wrong")


def reaches_too_far(walk: Walk, actor: Actor) -> None:
    """Records behind those that it holds, which somebody else may hold, or nobody."""
    held = _holding(walk, actor)
    if held is not None:
        last = held.last + walk.random.choice((1, 5, 1000))
        _says(
            walk, actor, [(held.partition, held.first, last, ACCEPT)], "acknowledges more than it holds", "ack_too_far"
        )


def renews(walk: Walk, actor: Actor) -> None:
    """Keeps its locks for longer than they last, and acknowledges then."""
    held = _holding(walk, actor)
    if held is None or walk.release.share < 2:
        return
    for _ in range(walk.random.randrange(1, 4)):
        if held.lock_ns < SHORT_NS:
            walk.talk.pause(0.6 * held.lock_ns / 1e9)
        since = time.time_ns()
        _renews(walk, actor, [(held.partition, held.first, held.last, RENEW)], "renews")
        held.since_ns = since
    _says(walk, actor, [_ack(walk, held)], "acknowledges what it renewed")


def renews_what_it_has_not(walk: Walk, actor: Actor) -> None:
    """Locks that it let go of by an acknowledgement, that ran out, or that another member has."""
    holder = walk.random.choice([other for other in walk.actors if other.group == actor.group])
    held = _holding(walk, holder)
    if held is None or walk.release.share < 2:
        return
    if holder is actor and held.lock_ns < SHORT_NS and walk.random.random() < 0.5:
        _waits(walk, held, walk.random.choice((0.0, 0.2)))
    elif holder is actor:
        _says(walk, actor, [_ack(walk, held)], "acknowledges")
    _renews(walk, actor, [(held.partition, held.first, held.last, RENEW)], "renews what it has not", "renew_not_held")


ACKNOWLEDGING: Final = {
    acknowledges: 14,
    acknowledges_anothers: 6,
    acknowledges_twice: 6,
    acknowledges_late: 5,
    contradicts_itself: 6,
    reaches_too_far: 3,
    renews: 6,
    renews_what_it_has_not: 4,
}


def _holding(walk: Walk, actor: Actor) -> Held | None:
    """Something that the member holds in a partition of its session; where it holds nothing, there is something new,
    and it fetches."""
    for _ in range(3):
        due = walk.session(actor)
        mine, listed = walk.held_by(actor), sorted(actor.listed.intersection(walk.partitions))
        if mine or not due or not listed:
            return walk.random.choice(mine) if mine and due else None
        walk.feed(walk.random.choice(listed))
        walk.does(actor, due, "fetch", fetch=True, wait_ms=100)
    return None


def _says(walk: Walk, actor: Actor, acks: Sequence[Ack], action: str, mistake: str | None = None, **how: Any) -> None:
    """Acknowledges in a ShareAcknowledge or with a fetch; of what it acknowledged, if only in part, it holds nothing
    any more."""
    due = walk.session(actor)
    if not due:
        return
    actor.held = [one for one in actor.held if not any(_meets(ack, one) for ack in acks)]
    walk.does(actor, due, action, mistake, acks=acks, **how)


def _meets(ack: Ack, held: Held) -> bool:
    where, first, last, _ = ack
    return where == held.partition and first <= held.last and held.first <= last


def _renews(walk: Walk, actor: Actor, acks: Sequence[Ack], action: str, mistake: str | None = None) -> None:
    due = walk.session(actor)
    fetches = walk.random.random() < 0.5
    if due:
        walk.does(
            actor, due, action, mistake, acks=acks, fetch=fetches, is_renew_ack=True, **(NO_LIMITS if fetches else {})
        )


def _waits(walk: Walk, held: Held, more: float) -> None:
    """Until so long behind the end of its lock, as the member knows it."""
    walk.talk.pause((held.since_ns + held.lock_ns - time.time_ns()) / 1e9 + more)


def _ack(walk: Walk, held: Held) -> Ack:
    return held.partition, held.first, held.last, walk.random.choice((ACCEPT, ACCEPT, RELEASE, REJECT))


def _in_parts(walk: Walk, whole: Ack) -> Iterator[Ack]:
    where, first, last, kind = whole
    how = walk.random.random()
    if how < 0.3:
        yield where, first, last, walk.random.choices((0, ACCEPT, RELEASE, REJECT), (1, 6, 2, 2), k=last - first + 1)
    elif how < 0.6 and first < last:
        middle = walk.random.randrange(first, last)
        yield where, first, middle, kind
        if walk.random.random() < 0.7:
            yield where, middle + 1, last, walk.random.choice((ACCEPT, RELEASE, REJECT))
    else:
        yield whole
