"""Definitions become layouts, oddities of the files included."""

from __future__ import annotations

from pathlib import Path

import pytest

from kshark.errors import UnreadableInput
from kshark.schema import array, bytes_, int16, int32, layout, named, string, struct
from tests.sync.sources import field, message, write
from tools.sync.compare import differences
from tools.sync.definitions import read_folder, snake_case


def test_a_definition_is_read_as_we_would_write_it(tmp_path: Path) -> None:
    node = {
        "name": "Node",
        "versions": "0+",
        "fields": [field("NodeId", "int32"), field("Rack", "string", nullableVersions="1+")],
    }
    raw = message(
        "PauseGroupRequest",
        field("GroupId", "string", about="see http://x.org//y"),
        field("Duration", "int32", "1+", default="-1"),
        field("Wait", "int16", default="0x10"),
        field("Leader", "Node", nullableVersions="0+"),
        field("Nodes", "[]Node"),
        field("Kinds", "[]Kind", fields=[field("Kind", "string")]),
        field("Extra", "bytes", "1+", tag="0", taggedVersions="1+", nullableVersions="1+", default="null"),
        versions="0-1",
        apiKey=95,
        commonStructs=[node],
    )
    found = read_folder(write(tmp_path, raw))["PauseGroupRequest"]
    ours_node = struct(int32("node_id"), string("rack", nullable="1+"))
    ours = layout(
        "PauseGroupRequest",
        versions="0-1",
        flexible="0+",
        fields=struct(
            string("group_id"),
            int32("duration", versions="1+", default=-1),
            int16("wait", default=16),
            named("leader", ours_node, nullable="0+"),
            array("nodes", ours_node),
            array("kinds", struct(string("kind"))),
            bytes_("extra", versions="1+", nullable="1+", tag=0),
        ),
    )
    assert (found.kind, found.key, list(found.structs)) == ("request", 95, ["Node", "Kind"])
    assert differences(ours, found.layout) == []
    assert differences(found.layout, ours) == []


def test_messages_without_versions_are_left_out(tmp_path: Path) -> None:
    gone = {"type": "request", "name": "StopReplicaRequest", "validVersions": "none"}
    assert list(read_folder(write(tmp_path, gone, message("ARequest")))) == ["ARequest"]


def test_a_tagged_field_may_lack_its_versions(tmp_path: Path) -> None:
    raw = {"name": "NextId", "type": "int64", "default": -1, "taggedVersions": "1+", "tag": 1}
    found = read_folder(write(tmp_path, message("LogValue", raw, versions="0-1", flexible="1+")))["LogValue"]
    (made,) = found.layout.root.fields
    assert (str(made.versions), made.tag, made.default) == ("1+", 1, -1)


def test_before_4_0_the_version_of_a_stored_key_is_its_record_type(tmp_path: Path) -> None:
    found = read_folder(
        write(tmp_path, message("GroupKey", field("group", "string", "2"), versions="2", flexible="none"))
    )["GroupKey"]
    assert (found.key, str(found.layout.versions)) == (2, "0")
    assert 0 in found.layout.root.fields[0].versions


def test_other_json_of_a_source_tree_is_no_definition(tmp_path: Path) -> None:
    write(tmp_path, message("ARequest"))
    write(tmp_path, message("ExampleRequest"), where="clients/src/test/resources/common/message")
    (tmp_path / "package.json").write_text('{"name": "docs", "type": "module"}')
    assert list(read_folder(tmp_path)) == ["ARequest"]
    assert list(read_folder(tmp_path / "clients/src/test")) == ["ExampleRequest"]


def test_what_cannot_be_read_names_the_file(tmp_path: Path) -> None:
    with pytest.raises(UnreadableInput, match="no message definitions"):
        read_folder(tmp_path)
    for number, broken in enumerate((field("X", "uint7"), field("X", "int32", "seven"), {"name": "X"})):
        folder = write(tmp_path / str(number), message("Broken", broken))
        with pytest.raises(UnreadableInput, match=r"\.json: "):
            read_folder(folder)


@pytest.mark.parametrize(
    ("name", "ours"),
    [
        ("TopicId", "topic_id"),
        ("KRaftVersion", "kraft_version"),
        ("Enable2Pc", "enable2_pc"),
        ("protocolType", "protocol_type"),
        ("V3AndBelowTopics", "v3_and_below_topics"),
        ("HMAC", "hmac"),
    ],
)
def test_names_are_written_our_way(name: str, ours: str) -> None:
    assert snake_case(name) == ours
