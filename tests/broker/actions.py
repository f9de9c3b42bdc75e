"""What clients do on a walk, right and wrong: each action is a few requests of one member, with the mistake that each
of them is.

An action finds a member whose session may be in any state, and leaves it in any.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tests.broker.acknowledging import ACKNOWLEDGING
from tests.broker.crossings import (
    crosses,
    loses_a_fetch,
    loses_an_opening,
    loses_its_connection,
    loses_its_fetch,
    old_connection_closes,
    pipelines,
    shares_a_connection,
    two_writers,
    uses_anothers_id,
)
from tests.broker.setup import UNKNOWN_TOPIC
from tests.broker.table import LAST_EPOCH
from tests.broker.walk import Actor, Walk


def goes_on(walk: Walk, actor: Actor) -> None:
    """As it should be: fetches and acknowledgements in turn."""
    due = walk.session(actor)
    for _ in range(walk.random.randrange(1, 5)):
        if not due:
            return
        acks = walk.to_acknowledge(actor) if walk.random.random() < 0.6 else []
        if walk.random.random() < 0.25:
            walk.does(actor, due, "ack", fetch=False, acks=acks)
        else:
            walk.does(actor, due, "fetch+acks" if acks else "fetch", fetch=True, acks=acks, wait_ms=walk.short())
        due = walk.due(actor) or 0


def opens(walk: Walk, actor: Actor) -> None:
    walk.open(actor)


def heartbeats(walk: Walk, actor: Actor) -> None:
    leaves = actor.member_epoch is not None and walk.random.random() < 0.3
    walk.heartbeat(actor, leave=leaves)
    if leaves and walk.due(actor):
        walk.does(actor, -1, "final after leave")


def forgets(walk: Walk, actor: Actor) -> None:
    due = walk.session(actor)
    if due and actor.listed:
        one = walk.random.choice(sorted(actor.listed))
        actor.held = [held for held in actor.held if held.partition != one]
        if walk.does(actor, due, "forget", fetch=True, forget=[one]) == 0 and walk.due(actor):
            walk.does(actor, walk.due(actor) or 0, "lists it again", fetch=True, listed=[one])


def closes(walk: Walk, actor: Actor) -> None:
    """The final epoch, then and now with partitions, then and now used again after it."""
    if not walk.session(actor):
        return
    if walk.random.random() < 0.2:
        walk.does(actor, -1, "final", "final_payload", fetch=True, listed=walk.random.sample(walk.partitions, 1))
    else:
        walk.does(actor, -1, "final")
    for _ in range(walk.random.choice((0, 1, 1, 2))):
        walk.does(actor, walk.random.choice((1, 2, 7, -1)), "use after final", "final_epoch")


def replays(walk: Walk, actor: Actor) -> None:
    if due := walk.session(actor, 2):
        walk.does(actor, due - 1, "replay", "replay")
        walk.insists(actor)


def goes_back(walk: Walk, actor: Actor) -> None:
    if due := walk.session(actor, 4):
        walk.does(actor, walk.random.randrange(1, due - 1), "stale", "stale")
        walk.insists(actor)


def skips(walk: Walk, actor: Actor) -> None:
    if due := walk.session(actor):
        walk.does(actor, walk.random.choice((due + 1, due + 2, due + 9, LAST_EPOCH)), "skip ahead", "skip_ahead")
        walk.insists(actor)


def negative(walk: Walk, actor: Actor) -> None:
    walk.does(actor, walk.random.choice((-2, -3, -7, -LAST_EPOCH - 1)), "negative", "negative")


def acknowledges_at_zero(walk: Walk, actor: Actor) -> None:
    walk.does(actor, 0, "acknowledge at epoch 0", "ack_epoch_zero", fetch=False)


def acknowledges_in_initial_fetch(walk: Walk, actor: Actor) -> None:
    due = walk.session(actor) if walk.random.random() < 0.7 else 0
    walk.does(actor, 0, "epoch 0 with acks (42)", "ack_in_initial", fetch=True, acks=[(walk.partitions[0], 0, 0, 1)])
    if due and walk.random.random() < 0.5:
        walk.does(actor, due, "does not count the 42")
    elif due:
        walk.does(actor, due + 1, "counts the 42", "skip_after_error")


def renews_with_limits(walk: Walk, actor: Actor) -> None:
    """From version 2 on a request that renews may not ask for records."""
    due = walk.session(actor) if walk.release.share >= 2 else 0
    if not due:
        return
    walk.does(actor, due, "renew with limits (42)", "renew_misuse", fetch=True, is_renew_ack=True)
    counts = walk.random.random() < 0.6
    walk.does(
        actor,
        due + counts,
        "counts the 42" if counts else "does not count the 42",
        "skip_after_error" if counts else None,
    )


def counts_twice(walk: Walk, actor: Actor) -> None:
    """Fetches and acknowledgements each have their own count."""
    due = walk.session(actor)
    fetches = walk.random.random() < 0.5
    if not due or walk.does(actor, due, "one counter goes on", fetch=not fetches):
        return
    for _ in range(walk.random.randrange(1, 4)):
        walk.does(actor, walk.due(actor) or 1, "one counter goes on", fetch=fetches)
    walk.does(actor, due + 1, "the other counter", "two_counters", fetch=not fetches)


def fails_to_reopen(walk: Walk, actor: Actor) -> None:
    one = walk.random.choice(walk.partitions)
    walk.does(actor, 0, "epoch 0, partition twice", "duplicate", fetch=True, listed=[one, one])
    for _ in range(walk.random.choice((0, 1, 2))):
        walk.does(actor, walk.random.choice((1, 2, 3)), "after a failed reopen", "failed_reopen")


def lists_twice(walk: Walk, actor: Actor) -> None:
    if due := walk.session(actor):
        one = walk.random.choice(walk.partitions)
        walk.does(actor, due, "partition twice", "duplicate", fetch=True, listed=[one, one])


def lists_an_unknown_topic(walk: Walk, actor: Actor) -> None:
    due = walk.session(actor)
    if not due:
        return
    nowhere = (UNKNOWN_TOPIC, 0)
    fetches = walk.random.random() < 0.7
    acks = [] if fetches else [(nowhere, 0, 0, 1)]
    walk.does(actor, due, "unknown topic", "unknown_topic", fetch=fetches, listed=[nowhere], acks=acks)
    for _ in range(walk.random.choice((0, 1, 2))):
        walk.does(actor, walk.due(actor) or 1, "goes on with an unknown topic in the session")
    if walk.random.random() < 0.8:
        walk.does(actor, walk.due(actor) or 1, "forgets it", fetch=True, forget=[nowhere])


def opens_with_an_unknown_topic(walk: Walk, actor: Actor) -> None:
    walk.does(actor, 0, "unknown topic", "unknown_topic", fetch=True, listed=[(UNKNOWN_TOPIC, 0), walk.partitions[0]])
    walk.does(actor, 1, "goes on with an unknown topic in the session")


def has_a_bad_id(walk: Walk, actor: Actor) -> None:
    bad = walk.random.choice((None, "", "x" * 37, "no uuid", "x" * 36))
    walk.does(actor, walk.random.choice((0, 1, -1)), "bad member id", "member_id", member_id=bad)


def acknowledges_what_it_has_not(walk: Walk, actor: Actor) -> None:
    if due := walk.session(actor):
        one = sorted(actor.listed or walk.partitions)[0]
        batch = walk.random.choice(((one, 100_000, 100_009, 1), (one, 9, 3, 1), (one, 0, 0, 9)))
        walk.does(actor, due, "ack of records not held", "ack_not_held", acks=[batch])


def opens_again_and_again(walk: Walk, actor: Actor) -> None:
    for _ in range(walk.random.randrange(2, 5)):
        walk.open(actor, "epoch 0 again", "hot_loop")


def never_opened(walk: Walk, actor: Actor) -> None:
    fresh = Actor(actor.group, walk.new_id(), walk.connection_of(actor))
    if walk.random.random() < 0.4:
        walk.heartbeat(fresh)
    walk.does(fresh, walk.random.choice((1, 1, 2, -1)), "member without a session", "never_opened")
    if fresh.member_epoch is not None:
        walk.heartbeat(fresh, leave=True)


Action = Callable[[Walk, Actor], None]
#: How often each is chosen.
WEIGHTS: Final[dict[Action, int]] = {
    goes_on: 16,
    opens: 4,
    heartbeats: 4,
    forgets: 4,
    closes: 8,
    replays: 5,
    goes_back: 4,
    skips: 5,
    negative: 3,
    acknowledges_at_zero: 3,
    acknowledges_in_initial_fetch: 4,
    renews_with_limits: 3,
    counts_twice: 5,
    two_writers: 7,
    uses_anothers_id: 4,
    loses_its_connection: 5,
    loses_a_fetch: 3,
    loses_its_fetch: 3,
    loses_an_opening: 3,
    fails_to_reopen: 5,
    lists_twice: 4,
    lists_an_unknown_topic: 3,
    opens_with_an_unknown_topic: 1,
    has_a_bad_id: 3,
    acknowledges_what_it_has_not: 2,
    opens_again_and_again: 2,
    pipelines: 5,
    crosses: 16,
    never_opened: 4,
    shares_a_connection: 3,
    old_connection_closes: 4,
    **ACKNOWLEDGING,
}


def take_a_walk(walk: Walk, steps: int, restarts: int = 0) -> None:
    """Chooses actions until there were so many steps, with the broker's restarts evenly between."""
    actions, weights = list(WEIGHTS), list(WEIGHTS.values())
    due = [steps * (at + 1) // (restarts + 1) for at in range(restarts)]
    while walk.steps < steps:
        if due and walk.steps >= due[0]:
            del due[0]
            _restarts(walk)
        (action,) = walk.random.choices(actions, weights)
        action(walk, walk.random.choice(walk.actors))
        walk.beat()
        if walk.random.random() < 0.08:
            walk.feed()
    for connection in list(walk.talk.connections.values()):
        connection.close()


def _restarts(walk: Walk) -> None:
    """The broker restarts while a fetch waits; one session is used as if nothing had happened."""
    actor = walk.random.choice(walk.actors)
    if due := walk.session(actor):
        walk.ask(actor, due, "fetch while the broker goes down", fetch=True, wait_ms=2_000)
        walk.talk.pause(0.03)
    walk.restart(kill=walk.random.random() < 0.5)
    for each in walk.actors:
        walk.does(each, walk.random.choice((1, 2, 5)), "goes on after the restart", "broker_restart")
