"""What clients do on a walk, right and wrong: each action is a few requests of one member, with the mistake that each of them is.

An action finds a member whose session may be in any state, and leaves it in any.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tests.broker.live import LiveConnection, Sent
from tests.broker.walk import Actor, Walk

LAST_EPOCH: Final = 2_147_483_647
UNKNOWN_TOPIC: Final = "zMzMzMzMzMzMzMzMzMzMzA"
RENEW: Final = 4


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
        _after_refusal(walk, actor)


def goes_back(walk: Walk, actor: Actor) -> None:
    if due := walk.session(actor, 4):
        walk.does(actor, walk.random.randrange(1, due - 1), "stale", "stale")
        _after_refusal(walk, actor)


def skips(walk: Walk, actor: Actor) -> None:
    if due := walk.session(actor):
        walk.does(actor, walk.random.choice((due + 1, due + 2, due + 9, LAST_EPOCH)), "skip ahead", "skip_ahead")
        _after_refusal(walk, actor)


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
    walk.does(actor, due + counts, "counts the 42" if counts else "does not count the 42", "skip_after_error" if counts else None)


def counts_twice(walk: Walk, actor: Actor) -> None:
    """Fetches and acknowledgements each have their own count."""
    due = walk.session(actor)
    fetches = walk.random.random() < 0.5
    if not due or walk.does(actor, due, "one counter goes on", fetch=not fetches):
        return
    for _ in range(walk.random.randrange(1, 4)):
        walk.does(actor, walk.due(actor) or 1, "one counter goes on", fetch=fetches)
    walk.does(actor, due + 1, "the other counter", "two_counters", fetch=not fetches)


def two_writers(walk: Walk, actor: Actor) -> None:
    """The session goes on, or is opened anew, on another connection; the first does not know."""
    due = walk.session(actor, walk.random.choice((1, 3)))
    if not due:
        return
    own, other = walk.connection_of(actor), walk.another(actor)
    if walk.random.random() < 0.6:
        for epoch in range(due, due + walk.random.randrange(1, 3)):
            walk.does(actor, epoch, "right epoch on the other connection", on=other)
        walk.does(actor, due, "the first goes on with its own count", "two_writers", on=own)
        if walk.random.random() < 0.3:
            walk.does(actor, due, "replay on the other connection", "replay", on=other)
    else:
        walk.open(actor, "epoch 0 on the other connection", on=other)
        walk.does(actor, due, "the first goes on with its own count", "reopened_elsewhere", on=own)
    _afterwards(walk, actor, other)


def uses_anothers_id(walk: Walk, actor: Actor) -> None:
    victim = walk.random.choice([other for other in walk.actors if other is not actor])
    due = walk.session(victim)
    if due and victim.connection is not actor.connection:
        epoch = walk.random.choice((due, due, 0, -1, due + 3))
        listed = walk.random.sample(walk.partitions, 1) if epoch == 0 else []
        walk.does(victim, epoch, "another member's id", "wrong_member", fetch=True, on=walk.connection_of(actor), listed=listed)
        walk.does(victim, due, "the real one goes on with its own count", "victim")


def loses_its_connection(walk: Walk, actor: Actor) -> None:
    """The connection ends; another one goes on as if nothing had happened, or opens anew."""
    due = walk.session(actor)
    other = walk.talk.connection()
    walk.connection_of(actor).close(how=walk.random.choice(("fin", "rst")))
    actor.connection = other
    walk.talk.pause(walk.random.choice((0.0, 0.01, 0.1, 0.8)))
    if walk.random.random() < 0.7:
        walk.does(actor, due or 1, "goes on after its connection closed", "connection_closed")
        _after_refusal(walk, actor)
    else:
        walk.open(actor, "reopen after a close")


def loses_a_fetch(walk: Walk, actor: Actor) -> None:
    """A fetch waits on a second connection, which ends; the first goes on in one way or the other."""
    due = walk.session(actor)
    if not due:
        return
    second = walk.talk.connection()
    walk.ask(actor, due, "fetch, closed while it waits", fetch=True, on=second, wait_ms=walk.random.choice((100, 200)))
    counted = 1
    if walk.random.random() < 0.4:
        walk.talk.pause(0.01)
        walk.ask(actor, due + 1, "pipelined behind it, never answered", "lost_pipelined", on=second)
        counted = 2
    walk.talk.pause(walk.random.choice((0.02, 0.25)))
    second.close(how=walk.random.choice(("fin", "rst")))
    walk.talk.pause(walk.random.choice((0.02, 0.3)))
    epoch, action, mistake = walk.random.choice(
        (
            (due, "repeats the lost one", "replay"),
            (due + counted, "counts the lost one", "skip_after_timeout" if counted == 2 else None),
        )
    )
    walk.does(actor, epoch, action, mistake)


def loses_its_fetch(walk: Walk, actor: Actor) -> None:
    """A fetch waits on the session's own connection, which ends; the session goes on or is opened anew elsewhere."""
    due = walk.session(actor)
    if not due:
        return
    wait_ms = walk.random.choice((100, 300))
    walk.ask(actor, due, "fetch, closed while it waits", fetch=True, wait_ms=wait_ms)
    walk.talk.pause(0.03)
    actor.connection.close(how=walk.random.choice(("fin", "fin", "rst")))
    actor.connection = walk.talk.connection()
    if walk.random.random() < 0.5:
        walk.open(actor, "reopens on the other connection")
        for _ in range(walk.random.randrange(1, 4)):
            if epoch := walk.due(actor):
                walk.does(actor, epoch, "goes on there", wait_ms=walk.short())
            walk.talk.pause(walk.random.choice((0.0, wait_ms / 1000 + 0.2)))
        return
    walk.talk.pause(walk.random.choice((0.0, wait_ms / 1000 + 0.2)))
    walk.does(actor, due + 1, "goes on after its connection closed", "connection_closed")


