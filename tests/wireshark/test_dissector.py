"""tshark with the dissector of `kshark wireshark` shows every message as `kshark read -T json` does, field by field."""

from __future__ import annotations

import re
import shutil
import struct
import subprocess
import sys
from base64 import b64decode
from functools import cache
from pathlib import Path
from random import Random

import pytest

from benchmarks.wire import Connection, Wire
from kshark.bodies import encode
from kshark.registry import Registry, kafka_registry
from kshark.wireshark import lua_script
from tests.cli.command import Run, runner
from tests.patience import PATIENCE_S
from tests.shared import CAPTURES, ROOT, is_capture, pythonpath, shared
from tests.wireshark.compared import compare, figures, messages_of, write_script
from tests.wireshark.every import write_every

pytestmark = [
    pytest.mark.tshark,
    pytest.mark.skipif(shutil.which("tshark") is None, reason="tshark is not installed"),
]
NAMES = sorted(path.name for path in CAPTURES.glob("*.pcap*") if is_capture(path))
#: The captures of the quick tests; the others are slow.
QUICK = ("adv-frames.pcap", "nano-sll2.pcap")
#: Messages that only kshark shows: frames too short for a header, and answers that began before the capture did.
UNSHOWN = {"adv-frames.pcap": 2, "produce-mix.pcap": 2, "tcp-hostile.pcap": 18, "tcp-var-mid.pcap": 1}


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_script(tmp_path_factory.mktemp("wireshark"))


@pytest.fixture
def kshark(capsys: pytest.CaptureFixture[str]) -> Run:
    return runner(capsys)


def tshark(script: Path, capture: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = ["tshark", "-X", f"lua_script:{script}", "-r", str(capture), *options]
    return subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=PATIENCE_S, check=False)


@cache
def ports_of(capture: Path) -> str:
    return ",".join(sorted({message["broker"].rpartition(":")[2] for message in messages_of(capture)}))


@pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in NAMES]
)
def test_every_message_of_a_capture_has_the_same_fields(script: Path, name: str) -> None:
    result = compare(CAPTURES / name, script)
    print(f"{name}: {figures(result)}")
    assert (result.errors, result.different, result.only_tshark) == ([], [], [])
    assert len(result.only_kshark) == UNSHOWN.get(name, 0), result.only_kshark
    assert result.messages > 0


def test_every_api_in_every_version_has_the_same_fields(script: Path, tmp_path: Path) -> None:
    capture = tmp_path / "every.pcap"
    written = write_every(capture, kafka_registry())
    result = compare(capture, script)
    print(figures(result))
    assert (result.errors, result.different, result.only_kshark, result.only_tshark) == ([], [], [], [])
    assert result.messages == len(result.kinds) == written


def test_kafka_is_recognised_without_its_ports(script: Path) -> None:
    result = compare(CAPTURES / "adv-epochs.pcap", script, by_port=False)
    assert (result.errors, result.different, result.only_kshark, result.only_tshark) == ([], [], [], [])


def test_two_passes_show_the_same_as_one(script: Path) -> None:
    """The second pass has what the first one kept; Wireshark dissects packets again in any order."""
    result = compare(CAPTURES / "nano-sll2.pcap", script, "-2")
    assert (result.errors, result.different, result.only_kshark, result.only_tshark) == ([], [], [], [])


def test_a_request_names_the_packet_of_its_response(script: Path) -> None:
    capture = CAPTURES / "adv-epochs.pcap"
    fields = ("-T", "fields", "-e", "frame.number", "-e", "kshark.response_in")
    done = tshark(script, capture, "-2", "-Y", "kshark.response_in", *fields)
    answers = {m["request_packet"]: m["packet"] for m in messages_of(capture) if m.get("request_packet")}
    shown = dict(map(int, line.split("\t")) for line in done.stdout.splitlines() if "," not in line)
    assert shown.items() <= answers.items()
    assert len(shown) > 100


def test_tls_is_decrypted_by_wireshark_and_decoded_here(script: Path) -> None:
    result = compare(shared("captures", "kafka-4", "security-tls.pcapng"), script)
    assert (result.messages, result.different, result.only_kshark, result.only_tshark) == (173, [], [], [])


def test_a_filter_by_name_passes_the_same_messages(script: Path, kshark: Run) -> None:
    capture = CAPTURES / "adv-epochs.pcap"
    wanted = "error_code == INVALID_SHARE_SESSION_EPOCH"
    done = tshark(script, capture, "-Y", f"kshark.{wanted}", "-T", "fields", "-e", "frame.number")
    mine = kshark("read", str(capture), "-T", "fields", "-e", "frame.number", "-Y", f"kafka.{wanted}")
    assert done.stdout.split() == mine.out.split()
    assert mine.lines


