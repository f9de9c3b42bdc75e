"""The types of `import kshark`, as mypy shows them to somebody who uses the package."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args, get_type_hints

import msgspec
import pytest
from msgspec.structs import replace

import kshark
from kshark.model import Message
from tests.patience import PATIENCE_S
from tests.shared import CAPTURES, ROOT, pythonpath

EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
#: What a user of pyarrow writes, which has no types.
SETTINGS = "[mypy]\nstrict = True\nfollow_imports = silent\n[mypy-pyarrow.*]\nignore_missing_imports = True\n"
PROGRAM = """\
import kshark

options: kshark.Options = {"tls_keys": "keys.log", "ports": [9095]}
for finding in kshark.check("a.pcap", select="EPOCH_REPLAY", **options):
    reveal_type(finding.code)
    reveal_type(finding.verdict)
    reveal_type(finding.witness)
    reveal_type(finding.to_dict())
    finding.wieght
for message in kshark.read("a.pcap", records=False):
    reveal_type(message.latency_ns)
for session in kshark.sessions("a.pcap", steps=True):
    reveal_type(session.first_epoch)
for delivery in kshark.deliveries("a.pcap", partition=0):
    reveal_type(delivery.start_offset)
for group in kshark.groups("a.pcap"):
    reveal_type(group.members[0].client_id)
for entry in kshark.events("a.pcap", kinds=["leader"]):
    reveal_type(entry.text)
reveal_type(kshark.decode(78, 1, "request", b""))
reveal_type(kshark.__version__)
kshark.check("a.pcap", tsl_keys="keys.log")
kshark.events("a.pcap", kinds=["leaders"])
wrong: kshark.Options = {"port": [9095]}
"""
ANSWERS = [
    (5, "str"),
    (6, "Literal['violation']"),
    (7, "list[kshark.model.Witness]"),
    (8, "dict[str, Any]"),
    (9, '"ListedFinding" has no attribute "wieght"; maybe "weight"?'),
    (11, "int | None"),
    (13, "int"),
    (15, "int"),
    (17, "str"),
    (19, "str"),
    (20, "dict[str, Any]"),
    (21, "str"),
    (22, 'Unexpected keyword argument "tsl_keys" for "check"'),
    (23, "List item 0 has incompatible type"),
    (24, 'Extra key "port" for TypedDict "Options"'),
]


def mypy(*files: Path, settings: Path) -> list[str]:
    """The lines of mypy, in strict mode, with kshark as an installed package."""
    pytest.importorskip("mypy", reason="it needs mypy")
    settings.write_text(SETTINGS)
    command = [
        sys.executable,
        "-m",
        "mypy",
        "--config-file",
        str(settings),
        "--cache-dir",
        str(ROOT / ".mypy_cache/public"),
    ]
    done = subprocess.run(
        [*command, "--no-pretty", "--hide-error-context", *map(str, files)],
        cwd=settings.parent,
        env={**os.environ, "MYPYPATH": pythonpath()},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.stderr == ""
    return done.stdout.splitlines()


def test_the_examples_are_typed(tmp_path: Path) -> None:
    assert mypy(*EXAMPLES, settings=tmp_path / "mypy.ini") == [
        f"Success: no issues found in {len(EXAMPLES)} source files"
    ]


def test_types_are_shown_and_mistakes_found(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    *told, _ = mypy(program, settings=tmp_path / "mypy.ini")
    by_line = {int(line.split(":")[1]): re.sub(r"builtins\.|typing\.", "", line) for line in reversed(told)}
    assert [*by_line] == [line for line, _ in reversed(ANSWERS)]
    for line, answer in ANSWERS:
        assert answer in by_line[line]


#: What a user writes who counts and compares: every part is a value or None.
USER = """\
from collections import Counter

import kshark

