"""Old names, abbreviations and names of drafts lead to today's page."""

from __future__ import annotations

import pytest

from kshark.cli.explain import explained
from kshark.output.spans import plain
from kshark_dissectors.enums import ErrorCode
from kshark_dissectors.other_names import FORMER_NAMES, TERMS
from tests.output.messages import REGISTRY


def page(name: str) -> list[str]:
    return [plain(line) for line in explained(name, REGISTRY, None)]


@pytest.mark.parametrize("name", [*TERMS, *FORMER_NAMES])
def test_each_name_leads_to_a_page(name: str) -> None:
    other = {**TERMS, **FORMER_NAMES}[name]
    lines = page(name)
    if lines[0].startswith(f"{name}  {other.text.format(other.see)[:40]}") and other.see:
        assert lines[lines.index("") + 1 :] == page(other.see)


@pytest.mark.parametrize(
    ("name", "says", "head"),
    [
        ("ConsumerMetadataRequest", "; today FindCoordinator", "FindCoordinator  API 10"),
        ("GroupCoordinatorResponse", "; today FindCoordinator", "FindCoordinator  API 10"),
        ("OffsetRequest", "; today ListOffsets", "ListOffsets  API 2"),
        ("TopicMetadataRequest", "; today Metadata", "Metadata  API 3"),
        ("FetchRequest", "a message of Fetch", "Fetch  API 1"),
        ("NotLeaderForPartition", "; today NOT_LEADER_OR_FOLLOWER", "6 NOT_LEADER_OR_FOLLOWER"),
        ("NotLeaderForPartitionException", "; today NOT_LEADER_OR_FOLLOWER", "6 NOT_LEADER_OR_FOLLOWER"),
        ("NotLeaderForPartitionCode", "; today NOT_LEADER_OR_FOLLOWER", "6 NOT_LEADER_OR_FOLLOWER"),
        ("GROUP_LOAD_IN_PROGRESS", "; today COORDINATOR_LOAD_IN_PROGRESS", "14 COORDINATOR_LOAD_IN_PROGRESS"),
        ("GroupLoadInProgressCode", "; today COORDINATOR_LOAD_IN_PROGRESS", "14 COORDINATOR_LOAD_IN_PROGRESS"),
        ("GROUP_COORDINATOR_NOT_AVAILABLE", "; today COORDINATOR_NOT_AVAILABLE", "15 COORDINATOR_NOT_AVAILABLE"),
        ("OffsetOutOfRange", "stands for OFFSET_OUT_OF_RANGE", "1 OFFSET_OUT_OF_RANGE"),
        ("UnknownMemberIdException", "stands for UNKNOWN_MEMBER_ID", "25 UNKNOWN_MEMBER_ID"),
        ("InvalidTopicException", "stands for INVALID_TOPIC_EXCEPTION", "17 INVALID_TOPIC_EXCEPTION"),
        ("ReadShareGroupOffsetsState", "; today ReadShareGroupStateSummary", "ReadShareGroupStateSummary  API 87"),
        ("CorruptRecordException", "stands for CORRUPT_MESSAGE", "2 CORRUPT_MESSAGE"),
        ("TransactionLog", "a record: its key is TransactionLogKey", "TransactionLogValue  inside bytes"),
        ("ShareCheckpoint", "; today ShareSnapshotValue", "ShareSnapshotValue  inside bytes"),
        ("spso", "share-partition start offset", "start_offset  in "),
        ("LSO", "last stable offset", "last_stable_offset  in "),
        ("HW", "high watermark", "high_watermark  in "),
        ("isr", "in-sync replicas", "isr_nodes  in "),
    ],
)
def test_a_name_of_the_old_guide_has_todays_page(name: str, says: str, head: str) -> None:
    lines = page(name)
    first = " ".join(lines[: lines.index("")])
    assert first.startswith(f"{name}  ")
    assert says in first
    assert any(line.startswith(head) for line in lines)


@pytest.mark.parametrize(
    "name",
    [
        "ConsumerGroupPrepareAssignment",
        "ConsumerGroupPrepareAssignmentRequest",
        "ConsumerGroupInstallAssignment",
        "FENCED_GROUP_EPOCH",
        "INVALID_ASSIGNMENT",
    ],
)
def test_what_only_a_draft_had_says_so(name: str) -> None:
    assert "in the draft of KIP-848, in no release" in " ".join(page(name))


@pytest.mark.parametrize("error", [error for error in ErrorCode if error > 0], ids=str)
def test_an_error_is_found_without_underscores(error: ErrorCode) -> None:
    name = "".join(part.title() for part in error.name.split("_"))
    assert any(line.startswith(f"{error.value} {error.name}  ") for line in page(name))


def test_a_field_keeps_its_own_page() -> None:
    assert page("offset")[0].startswith("offset  in ")
    assert page("member_assignment")[0].startswith("member_assignment  in ")
