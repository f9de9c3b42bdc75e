"""Files of an S3 server are read as this machine's are; what a store refuses is told in one sentence."""

from __future__ import annotations

import gzip
import os
import random
import socket
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

from kshark.capture import open_captures
from kshark.capture.captures import expand
from kshark.capture.files import below, open_file, size_of
from kshark.capture.paths import inside, named, parted
from kshark.cli import main
from kshark.errors import UnreadableInput, UsageError
from kshark.model import PacketBatch, Weird
from kshark.tables.captures import capture_names
from tests.capture.files import Row, rows
from tests.patience import PATIENCE_S
from tests.shared import CAPTURES
from tests.store import Bucket, bucket

__all__ = ["bucket"]

ADV = CAPTURES / "adv-epochs.pcap"
NAMES = ("adv-epochs.pcap", "share-loss.pcap", "two-interfaces.pcapng")


# -- paths


@pytest.mark.parametrize(
    ("path", "opened"),
    [
        ("a b.pcap", "a b.pcap"),
        ("file:///x/a%20b.pcap", "/x/a b.pcap"),
        ("file://localhost/x", "/x"),
        ("s3a://bucket/a%20b.pcap?region=x", "s3a://bucket/a%20b.pcap?region=x"),
        (Path("x"), Path("x")),
    ],
)
def test_a_path_by_which_a_file_is_opened(path: str | Path, opened: str | Path) -> None:
    assert named(path) == opened


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("http://host/a.pcap", "http://host/a.pcap cannot be opened; give a local path, or one that begins with s3://"),
        ("file://host/a.pcap", "cannot be opened; give a local path"),
        (
            "s3://key:secret@bucket/a.pcap",
            "^a password in a path would end in tables and reports; set it in the environment",
        ),
    ],
)
def test_a_path_that_is_refused(path: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        expand([path])


def test_settings_stand_behind_a_path_and_in_no_name() -> None:
    path = "s3://bucket/x/a.pcap?endpoint_override=http://host:9000&region=x"
    assert parted(path) == ("s3://bucket/x/a.pcap", "endpoint_override=http://host:9000&region=x")
    assert parted("s3://bucket/what?.pcap") == ("s3://bucket/what?.pcap", "")
    assert parted("local?a=b") == ("local?a=b", "")
    assert inside("s3://bucket/x/?region=x", "exchanges") == "s3://bucket/x/exchanges?region=x"
    assert capture_names([[path], ["s3://bucket/y/b.pcap"]]) == ["a.pcap", "b.pcap"]


Read = tuple[list[Row], list[Weird]]


# -- reading


def read(items: Iterable[PacketBatch | Weird]) -> Read:
    all_items = list(items)
    return list(rows(all_items)), [item for item in all_items if isinstance(item, Weird)]


@pytest.mark.sweep
@pytest.mark.parametrize("name", NAMES)
def test_a_capture_is_the_local_file(bucket: Bucket, name: str) -> None:
    path = bucket.put_file(CAPTURES / name)
    assert read(open_captures([path])) == read(open_captures([CAPTURES / name]))


def test_compressed(bucket: Bucket) -> None:
    path = bucket.put("a.pcap.gz", gzip.compress(ADV.read_bytes()))
    assert read(open_captures([path])) == read(open_captures([ADV]))


@pytest.mark.sweep
@pytest.mark.parametrize("jobs", ["1", "2"])
def test_a_folder_is_checked_as_a_local_one(
    bucket: Bucket, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, jobs: str
) -> None:
    """By the environment; in one process and in two, the second of which reads what the first had looked into."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", bucket.endpoint)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "id")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    for name in NAMES:
        bucket.put_file(CAPTURES / name, "folder/deep")
        (tmp_path / name).write_bytes((CAPTURES / name).read_bytes())
    bucket.put("folder/README.md", b"what these are")
    for words in (["--each"], ["-T", "json"]):
        expected = main(["check", str(tmp_path), "--jobs", jobs, *words]), capsys.readouterr()
        found = main(["check", "s3a://bucket/folder/", "--jobs", jobs, *words]), capsys.readouterr()
        assert found[0] == expected[0] == 1
        assert found[1].out.replace("s3a://bucket/folder/deep", str(tmp_path)) == expected[1].out
        assert found[1].err.replace("s3a://bucket/folder/deep", str(tmp_path)) == expected[1].err


def test_keys_are_taken_as_they_are(bucket: Bucket) -> None:
    keys = ["keys/a b.pcap", "keys/date=2026-11-21/x?.pcap", "keys/h#.pcap", "keys/x%20y.pcap"]
    paths = [bucket.put(key, key.encode()) for key in keys]
    assert below(bucket.path("keys")) == paths
    assert [open_file(path).read(100).decode() for path in paths] == keys
    assert [size_of(path) for path in paths] == [*map(len, keys)]


def test_any_place_of_a_file(bucket: Bucket) -> None:
    """Reading on, and jumping in both directions, also behind the end."""
    dice = random.Random(1)
    data = dice.randbytes(3 << 20)
    path, local = bucket.put("random", data), 0
    with open_file(path) as file:
        for _ in range(200):
            if dice.random() < 0.2:
                local = dice.randrange(len(data) + 100_000)
                assert file.seek(local) == local
            size = dice.choice((1, 1000, 70_000, 400_000))
            assert file.read(size) == data[local : local + size]
            local = min(local + size, max(local, len(data)))
            assert file.tell() == local
        assert file.seek(-5, os.SEEK_END) == len(data) - 5
        assert file.readall() == data[-5:]


# -- what cannot be read


def test_what_is_not_there(bucket: Bucket, capsys: pytest.CaptureFixture[str]) -> None:
    elsewhere = f"s3://nowhere/a.pcap{bucket.settings}"
    wrong = f"s3://bucket/a.pcap{bucket.settings}&regio=x"
    for path, said in [
        (bucket.path("gone.pcap"), "no such file"),
        (elsewhere, "there is no such bucket"),
        (wrong, "no setting regio of S3; there are endpoint_override, region, scheme, anonymous"),
        (bucket.put("notes.txt", b"text"), "no capture (pcap or pcapng), but text"),
    ]:
        assert main(["check", path]) == 2
        assert capsys.readouterr() == ("", f"kshark: {path}: {said}\n")


def test_a_file_that_goes_away_while_it_is_read(bucket: Bucket) -> None:
    path = bucket.put("goes.pcap", ADV.read_bytes() + bytes(5 << 20))
    captures = open_captures([path])
    bucket.store.delete_file("bucket/goes.pcap")
    with pytest.raises(UnreadableInput) as told:
        read(captures)
    assert str(told.value).startswith(f"{path}: ")
    assert str(told.value).count("s3://") == 1


@pytest.mark.parametrize("silent", [False, pytest.param(True, marks=pytest.mark.sweep)])  # for seconds
def test_a_store_that_does_not_answer_is_not_waited_for(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, silent: bool
) -> None:
    """Nobody listens at the port, or somebody does and says nothing."""
    pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    from kshark.capture import stores

    assert stores._CONNECT_S * stores._ATTEMPTS < 10
    monkeypatch.setattr(stores, "_CONNECT_S", 0.5)
    monkeypatch.setattr(stores, "_ATTEMPTS", 2)
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        if silent:
            listening.listen(50)
        path = f"s3://bucket/a.pcap?endpoint_override=http://127.0.0.1:{listening.getsockname()[1]}&anonymous=true"
        assert main(["check", path]) == 2
    said = f"kshark: {path}: the store does not answer; is its address right (AWS_ENDPOINT_URL, region)?\n"
    assert capsys.readouterr().err == said


@pytest.mark.parametrize(
    ("library", "said"),
    [
        (
            "When reading key 'k' in bucket 'b': AWS Error ACCESS_DENIED during HeadObject operation: No response "
            "body.",
            "does not allow it",
        ),
        (
            "AWS Error INVALID_ACCESS_KEY_ID during ListObjectsV2 operation: The AWS Access Key Id",
            "does not know these credentials",
        ),
        ("something else\nand more of it", "^s3://b/k: something else$"),
    ],
)
def test_what_a_store_says_is_one_sentence(library: str, said: str) -> None:
    pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    from kshark.capture.stores import plain_errors

    with pytest.raises(UnreadableInput, match=said), plain_errors("s3://b/k"):
        raise OSError(library)


@pytest.mark.parametrize(
    ("path", "code", "said"),
    [
        (
            "s3://bucket/a.pcap",
            2,
            "kshark: s3:// and the like are read by pyarrow, which is not installed; pip install 'kshark[parquet]'\n",
        ),
        (str(ADV), 1, ""),
    ],
)
def test_pyarrow_is_asked_for_where_it_is_needed(path: str, code: int, said: str) -> None:
    command = (
        f"import sys; sys.modules['pyarrow'] = None; import kshark.cli; sys.exit(kshark.cli.main(['check', {path!r}]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", command], capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert (done.returncode, done.stderr) == (code, said)
