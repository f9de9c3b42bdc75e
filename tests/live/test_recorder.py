"""The flight recorder: each saved file alone gives its finding, and what is kept is bounded."""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from msgspec import UNSET
from msgspec.structs import FieldInfo, fields, replace

import kshark as face
from kshark.errors import UsageError
from kshark.evidence.connections import Connections
from kshark.live.files import Interfaces
from kshark.live.recorder import Recorder, RecorderOptions, Saving, recorder_options
from kshark.live.recorder.due import DueRecordings
from kshark.live.recorder.private_folder import PrivateFolder
from kshark.live.recorder.segments import Segments
from kshark.model import Event, Finding, PacketBatch
from kshark.pipeline import JUDGED, Engine
from kshark.registry import Registry
from kshark.run import Run
from tests.capture.files import read
from tests.evidence.reading import comments, result_of
from tests.live.batches import BEGIN, SECOND, live_batches, packets, status
from tests.patience import PATIENCE_S
from tests.shared import CAPTURES

ADVERSARIAL = sorted([*CAPTURES.glob("adv-*.pcap"), *CAPTURES.glob("aimed*.pcap"), CAPTURES / "java-limit.pcap"])


#: Recorders that a test may have left running.
BEGUN: list[Recorder] = []


@pytest.fixture(autouse=True)
def private(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """TMPDIR, in which nothing is left."""
    folder = tmp_path / "private"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    yield folder
    while BEGUN:
        BEGUN.pop().close([])
    until = time.monotonic() + PATIENCE_S
    while [*folder.iterdir()] and time.monotonic() < until:
        time.sleep(0.01)
    assert not [*folder.iterdir()]


class Live:
    """A running capture with a recorder."""

    def __init__(self, options: RecorderOptions, registry: Registry | None = None) -> None:
        self.notes: list[str] = []
        registry = registry or Registry()
        self.recorder = Recorder(
            Saving(options, JUDGED, registry, "eth0"),
            Interfaces(["eth0"], 262_144),
            note=self.notes.append,
            last_seconds=PATIENCE_S,
        )
        BEGUN.append(self.recorder)
        self.engine = Engine(JUDGED, registry)
        self.run = Run(registry)
        self.findings: list[Finding] = []

    def play(self, path: Path, *, most: int = 50, until: int | None = None) -> None:
        """Capture and judge the packets of a file, and end."""
        self.recorder.start()
        for batch in live_batches(path, most):
            self.feed(batch)
        self.end()

    def feed(self, batch: PacketBatch) -> None:
        self.recorder.packets(batch)
        for page in self.engine.feed(batch):
            self.add(self.run.page(page), page)

    def add(self, findings: list[Finding], page: Sequence[Event] = ()) -> None:
        self.findings += findings
        self.recorder.page([*page], findings)

    def end(self) -> None:
        for page in self.engine.close():
            self.add(self.run.page(page), page)
        last = self.run.close()
        self.findings += last
        self.recorder.close(last)


def saved(folder: Path) -> list[Path]:
    return sorted(folder.iterdir())


def data_of(case: Path) -> dict[str, dict[str, object]]:
    """The lines of finding.json, by what they are."""
    finding, *others = map(json.loads, (case / "finding.json").read_text().splitlines())
    return {"finding": finding, **{key: value for line in others for key, value in line.items()}}


def quick(folder: Path, **changes: object) -> RecorderOptions:
    """Options with a recording of each violation."""
    return RecorderOptions(folder)._replace(**{"held_ns": 3600 * SECOND, **changes})


@pytest.mark.parametrize("path", ADVERSARIAL, ids=lambda path: path.name)
def test_each_recording_gives_its_finding(path: Path, tmp_path: Path) -> None:
    live = Live(quick(tmp_path / "saved"))
    live.play(path)
    violations = {result_of(it): it for it in live.findings if it.verdict == "violation"}
    cases = saved(tmp_path / "saved") if violations else []
    for case in cases:
        data = data_of(case)
        assert data["evidence"]["reproduces"], case.name
        again = {result_of(it) for it in face.check(case / f"{case.name}.pcapng")}
        (same,) = [it for it in violations if it in again and violations[it].packet == data["finding"]["packet"]][:1]
        assert violations[same].code == data["finding"]["code"]
    causes = {
        (it.code, it.cause, it.blame, it.group_id, it.member_id or it.client_id or it.client)
        for it in violations.values()
    }
    assert len(cases) == len(causes)
    assert not any("bug" in note or "cannot" in note for note in live.notes)


@pytest.fixture(scope="module")
def epochs() -> list[Finding]:
    """Findings as the engine gives them; those of `check` have what the rule's row says, too."""
    return [
        Finding(**{it.name: _value(it, getattr(finding, it.name)) for it in fields(Finding)})
        for finding in face.check(CAPTURES / "adv-epochs.pcap")
        if finding.verdict == "violation"
    ]


def _value(field: FieldInfo, shown: object) -> object:
    return UNSET if shown is None and field.default is UNSET else shown


@pytest.fixture(scope="module")
def replay(epochs: list[Finding]) -> Finding:
    return next(finding for finding in epochs if finding.code == "EPOCH_REPLAY")


def only(folder: Path, **changes: object) -> RecorderOptions:
    """Options with recordings of one code."""
    return quick(folder, codes=frozenset(["EPOCH_REPLAY"]), **changes)


def test_a_recording_has_comments_and_says_what_was_held(tmp_path: Path) -> None:
    Live(only(tmp_path / "saved")).play(CAPTURES / "adv-epochs.pcap")
    (case,) = saved(tmp_path / "saved")
    assert case.name == "20261121T033745Z-EPOCH_REPLAY-replay-A"
    assert sorted(it.name for it in case.iterdir()) == [f"{case.name}.pcapng", "finding.json", "finding.txt"]
    text = (case / "finding.txt").read_text()
    assert "In the capture (eth0)" in text
    assert "The recorder held the packets of 2026-11-21 03:37:41.218 to 03:37:48.735 UTC (7.52 s)." in text
    assert "It gives the same finding." in text
    noted = comments(case / f"{case.name}.pcapng")
    assert any(it.startswith("kshark: ") and "EPOCH_REPLAY: violation by client A" in it for it in noted.values())
    assert (case / f"{case.name}.pcapng").stat().st_mode & 0o077 == 0


def test_a_finding_whose_connection_began_too_early_says_so(tmp_path: Path) -> None:
    path = CAPTURES / "adv-epochs.pcap"
    live = Live(only(tmp_path / "saved", held_ns=SECOND // 10, before_ns=1, after_ns=0))
    live.recorder._save_due = lambda now: None  # type: ignore[method-assign]
    live.play(path, most=5)
    (case,) = saved(tmp_path / "saved")
    assert not data_of(case)["evidence"]["reproduces"]
    assert data_of(case)["recorded"]["is_cut"]
    text = (case / "finding.txt").read_text()
    assert "its connections began before the first packet that the\nrecorder held" in text
    assert any("does not give the finding alone (finding.txt says why)" in note for note in live.notes)


def test_a_key_saves_everything_that_is_held(tmp_path: Path) -> None:
    live = Live(only(tmp_path / "saved", after_ns=3600 * SECOND))
    path = CAPTURES / "adv-epochs.pcap"
    live.recorder.start()
    for batch in live_batches(path):
        live.feed(batch)
    live.recorder.save("key w")
    live.recorder.save("key w")
    wait_for(live, 1)
    (case,) = saved(tmp_path / "saved")
    assert case.name == "20261121T033748Z-key_w"
    file = case / f"{case.name}.pcapng"
    assert [(it.time_ns, it.data) for it in read(file.read_bytes())[0]] == [
        (int(row.time_ns[0]), row.buffer[int(row.offset[0]) :][: int(row.length[0])])
        for batch in live_batches(path, 1)
        for row in [batch]
    ]
    found = [json.loads(line) for line in (case / "findings.json").read_text().splitlines()]
    assert [(it["code"], it["packet"]) for it in found] == [(it.code, it.packet) for it in face.check(path)]
    assert "Saved by key w: all packets that the recorder held of eth0" in (case / "recording.txt").read_text()
    live.end()


def wait_for(live: Live, recordings: int) -> None:
    until = time.monotonic() + PATIENCE_S
    while len(live.recorder.saved) < recordings and time.monotonic() < until:
        live.recorder.status(status(-10_000_000))
        time.sleep(0.01)
    assert len(live.recorder.saved) == recordings, live.notes


def test_a_thousand_repeats_make_one_recording_and_the_next_one_counts_them(tmp_path: Path, replay: Finding) -> None:
    live = Live(only(tmp_path / "saved"))
    live.recorder.start()
    for batch in live_batches(CAPTURES / "adv-epochs.pcap"):
        live.recorder.packets(batch)
    begin = replay.time_ns
    for number in range(1_000):
        live.recorder._now_ns = begin + number * SECOND // 10
        live.add([replace(replay, packet=replay.packet + number, time_ns=begin + number * SECOND // 10)])
    wait_for(live, 1)
    live.recorder._now_ns = begin + 400 * SECOND
    live.add([replay])
    live.recorder._now_ns += 6 * SECOND
    wait_for(live, 2)
    first, second = sorted(saved(tmp_path / "saved"), key=lambda case: case.stat().st_mtime_ns)
    count = data_of(first)["evidence"]["findings"]
    assert count >= 50
    assert data_of(second)["recorded"]["missed"] == 1_000 - count
    assert (
        f"{1_000 - count} findings like it since the recording before have no file of their own."
        in (second / "finding.txt").read_text()
    )
    assert second.name == first.name + "-2"
    live.recorder.close([])
    assert (
        live.notes[-1]
        == f"saved 2 recordings to {tmp_path}/saved; 999 repeats of their findings have no recording of their own"
    )


def test_causes_members_and_times_have_recordings_of_their_own(tmp_path: Path, replay: Finding) -> None:
    due = DueRecordings(only(tmp_path))
    others = [replace(replay, cause="other"), replace(replay, member_id="m2"), replace(replay, group_id="g2")]
    for finding in [replay, *others, replay]:
        due.add(finding, BEGIN)
    assert due.take(BEGIN + 5 * SECOND - 1) == []
    assert [it.count for it in due.take(BEGIN + 5 * SECOND)] == [2, 1, 1, 1]
    due.add(replay, BEGIN + 300 * SECOND - 1)
    assert not len(due)
    due.add(replay, BEGIN + 300 * SECOND)
    assert [it.missed for it in due.take(BEGIN + 400 * SECOND)] == [1]


def test_only_violations_are_saved_unless_codes_are_named(tmp_path: Path, replay: Finding) -> None:
    due = DueRecordings(RecorderOptions(tmp_path))
    due.add(replace(replay, verdict="unknown"), BEGIN)
    assert not len(due)
    due = DueRecordings(only(tmp_path))
    due.add(replace(replay, verdict="unknown"), BEGIN)
    due.add(replace(replay, code="EPOCH_STALE"), BEGIN)
    assert len(due) == 1


def test_what_is_due_at_once_is_bounded(tmp_path: Path, replay: Finding) -> None:
    due = DueRecordings(only(tmp_path))
    for number in range(100):
        due.add(replace(replay, member_id=str(number)), BEGIN)
    assert len(due) == 32
    assert due.left_out == 68


def test_the_oldest_recordings_are_removed(tmp_path: Path) -> None:
    folder = tmp_path / "saved"
    (folder / "20260101T000000Z-notes-of-mine").mkdir(parents=True)
    (folder / "20260101T000000Z-notes-of-mine" / "mine.txt").write_text("stays")
    (folder / ".20260101T000000Z-EPOCH_REPLAY-A.unfinished").mkdir()
    live = Live(quick(folder, keep=3))
    live.play(CAPTURES / "adv-epochs.pcap")
    names = [path.name for path in saved(folder)]
    assert len(names) == 4
    assert "20260101T000000Z-notes-of-mine" in names
    assert len(live.recorder.saved) == 17


def test_packets_of_the_last_seconds_are_held(tmp_path: Path) -> None:
    segments = Segments(tmp_path, Interfaces(["eth0"], 100), 60 * SECOND, 10**9)
    for second in range(300):
        segments.add(packets(second, first=1 + second))
    segments.end()
    held = segments.held
    assert held is not None
    numbers = [row.data[0] for path in held.paths for row in read(path.read_bytes())[0]]
    assert numbers == [number & 0xFF for number in range(held.first, 301)]
    assert 235 <= held.first <= 240
    assert held.since_ns == BEGIN + (held.first - 1) * SECOND
    assert held.until_ns == BEGIN + 299 * SECOND


def test_never_more_bytes_are_held(tmp_path: Path) -> None:
    segments = Segments(tmp_path, Interfaces(["eth0"], 1500), 3600 * SECOND, 16_000_000)
    for second in range(100):
        segments.add(packets(*[second] * 500, length=1400, first=1 + 500 * second))
        assert sum(path.stat().st_size for path in tmp_path.iterdir()) <= 16_000_000
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) > 14_000_000


def test_lost_packets_are_marked_in_what_is_held(tmp_path: Path) -> None:
    segments = Segments(tmp_path, Interfaces(["eth0"], 100), 60 * SECOND, 10**9)
    segments.lost(3)
    segments.add(packets(0, 1))
    segments.lost(5)
    segments.add(packets(2, first=3))
    segments.end()
    assert segments.held is not None
    assert [read(path.read_bytes())[1] for path in segments.held.paths] == [[("PACKETS_DROPPED", 2, 0)]]


def test_hostile_names_do_not_reach_the_folder(tmp_path: Path, replay: Finding) -> None:
    live = Live(only(tmp_path / "saved", after_ns=0))
    live.recorder.start()
    for batch in live_batches(CAPTURES / "adv-epochs.pcap"):
        live.recorder.packets(batch)
    live.add([replace(replay, client_id="../../\x1b[2J\u202e/etc", cause="../x")])
    live.recorder.close([])
    (case,) = saved(tmp_path / "saved")
    assert case.name == "20261121T033745Z-EPOCH_REPLAY-_x-_2J_etc" or case.name.isascii()
    assert "/" not in case.name
    assert "\x1b" not in (case / "finding.txt").read_text() + "".join(live.notes)


def test_a_full_disk_stops_the_recorder_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    live = Live(only(tmp_path / "saved"))
    live.recorder.start()

    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("kshark.live.files.output.os.write", full)
        for batch in live_batches(CAPTURES / "adv-epochs.pcap"):
            live.feed(batch)
    live.end()
    assert [note for note in live.notes if "stops" in note] == [
        f"the flight recorder stops: No space left on device in {tempfile.gettempdir()}; packets are judged as before"
    ]
    assert len(live.findings) == len([*face.check(CAPTURES / "adv-epochs.pcap")])


def test_a_recording_that_cannot_be_written_is_said(tmp_path: Path, replay: Finding) -> None:
    live = Live(only(tmp_path / "saved", after_ns=0))
    live.recorder.start()
    for batch in live_batches(CAPTURES / "adv-epochs.pcap"):
        live.recorder.packets(batch)
    (tmp_path / "saved").rmdir()
    (tmp_path / "saved").write_text("a file now")
    live.add([replay])
    live.recorder.close([])
    assert live.notes[0].startswith("a recording cannot be saved: ")
    assert "saved" in live.notes[0]


def test_a_killed_capture_leaves_nothing(tmp_path: Path, private: Path) -> None:
    pid = os.fork()
    if not pid:
        try:
            live = Live(only(tmp_path / "saved"))
            live.recorder.start()
            for batch in live_batches(CAPTURES / "adv-epochs.pcap"):
                live.feed(batch)
            os.kill(os.getpid(), 9)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -9


def test_folders_that_others_left_are_removed_and_those_in_use_are_not(private: Path) -> None:
    left, used = PrivateFolder(), PrivateFolder()
    assert left.path.stat().st_mode & 0o777 == 0o700
    os.close(left.lock)
    third = PrivateFolder()
    assert not left.path.exists()
    assert used.path.exists()
    used.remove()
    third.remove()


@pytest.mark.parametrize(
    ("record", "on_violation", "said"),
    [
        ("60s", None, "--record needs a folder for what it saves; add --on-violation save=DIR"),
        (None, "before=3s", "no folder for what is saved; name one with save=DIR"),
        (None, "save=d,befor=3s", '"befor=3s" is not understood'),
        (None, "save=d,before=x", '--on-violation before: "x" is not a duration; write before=30s'),
        (None, "save=d,keep=0", 'keep: "0" is not a number from 1'),
        (None, "save=d,codes=EPOCH", 'no finding has the code "EPOCH"; kshark explain lists them'),
        (None, "save=s3://d", "is not a folder of this machine"),
        ("60s,1XB", "save=d", '"1XB" is neither seconds nor bytes; write --record 60s,1GB'),
        ("1kB", "save=d", "1.00 kB hold too little; write at least 16MB"),
        ("20s", "save=d", "before=30.0 s and after=5.00 s are more than the 20.0 s that --record holds; hold more"),
    ],
)
def test_wrong_options_are_answered(record: str | None, on_violation: str | None, said: str) -> None:
    with pytest.raises(UsageError) as error:
        recorder_options(record, on_violation)
    assert said in str(error.value)


def test_options_are_read(tmp_path: Path) -> None:
    assert recorder_options(None, None) is None
    assert recorder_options(None, f"save={tmp_path}") == RecorderOptions(tmp_path)
    text = f"save={tmp_path},before=1m,after=0s,per=1h,keep=7,codes=EPOCH_STALE+EPOCH_REPLAY"
    assert recorder_options("2GB,10m", text) == RecorderOptions(
        tmp_path, 600 * SECOND, 2 * 10**9, 60 * SECOND, 0, 3600 * SECOND, 7, frozenset(["EPOCH_STALE", "EPOCH_REPLAY"])
    )


def test_recordings_that_take_longer_than_the_end_are_completed(
    tmp_path: Path, private: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    live = Live(only(tmp_path / "saved", after_ns=3600 * SECOND))
    live.recorder._last_seconds = 0.0
    live.play(CAPTURES / "adv-epochs.pcap")
    until = time.monotonic() + PATIENCE_S
    while [*private.iterdir()] and time.monotonic() < until:
        time.sleep(0.01)
    assert live.notes[0] == f"1 recording not written yet; another process goes on to write to {tmp_path}/saved"
    (case,) = saved(tmp_path / "saved")
    assert data_of(case)["evidence"]["reproduces"]


def test_connections_that_ended_are_forgotten() -> None:
    held, every = Connections(held_ns=SECOND // 2), Connections()
    engine = Engine(JUDGED, Registry())
    for batch in live_batches(CAPTURES / "adv-frames.pcap"):
        for page in engine.feed(batch):
            held.page(page)
            every.page(page)
    ended = {flow.id for flow in every.flows} - {flow.id for flow in held.flows}
    assert ended
    assert not ended & {number for numbers in held._of.values() for number in numbers}