requests: Counter[tuple[str | None, str | None]] = Counter()
slow: dict[str | None, int] = {}
for message in kshark.read("trace.pcap", records=False):
    if message.kind == "request":
        requests[message.client_id, message.api] += 1
    elif message.latency_ns is not None:
        slow[message.api] = max(message.latency_ns, slow.get(message.api, 0))
    first, last = message.packets or (message.packet, message.packet)
    codes: list[str] = message.weird or []
for finding in kshark.check("trace.pcap"):
    lasted_ns: int | None = None if finding.until_ns is None else finding.until_ns - finding.time_ns
    explained: tuple[str | None, int | None] = (finding.event_code, finding.event_packet)
    files: set[str] = {place.file for witness in finding.witness for place in witness.places or ()}
for session in kshark.sessions("trace.pcap", steps=True):
    epochs: list[int] = [step.epoch for step in session.steps or ()]
for delivery in kshark.deliveries("trace.pcap"):
    topic: str = delivery.topic or delivery.topic_id
for group in kshark.groups("trace.pcap", rebalances=True):
    waits = [wait.partitions for it in group.rebalances or () for wait in it.waited_for]
    tasks = [task.partitions for member in group.members for task in member.tasks or ()]
    ends: list[str | None] = [member.ended.because for member in group.members if member.ended is not None]
    silent_ms: list[int] = [member.silent.session_timeout_ms for member in group.members if member.silent is not None]
for entry in kshark.events("trace.pcap"):
    where: tuple[str | None, int | None] = (entry.topic, entry.partition)
print(requests, slow)
"""


def test_what_a_user_writes_is_typed_and_runs(tmp_path: Path) -> None:
    program = tmp_path / "count.py"
    program.write_text(USER)
    assert mypy(program, settings=tmp_path / "mypy.ini") == ["Success: no issues found in 1 source file"]
    (tmp_path / "trace.pcap").symlink_to(CAPTURES / "adv-epochs.pcap")
    done = subprocess.run(
        [sys.executable, str(program)],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": pythonpath(ROOT)},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.stderr == ""
    assert "('A', 'ShareFetch'): " in done.stdout


def test_no_public_type_has_a_part_that_may_be_unset() -> None:
    public = {kshark.Delivery, kshark.Entry, kshark.Finding, kshark.Group, kshark.ShareSession, kshark.Witness}
    seen: set[type] = set()
    while public:
        seen.add(one := public.pop())
        for name, hint in get_type_hints(one).items():
            parts = {*_parts(hint)}
            assert msgspec.UnsetType not in parts, f"{one.__name__}.{name}"
            public |= {it for it in parts if issubclass(it, msgspec.Struct)} - seen
    assert {it.__name__ for it in seen} >= {
        "ListedMember",
        "MemberEnd",
        "PacketInFile",
        "Rebalance",
        "SessionStep",
        "Wait",
    }


def _parts(hint: Any) -> Iterator[type]:
    """Yield the types of which a type consists."""
    if isinstance(hint, type) and not get_args(hint):
        yield hint
    for part in get_args(hint):
        yield from _parts(part)


def test_a_message_has_the_keys_of_its_line_and_none_for_others() -> None:
    messages = [*kshark.read(CAPTURES / "adv-frames.pcap")]
    keys = {name for name, part in vars(kshark.Message).items() if hasattr(part, "__set__") and name != "message"}
    assert keys == {*Message.__struct_fields__} - {"knows"}
    for message in messages:
        line = message.to_dict()
        assert {name: getattr(message, name) for name in keys} == dict.fromkeys(keys) | line
    frame = dict.fromkeys(("api_key", "api", "version", "correlation_id", "client_id", "request_packet"), msgspec.UNSET)
    unknown = kshark.Message(replace(messages[0].message, kind="unknown", **frame))
    assert (unknown.kind, unknown.api, unknown.client_id, unknown.latency_ns) == ("unknown", None, None, None)
    assert not unknown.to_dict().keys() & frame.keys()
    assert messages[0] == messages[0]
    assert messages[0] != messages[1]
    with pytest.raises(AttributeError, match="cannot be set"):
        messages[0].client_id = "other"