def test_the_info_column_says_what_a_message_is(script: Path) -> None:
    done = tshark(script, CAPTURES / "adv-epochs.pcap", "-Y", "kshark.correlation_id == 19 && kshark.api_key == 78")
    request, response = (line.partition(" Kafka ")[2].partition(" ")[2] for line in done.stdout.splitlines()[-2:])
    assert request.startswith("ShareFetch v2 request #19 group=g member=6L2wg8gJQne7ftm-XDlUYw epoch=")
    assert response == "ShareFetch v2 response #19 INVALID_SHARE_SESSION_EPOCH"


def test_credentials_are_masked(script: Path) -> None:
    capture = CAPTURES / "security-sasl.pcap"
    fields = ("-T", "fields", "-e", "kshark.auth_bytes", "-e", "kshark.masked", "-e", "kshark.token")
    options = ("-o", f"kshark.ports:{ports_of(capture)}", "-c", "400", *fields)
    tokens = {
        b64decode(message["body"]["auth_bytes"]).hex()
        for message in messages_of(capture)
        if message.get("api") == "SaslAuthenticate" and (message.get("body") or {}).get("auth_bytes")
    }
    hidden = tshark(script, capture, *options)
    shown = tshark(script, capture, *options, "-o", "kshark.credentials:TRUE")
    seen = {token for token in tokens if token in shown.stdout}
    assert len(seen) > 5
    assert "auth_bytes" in hidden.stdout
    assert not any(token in hidden.stdout for token in seen)


def test_an_unknown_version_has_its_header_only(script: Path) -> None:
    capture = CAPTURES / "tcp-hostile.pcap"
    done = tshark(script, capture, "-o", f"kshark.ports:{ports_of(capture)}", "-Y", "kshark.unknown_version", "-V")
    assert "version 99 of Produce is unknown to kshark" in done.stdout
    assert "body, not decoded:" in done.stdout
    assert "transactional_id" not in done.stdout


def test_the_documentation_shows_what_tshark_prints(script: Path) -> None:
    text = (ROOT / "docs" / "wireshark.md").read_text()
    (shown,) = re.findall(
        r"\n\$ tshark -X lua_script:\S+ -r captures/adv-epochs.pcap -Y '([^']*)'\n(.+?)\n\.\.\.\n", text, re.S
    )
    done = tshark(script, CAPTURES / "adv-epochs.pcap", "-Y", shown[0])
    lines = shown[1].split("\n")
    assert done.stdout.split("\n")[: len(lines)] == lines


# -- bad input


def damaged(data: bytes, random: Random) -> bytes:
    """Change up to four bytes of the content of many packets. The links, addresses and ports stay."""
    out, at = bytearray(data), 24
    while at + 16 <= len(out):
        (size,) = struct.unpack_from("<I", out, at + 8)
        if size > 66 and random.random() < 0.4:
            for _ in range(random.randint(1, 4)):
                place = random.randrange(at + 16 + 66, at + 16 + size)
                out[place] = random.choice((random.randrange(256), 0, 127, 128, 255))
        at += 16 + size
    return bytes(out)


def cut(data: bytes, most: int) -> bytes:
    """Keep `most` bytes of each packet, as tcpdump -s does."""
    out, at = [data[:24]], 24
    while at + 16 <= len(data):
        seconds, fraction, size, whole = struct.unpack_from("<IIII", data, at)
        kept = min(size, most)
        out += [struct.pack("<IIII", seconds, fraction, kept, whole), data[at + 16 : at + 16 + kept]]
        at += 16 + size
    return b"".join(out)


HURT = ("adv-frames", "security-sasl", "zk-old-clients", "streams-groups", "tcp-hostile", "share-java-renew")


@pytest.mark.parametrize(
    ("name", "seed", "most"),
    [
        case if case[1] == 0 and case[0] in HURT[:1] else pytest.param(*case, marks=pytest.mark.slow)
        for name in HURT
        for case in ((name, 0, 0), (name, 1, 90), (name, 2, 160), (name, 3, 300), (name, 4, 0))
    ],
)
def test_damaged_and_cut_packets_are_no_error_of_lua(
    script: Path, tmp_path: Path, name: str, seed: int, most: int
) -> None:
    capture = CAPTURES / f"{name}.pcap"
    data = damaged(capture.read_bytes(), Random(seed))
    broken = tmp_path / "damaged.pcap"
    broken.write_bytes(cut(data, most) if most else data)
    for passes in ((), ("-2",)):
        done = tshark(script, broken, *passes, "-o", f"kshark.ports:{ports_of(capture)}", "-V")
        assert done.returncode == 0
        assert "Lua" not in done.stderr
        assert "Lua Error" not in done.stdout
        assert "Malformed Packet: kshark" not in done.stdout
        assert "KSHARK truncated" not in done.stdout
        assert len(re.findall(r"^Kafka ", done.stdout, re.MULTILINE)) > 50


