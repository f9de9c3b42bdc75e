"""Following the README literally ends with a working dissector."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import kshark_dissectors
from tests.dissectors.test_form import SHARED
from tests.following import blocks, insert, project, python, run_tests

FOLDER = Path(kshark_dissectors.__file__).parent
README = (FOLDER.parent / "README.md").read_text()


@pytest.mark.sweep
def test_adding_an_api_as_the_readme_says(tmp_path: Path) -> None:
    dissector, index_line, trial = blocks("dissectors/README.md")
    copy = project(tmp_path)
    (copy / "dissectors/kshark_dissectors/pause_group.py").write_text(dissector)
    insert(copy / "dissectors/kshark_dissectors/index.py", r"(^INDEX: .*?)(^\}\n)", index_line)
    assert python(copy, "-c", trial) == ""
    assert "duration_ms" in python(copy, "-m", "kshark", "explain", "PauseGroup")
    run_tests(
        copy,
        "tests/dissectors/test_form.py",
        "tests/dissectors/test_round_trip.py::test_all_readers_agree_on_what_was_written[95]",
        "tests/test_registry.py::test_every_api_of_the_index_is_what_the_index_says",
        "tests/output/test_explained.py::test_every_field_of_every_api_is_shown",
    )


def test_the_readme_names_every_file_that_is_no_api_and_every_word() -> None:
    assert [name for name in sorted(SHARED - {"__init__"}) if f"`{name}.py`" not in README] == []
    used = {
        word
        for path in FOLDER.glob("*.py")
        for line in re.findall(r"^from kshark.schema import (.*)$", path.read_text(), re.M)
        for word in line.split(", ")
    }
    assert [word for word in sorted(used - {"api", "layout"}) if not re.search(rf"`{word}[`(]", README)] == []
