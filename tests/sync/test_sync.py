"""The day of a release: one command, and what is to do; nothing to do is silence."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.shared import shared
from tests.sync.sources import RECORDS, field, message, write
from tools.sync.__main__ import main
from tools.sync.definitions import read_folder
from tools.sync.ours import our_layouts
from tools.sync.report import compare

#: What is known to differ from 3.9's definitions, beside the messages that are younger.
KNOWN_OF_3_9 = """
ListConfigResourcesRequest: was ListClientMetricsResourcesRequest
ListConfigResourcesResponse: was ListClientMetricsResourcesResponse
ListConfigResourcesResponse.config_resources: was client_metrics_resources
ListConfigResourcesResponse.config_resources.resource_name: was name
TxnOffsetCommitRequest.generation_id_or_member_epoch: was generation_id
VoteRequest.topics.partitions.replica_directory_id: was candidate_directory_id
VoteRequest.topics.partitions.replica_epoch: was candidate_epoch
VoteRequest.topics.partitions.replica_id: was candidate_id
ConsumerGroupCurrentMemberAssignmentValue.assigned_partitions.assignment_epochs: joined after 3.9
ConsumerGroupCurrentMemberAssignmentValue.partitions_pending_revocation.assignment_epochs: joined after 3.9
ConsumerGroupMetadataValue.metadata_hash: joined after 3.9
ConsumerGroupTargetAssignmentMetadataValue.assignment_timestamp: joined after 3.9
OffsetCommitValue.topic_id: joined after 3.9
RemoteLogSegmentMetadataRecord.txn_index_empty: joined after 3.9
RemoteLogSegmentMetadataSnapshotRecord.txn_index_empty: joined after 3.9
TransactionLogValue.previous_producer_id: joined after 3.9
TransactionLogValue.next_producer_id: joined after 3.9
TransactionLogValue.next_producer_epoch: joined after 3.9
TransactionLogValue.client_transaction_version: joined after 3.9
ReadShareGroupStateSummaryResponse: an older layout of the same version
ShareGroupMetadataValue: an older layout of the same version
ShareGroupPartitionMetadataValue: an older layout of the same version
QuorumStateData: a file of the quorum, never on the wire
"""


def test_the_newest_definitions_bring_silence(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(shared("kafka-messages", "trunk"))]) == 0
    assert capsys.readouterr().out == ""


def test_of_3_9_everything_is_known() -> None:
    report = compare(our_layouts(), read_folder(shared("kafka-messages", "3.9.2")))
    assert not report
    assert sorted(line for line in report.known if "newer" not in line) == sorted(KNOWN_OF_3_9.split("\n")[1:-1])


@pytest.fixture
def release(tmp_path: Path) -> Path:
    """A small release: one message that we know, changed; one that we do not; a record under another number."""
    return write(
        write(
            tmp_path / "kafka",
            message(
                "HeartbeatRequest",
                field("GroupId", "int32"),
                field("Mood", "string", "5+"),
                versions="0-5",
                flexible="4+",
                apiKey=12,
            ),
            message("PauseGroupRequest", field("GroupId", "string"), versions="0-1", apiKey=95),
            message("PauseGroupResponse", versions="0-1", apiKey=95),
        ),
        {**message("ClearElrRecord", field("TopicName", "string"), apiKey=33), "type": "metadata"},
        {**message("MoodRecord", field("Mood", "string"), apiKey=34), "type": "metadata"},
        where=RECORDS,
    )


def test_a_new_release_is_a_list_of_things_to_do(release: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(release)]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if not line.startswith("- ")] == [
        "ClearElrRecord",
        "  ~ ClearElrRecord: its number is 33, here 28",
        "HeartbeatRequest",
        "  + HeartbeatRequest: versions 5 to 5",
        "  ~ group_id: int32, versions 0+; here string, versions 0+",
        "  - generation_id: int32, versions 0+",
        "  - member_id: string, versions 0+",
        "  - group_instance_id: string, versions 3+, nullable 3+",
        "  + mood: string, versions 5+",
        f"+ MoodRecord: unknown here; python -m tools.sync {release} --draft MoodRecord",
        f"+ PauseGroup: unknown here; python -m tools.sync {release} --draft PauseGroup",
    ]
    assert "- ShareFetchRequest: no such definition" in lines
    assert "- LeaderAndIsrRequest: no such definition" not in lines


def test_the_command_it_names_writes_the_draft(
    release: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = [str(release), "--draft", "PauseGroup", "--into", str(tmp_path)]
    assert main(asked) == 0
    draft = (tmp_path / "pause_group.py").read_text()
    assert draft.startswith('"""PauseGroup (API 95): ')
    assert capsys.readouterr().out.splitlines() == [
        f"wrote {tmp_path}/pause_group.py; say in its first line what the API is for, and add to {tmp_path}/index.py:",
        '    95: ("PauseGroup", "pause_group", "0-1"),',
    ]
    assert main(asked) == 2
    assert "already exists" in capsys.readouterr().err


def test_the_draft_of_a_record_is_what_comes_out(release: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(release), "--draft", "MoodRecord"]) == 0
    assert (
        'MOOD_RECORD = layout("MoodRecord", versions="0", flexible="0+", fields=struct(string("mood")))'
        in capsys.readouterr().out
    )


def test_bad_usage_is_one_sentence(release: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for asked in ([str(tmp_path / "nowhere")], [str(release), "--draft", "Nothing"]):
        assert main(asked) == 2
        assert capsys.readouterr().err.count("\n") == 1