@pytest.mark.slow
def test_a_message_with_more_items_than_wireshark_allows_is_shown_in_part(script: Path, tmp_path: Path) -> None:
    """Wireshark gives up a packet after a million items, and what comes after it in the same packet."""
    many = {"group_id": "g", "forgotten_topics_data": [{"topic_id": "A" * 22, "partitions": [*range(1_100_000)]}]}
    capture = tmp_path / "many.pcap"
    with capture.open("wb") as file:
        wire = Wire(file)
        connection = Connection(wire, "10.0.0.1:20000", "10.0.0.9:9092")
        connection.open()
        for number, body in enumerate((many, {"group_id": "h"})):
            message = struct.pack(">hhih", 78, 1, number, 1) + b"c\0" + encode(78, 1, "request", body)
            connection.send(0, struct.pack(">i", len(message)) + message)
        wire.flush()
    done = tshark(script, capture, "-Y", "kshark", "-T", "fields", "-e", "kshark.group_id", "-e", "kshark.cut")
    assert [line.split("\t")[0] for line in done.stdout.splitlines()] == ["g", "h"]
    assert "Lua" not in done.stderr


def test_an_error_of_lua_would_be_seen(script: Path, tmp_path: Path) -> None:
    """The tests above can fail."""
    broken = tmp_path / "broken.lua"
    text = script.read_text("utf-8")
    assert "local function show_content(" in text
    broken.write_text(
        text.replace("  if row.token then return", "  error('boom')\n  if row.token then return"), "utf-8"
    )
    done = tshark(
        broken, CAPTURES / "share-loss.pcap", "-V", "-o", f"kshark.ports:{ports_of(CAPTURES / 'share-loss.pcap')}"
    )
    assert "Lua Error" in done.stdout


# -- the script


def test_the_script_is_the_same_every_time() -> None:
    code = "import sys; from kshark.cli import main; sys.exit(main(['wireshark']))"
    texts = {
        subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            check=True,
            timeout=PATIENCE_S,
            env={"PYTHONPATH": pythonpath(), "PYTHONHASHSEED": seed, "PATH": ""},
            cwd=ROOT,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(texts) == 1
    assert texts.pop().isascii()


def test_the_script_says_what_it_is_and_how_to_install_it(kshark: Run) -> None:
    done = kshark("wireshark")
    head = done.out[:2000]
    for word in ("Generated by kshark", "SPDX-License-Identifier: Apache-2.0", "personal Lua", "Wireshark 4.0"):
        assert word in head
    assert (done.code, done.err) == (0, "")
    assert len(done.out) < 200_000  # loads in a moment


def test_the_script_goes_to_a_file(kshark: Run, tmp_path: Path) -> None:
    done = kshark("wireshark", "-o", str(tmp_path / "kafka_share.lua"))
    assert (done.code, done.out) == (0, "")
    assert (tmp_path / "kafka_share.lua").read_text("utf-8") == kshark("wireshark").out


def test_a_folder_that_is_not_there_is_one_sentence(kshark: Run, tmp_path: Path) -> None:
    done = kshark("wireshark", "-o", str(tmp_path / "none" / "x.lua"))
    assert done.code == 2
    assert done.err.count("\n") == 1
    assert "name a file in a folder that exists" in done.err


def test_an_api_of_your_own_is_decoded(tmp_path: Path) -> None:
    own = tmp_path / "pause_group.py"
    own.write_text(
        "from kshark.schema import api, boolean, int64, string, struct\n"
        "DISSECTOR = api(1234, 'PauseGroup', versions='0-1', flexible='0+',\n"
        "    request=struct(string('group_id'), int64('duration_ms', versions='1+')),\n"
        "    response=struct(boolean('was_paused', versions='1+', tag=0)))\n"
    )
    registry = Registry([own], installed=False)
    script = tmp_path / "own.lua"
    script.write_text("".join(f"{line}\n" for line in lua_script(registry)), "utf-8")
    capture = tmp_path / "every.pcap"
    write_every(capture, registry)
    done = tshark(script, capture, "-Y", 'kshark.api == "PauseGroup"', "-T", "fields", "-e", "kshark.api_version")
    assert done.stdout.split() == ["0", "0", "1", "1"]
