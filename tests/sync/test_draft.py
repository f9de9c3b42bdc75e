"""A draft of every message that Kafka defines is a dissector that says the same, in the form the house wants."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from kshark.schema import Api, Layout
from tests.shared import ROOT, shared
from tests.sync.sources import field, message, write
from tools.sync.compare import differences
from tools.sync.definitions import Definition, read_folder
from tools.sync.draft import api_draft, layout_draft


def drafts(theirs: dict[str, Definition]) -> dict[str, str]:
    """All drafts of a release, by name of the API or message."""
    found = {}
    for name, definition in theirs.items():
        api = name.removesuffix("Request")
        if definition.kind == "request":
            found[api] = api_draft(api, definition, theirs[f"{api}Response"])
        elif definition.kind != "response":
            found[name] = layout_draft(definition)
    return found


def layouts(source: str) -> list[Layout]:
    names: dict[str, object] = {}
    exec(source, names)
    apis = [value for value in names.values() if isinstance(value, Api)]
    return [layout for api in apis for layout in (api.request, api.response)] + [
        one for one in names.values() if isinstance(one, Layout)
    ]


def test_a_draft_reads_like_a_dissector(tmp_path: Path) -> None:
    partition = [
        field("Partition", "int32"),
        field("ErrorCode", "int16"),
        field("Reason", "string"),
        field("Offset", "int64"),
    ]
    theirs = read_folder(
        write(
            tmp_path,
            message(
                "PauseGroupRequest", field("GroupId", "string"), field("Ids", "[]uuid", "1+"), versions="0-1", apiKey=95
            ),
            message(
                "PauseGroupResponse",
                field("Partitions", "[]PartitionData", fields=partition),
                versions="0-1",
                apiKey=95,
            ),
        )
    )
    draft = api_draft("PauseGroup", theirs["PauseGroupRequest"], theirs["PauseGroupResponse"])
    assert (
        draft
        == '''"""PauseGroup (API 95): say here what it is for."""

from kshark.schema import api, array, int16, int32, int64, string, struct, uuid
from kshark_dissectors.enums import ErrorCode

partition_data = struct(int32("partition"), int16("error_code", enum=ErrorCode), string("reason"), int64("offset"))

DISSECTOR = api(
    95,
    "PauseGroup",
    versions="0-1",
    flexible="0+",
    request=struct(string("group_id"), array("ids", uuid(), versions="1+")),
    response=struct(array("partitions", partition_data)),
)
'''
    )


@pytest.mark.sweep(quick=1)
@pytest.mark.parametrize("release", ["trunk", "3.9.2"])
def test_every_draft_says_what_its_definition_says(release: str, tmp_path: Path) -> None:
    theirs = read_folder(shared("kafka-messages", release))
    for name, source in drafts(theirs).items():
        for layout in layouts(source):
            assert differences(layout, theirs[layout.name].layout) == [], name
            assert differences(theirs[layout.name].layout, layout) == [], name
        (tmp_path / f"{name}.py").write_text(source)
    count = len(list(tmp_path.glob("*.py")))
    assert count > 50
    for check, said in ((["format", "--check"], f"{count} files already formatted"), (["check"], "All checks passed!")):
        ruff = [sys.executable, "-m", "ruff", *check, "--config", str(ROOT / "pyproject.toml"), str(tmp_path)]
        assert subprocess.run(ruff, capture_output=True, text=True, check=False).stdout.strip().splitlines()[-1:] == [
            said
        ]
