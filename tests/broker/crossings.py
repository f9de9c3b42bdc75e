"""What clients do with connections: several at a time, requests that cross, ends at any moment.

Actions as in tests.broker.actions.
"""

from __future__ import annotations

from tests.broker.live import LiveConnection, Sent
from tests.broker.walk import Actor, Walk


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
        walk.does(
            victim,
            epoch,
            "another member's id",
            "wrong_member",
            fetch=True,
            on=walk.connection_of(actor),
            listed=listed,
        )
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
        walk.insists(actor)
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
    enough = walk.random.choice((1, 1 << 20, 1 << 20))
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
    crossing = walk.ask(
        actor,
        epoch,
        f"crosses it with {what}",
        "concurrent",
        fetch=True if epoch == 0 else None,
        on=other,
        listed=listed,
    )
    for each in (crossing, waits):
        walk.learn(actor, each.wait())
    walk.does(actor, due + 1, "goes on after the crossing", "after_crossing")


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


def _afterwards(walk: Walk, actor: Actor, other: LiveConnection) -> None:
    """The second connection is the member's from now on, or it ends."""
    if walk.random.random() < 0.5:
        actor.connection = other
    elif all(each.connection is not other for each in walk.actors):
        other.close()
