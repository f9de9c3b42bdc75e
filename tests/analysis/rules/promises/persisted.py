"""Promises of kshark.analysis.rules.persisted: the state that leaders store for acknowledgements."""

from __future__ import annotations

from tests.analysis.coordinators import ACCEPTED, Batch, Sender, leader
from tests.analysis.rules.promises.acknowledgements import ACCEPT, INVALID_RECORD_STATE, REJECT, holding
from tests.analysis.rules.promises.promise import Said, promise
from tests.conversation import Asked, Conversation, Member, note, violation


def acknowledges(
    a: Member,
    leads: Sender,
    epoch: int,
    acks: tuple[int, int, int],
    *stored: Batch,
    error: int = 0,
    start: int = 0,
    took: float = 0,
) -> Asked:
    """Send an acknowledgement, and what its leader stores before it answers."""
    asked = a.share_acknowledge(epoch, [acks])
    if stored:
        write = leads.write(start, *stored)
        a.connection.talk.pause(took)
        write.accepted()
    return asked.answered(acks={0: error})


def orderly(talk: Conversation, times: int = 3) -> tuple[Member, Sender]:
    """Return a member with records 0 to 99 that acknowledged three of them, each stored at once."""
    leads = leader(talk)
    a = holding(talk, (0, 99))
    for epoch in range(1, times + 1):
        acknowledges(a, leads, epoch, (epoch - 1, epoch - 1, ACCEPT), (epoch - 1, epoch - 1, ACCEPTED, 1))
    return a, leads


def left_out(talk: Conversation) -> Asked:
    """Send two acknowledgements: the leader stores only the second."""
    a, leads = orderly(talk)
    wrong = acknowledges(a, leads, 4, (10, 19, ACCEPT))
    acknowledges(a, leads, 5, (20, 29, ACCEPT), (20, 29, ACCEPTED, 1))
    return wrong


@promise
def acknowledgements_are_not_stored() -> Said:
    talk = Conversation()
    return talk, [violation("ACK_NOT_PERSISTED", left_out(talk), blame="broker")]


@promise
def acknowledgements_are_stored_in_another_state() -> Said:
    talk = Conversation()
    a, leads = orderly(talk)
    wrong = acknowledges(a, leads, 4, (10, 19, REJECT), (10, 19, ACCEPTED, 1))
    return talk, [violation("PERSISTED_STATE_MISMATCH", wrong, blame="broker")]


@promise
def acknowledgements_are_refused_and_stored() -> Said:
    talk = Conversation()
    a, leads = orderly(talk)
    holding(talk, (200, 209), name="b")
    asked = a.share_acknowledge(4, [(10, 19, ACCEPT), (200, 209, ACCEPT)])
    leads.write(0, (10, 19, ACCEPTED, 1)).accepted()
    wrong = asked.answered(acks={0: INVALID_RECORD_STATE})
    return talk, [
        violation("ACK_ATOMICITY_BROKEN", wrong, blame="broker"),
        violation("ACK_NOT_OWNER", wrong, blame="client", cause="not_owner"),
    ]


@promise
def acknowledgements_are_stored_slowly() -> Said:
    talk = Conversation()
    leads = leader(talk)
    slow = acknowledges(holding(talk, (0, 9)), leads, 1, (0, 9, ACCEPT), (0, 9, ACCEPTED, 1), took=0.2)
    return talk, [note("PERSIST_SLOW", slow)]