def loses_an_opening(walk: Walk, actor: Actor) -> None:
    second = walk.talk.connection()
    some = walk.random.sample(walk.partitions, 1)
    walk.ask(actor, 0, "open, closed while it waits", fetch=True, on=second, listed=some, wait_ms=200)
    walk.talk.pause(walk.random.choice((0.02, 0.25)))
    second.close(how=walk.random.choice(("fin", "rst")))
    walk.talk.pause(walk.random.choice((0.02, 0.4)))
    walk.does(actor, 1, "goes on after an opening without an answer", "lost_opening")


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


def pipelines(walk: Walk, actor: Actor) -> None:
    """Several requests at once on one connection, with epochs right and wrong."""
    due = walk.session(actor)
    if not due:
        return
    sent: list[Sent] = []
    for at in range(walk.random.randrange(2, 6)):
        epoch = walk.random.choice((due + at, due + at, due + at, due, due + at + 2, -1 if at else due))
        sent.append(walk.ask(actor, epoch, "pipelined", "pipelined", wait_ms=walk.random.choice((0, 0, 30))))
    for each in sent:
        walk.learn(actor, each.wait())


def crosses(walk: Walk, actor: Actor) -> None:
    """A fetch waits; another request of its session comes on another connection."""
    due = walk.session(actor)
    if not due:
        return
    other = walk.another(actor)
    enough = walk.random.choice((1, 1 << 20))
    waits = walk.ask(actor, due, "waiting fetch", fetch=True, wait_ms=walk.random.choice((60, 150)), min_bytes=enough)
    walk.talk.pause(walk.random.choice((0.0, 0.005, 0.03)))
    crossings = (
        (due, "the same epoch"),
        *[(due + 1, "the next epoch")] * 4,
        (0, "epoch 0"),
        (-1, "the final epoch"),
        (due + 4, "an epoch ahead"),
    )
    epoch, what = walk.random.choice(crossings)
    listed = walk.random.sample(walk.partitions, 1) if epoch == 0 else []
    crossing = walk.ask(actor, epoch, f"crosses it with {what}", "concurrent", fetch=True if epoch == 0 else None, on=other, listed=listed)
    for each in (crossing, waits):
        walk.learn(actor, each.wait())
    walk.does(actor, due + 1, "goes on after the crossing", "after_crossing")


def never_opened(walk: Walk, actor: Actor) -> None:
    fresh = Actor(actor.group, walk.new_id(), walk.connection_of(actor))
    if walk.random.random() < 0.4:
        walk.heartbeat(fresh)
    walk.does(fresh, walk.random.choice((1, 1, 2, -1)), "member without a session", "never_opened")
    if fresh.member_epoch is not None:
        walk.heartbeat(fresh, leave=True)


def shares_a_connection(walk: Walk, actor: Actor) -> None:
    """Two members open their sessions on one connection, which may end."""
    other = walk.random.choice([other for other in walk.actors if other is not actor])
    connection = walk.connection_of(actor)
    walk.open(actor)
    walk.open(other, on=connection)
    if walk.random.random() < 0.4:
        walk.does(actor, -1, "final")
    if walk.random.random() < 0.6:
        connection.close()
        walk.talk.pause(walk.random.choice((0.01, 0.8)))
        for each in (actor, other):
            walk.does(each, 1, "goes on after its connection closed", "connection_closed")


def old_connection_closes(walk: Walk, actor: Actor) -> None:
    """Opened anew on another connection, or closed and opened there; then the first one closes (KAFKA-19950)."""
    if not walk.session(actor):
        return
    old, new = walk.connection_of(actor), walk.talk.connection()
    if walk.random.random() < 0.4:
        walk.does(actor, -1, "final", on=walk.random.choice((old, new)))
    walk.open(actor, "reopens on the other connection", on=new)
    actor.connection = new
    old.close(how=walk.random.choice(("fin", "rst")))
    walk.talk.pause(walk.random.choice((0.0, 0.05, 0.8)))
    walk.does(actor, 1, "goes on there")


def _after_refusal(walk: Walk, actor: Actor) -> None:
    """Goes on regardless, now and then."""
    for _ in range(walk.random.choice((0, 0, 0, 1, 2))):
        walk.does(actor, walk.random.randrange(1, 6), "goes on after a refusal", "no_recovery")


def _afterwards(walk: Walk, actor: Actor, other: LiveConnection) -> None:
    """The second connection is the member's from now on, or it ends."""
    if walk.random.random() < 0.5:
        actor.connection = other
    elif all(each.connection is not other for each in walk.actors):
        other.close()


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
    fails_to_reopen: 4,
    lists_twice: 2,
    lists_an_unknown_topic: 3,
    opens_with_an_unknown_topic: 1,
    has_a_bad_id: 3,
    acknowledges_what_it_has_not: 2,
    opens_again_and_again: 2,
    pipelines: 5,
    crosses: 8,
    never_opened: 4,
    shares_a_connection: 3,
    old_connection_closes: 4,
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
        if walk.random.random() < 0.03:
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
