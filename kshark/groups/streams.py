"""Members of Streams groups (KIP-1071): they have tasks instead of partitions, and a topology instead of topics."""

from __future__ import annotations

from typing import Any, Final

from kshark.groups.listed import Role, Tasks

_TASKS: Final[dict[Role, str]] = {"active": "active_tasks", "standby": "standby_tasks", "warmup": "warmup_tasks"}


def tasks_of(described: Any) -> list[Tasks] | None:
    """Return the tasks that a coordinator assigns to a member; None if the message has none."""
    given = {role: getattr(described, name, None) for role, name in _TASKS.items()}
    if given["active"] is None:
        return None
    return [
        Tasks(role, task.subtopology_id, [*task.partitions]) for role, tasks in given.items() for task in tasks or ()
    ]


def topics_of(topology: Any) -> list[str]:
    """Return the topics that an application reads, including its internal ones."""
    topics: list[str] = []
    for subtopology in getattr(topology, "subtopologies", None) or ():
        topics += [*subtopology.source_topics, *(f"/{pattern}/" for pattern in subtopology.source_topic_regex)]
        topics += [topic.name for topic in subtopology.repartition_source_topics]
    return sorted(topics)
