"""What `kshark live` writes on a real interface, as another user: captures, tables, recordings."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kshark.output.manifest import read_manifest
from tests.live.wire import SECONDS, Wire, found, needs_wire
from tests.patience import PATIENCE_S
from tests.shared import CAPTURES

pytestmark = [pytest.mark.live, needs_wire]
EPOCHS = CAPTURES / "adv-epochs.pcap"


@pytest.fixture
def wire() -> Iterator[Wire]:
    with Wire("ksfiles") as made:
        yield made


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder in which every user may make files."""
    with tempfile.TemporaryDirectory(prefix="ksfiles-") as name:
        Path(name).chmod(0o777)
        yield Path(name)


def checked(*paths: Path) -> list[dict[str, object]]:
    command = [sys.executable, "-m", "kshark", "check", "-T", "json", *map(str, paths)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return [line for line in map(json.loads, done.stdout.splitlines()) if "verdict" in line]


def packets(*paths: Path) -> int:
    names = map(str, sorted(paths))
    done = subprocess.run(["capinfos", "-Mc", "-T", "-r", *names], capture_output=True, text=True, check=True)
    return sum(int(line.split("\t")[1]) for line in done.stdout.splitlines())


def test_the_file_gives_the_findings_that_were_printed(wire: Wire, folder: Path) -> None:
    dump = wire.tcpdump(folder / "dump.pcap")
    with wire.live("-q", "-T", "json", "-w", str(folder / "t.pcapng")) as live:
        arrived = wire.send(EPOCHS, "--pps", "500")
        live.wait_for(lambda: any("FINAL_WITH_PAYLOAD" in line for line in live.lines), "nothing was found")
        said = live.end()
    time.sleep(2)  # tcpdump writes what its buffer holds
    dump.terminate()
    dump.communicate()
    assert packets(folder / "t.pcapng") == arrived
    assert found(said.findings) == found(checked(folder / "t.pcapng")) == found(checked(folder / "dump.pcap"))
    assert f"wrote {arrived:,} packets" in said.err
    assert (folder / "t.pcapng").owner() == "nobody"


def test_no_packet_is_missing_in_rotated_files_at_full_rate(wire: Wire, folder: Path) -> None:
    with wire.live("-q", "-T", "json", "-w", str(folder / "t.pcapng"), "-b", "filesize:20000") as live:
        arrived = wire.send(
            EPOCHS, "--pps", "100000", "--loop", "0", "--unique-ip", "--duration", str(SECONDS), "--preload-pcap"
        )
        said = live.end()
    files = [*folder.iterdir()]
    assert len(files) > 2
    assert packets(*files) == arrived, said.err


def test_it_ends_by_itself_with_its_verdict(wire: Wire, folder: Path) -> None:
    with wire.live("-q", "-T", "json", "-w", str(folder / "t.pcapng"), "-a", "packets:300") as live:
        wire.send(EPOCHS, "--pps", "500")
        said = live.said(0)
    assert said.code == 1
    assert packets(folder / "t.pcapng") == 300
    assert found(said.findings) == found(checked(folder / "t.pcapng"))


def test_packets_go_to_standard_output_and_findings_to_standard_error(wire: Wire, folder: Path) -> None:
    command = ("ip", "netns", "exec", wire.receiver, sys.executable, "-m", "kshark", "live", "-i", wire.receives)
    with (
        (folder / "t.pcapng").open("wb") as output,
        subprocess.Popen([*command, "-w", "-", "-a", "packets:300"], stdout=output, stderr=subprocess.PIPE) as live,
    ):
        assert live.stderr is not None
        lines = [live.stderr.readline()]
        while b"capturing on" not in lines[-1]:
            lines.append(live.stderr.readline())
        wire.send(EPOCHS, "--pps", "500")
        said = live.stderr.read().decode()
    assert packets(folder / "t.pcapng") == 300
    assert "EPOCH_SKIP_AHEAD" in said
    assert "VIOLATION" in said.upper()


def test_recordings_and_tables_are_written_by_another_user(wire: Wire, folder: Path) -> None:
    options = ("--on-violation", f"save={folder / 'saved'},after=1s", "--export", str(folder / "tables"))
    with wire.live("-q", "-T", "json", *options, env={"TMPDIR": str(folder)}) as live:
        wire.send(EPOCHS, "--pps", "500")
        live.wait_for(lambda: any("FINAL_WITH_PAYLOAD" in line for line in live.errors), "nothing was saved")
        live.process.send_signal(signal.SIGUSR1)
        live.wait_for(lambda: any("SIGUSR1" in line for line in live.errors), "the signal saved nothing")
        said = live.end()
    until = time.monotonic() + PATIENCE_S
    while [*folder.glob("kshark-recorder-*")] and time.monotonic() < until:
        time.sleep(0.1)
    saved = sorted((folder / "saved").iterdir())
    assert len(saved) == 18
    assert {path.owner() for path in saved} == {"nobody"}
    for case in saved:
        if case.name.endswith("SIGUSR1"):
            assert found(checked(case / f"{case.name}.pcapng"))
        else:
            finding = json.loads((case / "finding.json").read_text().splitlines()[0])
            assert found([finding])[0] in found(checked(case / f"{case.name}.pcapng"))
    tables = read_manifest(folder / "tables").tables
    assert tables["exchanges"].rows > 100
    assert tables["findings"].rows == len(said.findings)
    assert not [*folder.glob("kshark-recorder-*")]


def test_a_full_disk_stops_only_the_file(wire: Wire, folder: Path) -> None:
    disk = folder / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k,mode=777", "none", str(disk)], check=True)
    try:
        with wire.live("-q", "-T", "json", "-w", str(disk / "t.pcapng")) as live:
            wire.send(EPOCHS, "--pps", "500")
            live.wait_for(lambda: any("no space left" in line for line in live.errors), "it was not said")
            live.wait_for(lambda: any("FINAL_WITH_PAYLOAD" in line for line in live.lines), "nothing was found")
            said = live.end()
        assert said.err.lower().count("no space left on device") == 1
        assert said.code == 1
        assert 200 < packets(disk / "t.pcapng") < 400
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def test_a_folder_of_root_is_refused_before_packets_are_read(wire: Wire, tmp_path: Path) -> None:
    command = ("ip", "netns", "exec", wire.receiver, sys.executable, "-m", "kshark", "live", "-i", wire.receives)
    target = str(tmp_path / "t.pcapng")
    done = subprocess.run(
        [*command, "-w", target, "-b", "packets:1"], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 2
    assert "cannot make files in" in done.stderr
    assert "-Z USER" in done.stderr
