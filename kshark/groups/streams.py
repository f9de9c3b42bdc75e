"""What only members of Streams groups have (KIP-1071): tasks in place of partitions, and a topology in place of
topics."""

from __future__ import annotations

from typing import Any, Final

from msgspec import UNSET, UnsetType

from kshark.groups.listed import Role, Tasks

_TASKS: Final[dict[Role, str]] = {"active": "active_tasks", "standby": "standby_tasks", "warmup": "warmup_tasks"}


def tasks_of(told: Any) -> list[Tasks] | UnsetType:
    """What a coordinator gives a member to do; UNSET where it says nothing new of that."""
    given = {role: getattr(told, name, None) for role, name in _TASKS.items()}
    if given["active"] is None:
        return UNSET
    return [Tasks(role, one.subtopology_id, [*one.partitions]) for role, tasks in given.items() for one in tasks or ()]


def topics_of(topology: Any) -> list[str]:
    """The topics that an application reads, its own ones included."""
    topics: list[str] = []
    for one in getattr(topology, "subtopologies", None) or ():
        topics += [*one.source_topics, *(f"/{pattern}/" for pattern in one.source_topic_regex)]
        topics += [topic.name for topic in one.repartition_source_topics]
    return sorted(topics)
