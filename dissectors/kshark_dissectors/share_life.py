"""The life of a share group on the wire, step by step: which API carries it, who asks whom, and what for. Source:
KIP-932."""

from typing import Final, NamedTuple


class LifeStep(NamedTuple):
    """One step: the APIs that perform it, and what happens."""

    apis: tuple[int, ...]
    who: str
    what: str


_MEMBER: Final = "member to any broker"
_COORDINATOR: Final = "member to group coordinator"
_LEADER: Final = "member to partition leader"
_STORE: Final = "partition leader to share coordinator"
_ADMIN: Final = "administrator to group coordinator"

#: In the order of a group's life; an administrator's steps come last.
LIFE: Final = (
    LifeStep((18,), _MEMBER, "both say what they speak; without APIs 76 to 79 in the answer there are no share groups"),
    LifeStep((10,), _MEMBER, "it asks who coordinates the group"),
    LifeStep(
        (76,),
        _COORDINATOR,
        "with member epoch 0 it joins; the answers assign partitions, later heartbeats say that it lives",
    ),
    LifeStep(
        (83,),
        "group coordinator to share coordinator",
        "each partition gets its start before anybody is assigned to it",
    ),
    LifeStep((3,), _MEMBER, "it asks who leads the partitions it was assigned"),
    LifeStep((78,), _LEADER, "with epoch 0 it opens a share session; records come with their acquired ranges"),
    LifeStep(
        (10, 84),
        _STORE,
        "before it delivers for the first time, the leader finds and reads what was stored of the partition",
    ),
    LifeStep((78, 79), _LEADER, "with epochs 1, 2, 3 … it fetches on and acknowledges: both APIs count with one epoch"),
    LifeStep((85,), _STORE, "what an acknowledgement or a lock timeout changed is stored before the answer goes out"),
    LifeStep((78, 79), _LEADER, "with epoch -1 it closes the session; what it still holds is released"),
    LifeStep((76,), _COORDINATOR, "with member epoch -1 it leaves"),
    LifeStep((16, 77), _ADMIN, "lists groups, describes members and their assignment"),
    LifeStep(
        (90, 87), _ADMIN, "asks where the group stands: the group coordinator has the share coordinator read a summary"
    ),
    LifeStep((91, 83), _ADMIN, "moves an empty group's start: its partitions are initialized again"),
    LifeStep((92, 86), _ADMIN, "takes a topic out of an empty group: its state is deleted"),
    LifeStep((42, 86), _ADMIN, "deletes an empty group with all of its state"),
)
