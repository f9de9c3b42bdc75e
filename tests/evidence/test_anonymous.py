"""`--anonymize`: evidence with pseudonyms, and without the payload of records, that gives the same finding."""

from __future__ import annotations

import json
import re
from pathlib import Path
from random import Random

import pytest

import kshark as face
from kshark.anonymous import Pseudonyms
from kshark.anonymous.capture import anonymise
from kshark.anonymous.fields import KEPT
from kshark.anonymous.records import without_payload
from kshark.anonymous.streams import Stream
from kshark.pipeline import JUDGED
from kshark.records.batch import Record
from kshark.records.reader import RecordsReader
from kshark.records.writer import COMPRESS, write_batch, write_message
from kshark.registry import Registry
from tests.cli.command import Run
from tests.conversation import INVALID_SHARE_SESSION_EPOCH, Conversation
from tests.packets import pcap
from tests.shared import CAPTURES

ADVERSARIAL = sorted([*CAPTURES.glob("adv-*.pcap"), *CAPTURES.glob("aimed*.pcap"), CAPTURES / "java-limit.pcap"])


def anonymous(path: Path, target: Path, key: bytes = b"key") -> Path:
    anonymise(path, target, Pseudonyms(key), JUDGED, Registry())
    return target


def results_of(path: Path) -> list[tuple[object, ...]]:
    """What findings have in common whatever the names are."""
    return sorted((it.time_ns, it.code, it.verdict, it.blame, it.cause or "") for it in face.check(path))


@pytest.mark.parametrize("path", ADVERSARIAL, ids=lambda path: path.name)
def test_an_anonymous_capture_has_the_same_findings(path: Path, tmp_path: Path) -> None:
    assert results_of(anonymous(path, tmp_path / "a.pcapng")) == results_of(path)


@pytest.mark.parametrize("name", ["produce-mix.pcap", "tcp-hostile.pcap", "seed-messy.pcap", "zk-old-clients.pcap"])
def test_messages_stay_what_they_are(name: str, tmp_path: Path) -> None:
    before = [*face.read(CAPTURES / name)]
    after = [*face.read(anonymous(CAPTURES / name, tmp_path / "a.pcapng"))]
    assert [*map(what, after)] == [*map(what, before)]


def what(message: face.Message) -> tuple[object, ...]:
    """What stays of a message. Structures inside bytes do not: their bytes are zero."""
    weird = [code for code in message.weird or () if code != "EMBEDDED_INVALID"]
    return message.time_ns, message.kind, message.api_key, message.version, message.correlation_id, weird


@pytest.mark.parametrize("path", ADVERSARIAL[:4], ids=lambda path: path.name)
def test_the_evidence_of_every_case_gives_its_finding(kshark: Run, path: Path, tmp_path: Path) -> None:
    kshark("check", path, "--evidence", tmp_path, "--anonymize", "-q")
    for case in tmp_path.iterdir():
        lines = [json.loads(line) for line in (case / "finding.json").read_text().splitlines()]
        assert lines[-1]["evidence"]["reproduces"], case.name
        codes = {it.code for it in face.check(case / f"{case.name}.pcapng")}
        assert lines[0]["code"] in codes


def named() -> Conversation:
    """A member whose names are all telling."""
    talk = Conversation()
    member = talk.member("payments-client", group="billing-group")
    member.join()
    member.share_fetch(0).answered()
    member.share_fetch(3).answered(INVALID_SHARE_SESSION_EPOCH)
    return talk


def test_no_name_of_the_capture_is_in_any_file(kshark: Run, tmp_path: Path) -> None:
    file = tmp_path / "customer.pcap"
    file.write_bytes(pcap(named().wire.packets))
    names = {"billing-group", "customer", "10.0.0.9"}
    names |= {it.client.rpartition(":")[0] for it in face.read(file)}
    names |= {str(it.member_id) for it in face.check(file) if it.member_id}
    kshark("check", file, "--evidence", tmp_path / "e", "--anonymize", "-q")
    (case,) = [it for it in (tmp_path / "e").iterdir() if "EPOCH_SKIP" in it.name]
    for text in (case.name.encode(), *(it.read_bytes() for it in case.iterdir())):
        assert not [name for name in names if str(name).encode() in text]
    assert b"\x0a\x00\x00\x09" not in (case / f"{case.name}.pcapng").read_bytes()


#: Captures of Java clients, of a broker with SASL, of old clients, of transactions and Streams groups.
TELLING = (
    *("share-java-explicit.pcap", "security-sasl.pcap", "zk-old-clients.pcap"),
    *("produce-mix.pcap", "streams-groups.pcap"),
)


@pytest.mark.parametrize("name", TELLING)
def test_no_string_of_a_message_stays_but_kafkas_own_words(name: str, tmp_path: Path) -> None:
    data = anonymous(CAPTURES / name, tmp_path / "a.pcapng").read_bytes()
    texts = {it.client_id for it in face.read(CAPTURES / name, records=False) if it.client_id}
    for message in face.read(CAPTURES / name, records=False):
        texts |= strings(message.body)
    found = {text for text in texts if len(text) > 5 and text.encode() in data}
    assert not {text for text in found if not is_word_of_kafka(text)}


def strings(body: object, name: str = "") -> set[str]:
    """The strings of a body that may name something."""
    if isinstance(body, dict):
        own = {key: value for key, value in body.items() if not key.endswith("_decoded")}
        return set().union(*(strings(value, key) for key, value in own.items()))
    if isinstance(body, list):
        return set().union(*(strings(value, name) for value in body))
    return {body} if isinstance(body, str) and name not in KEPT else set()


def is_word_of_kafka(text: str) -> bool:
    """True for names of settings, features, protocols and internal topics, numbers, reserved ids, local addresses, and
    sentences of plain words.
    """
    words = r"[a-z]+([._][a-z4]+)+|__\w+|-?[\d.]+|A{21}\w|localhost|/?127\.0\.0\.1|cooperative-sticky"
    settings = "CreateTime|LogAppendTime|earliest|compact|delete|preallocate|producer"
    return bool(re.fullmatch(rf"{words}|{settings}|([A-Z][a-z]+( [a-z]+)+\. ?)+", text))


def test_payloads_of_records_are_gone_and_their_sizes_stay(tmp_path: Path) -> None:
    path = CAPTURES / "produce-mix.pcap"
    for name, has_payload in (("a", True), ("b", False)):
        file = path if has_payload else anonymous(path, tmp_path / "b.pcapng")
        sizes, payload = [], set()
        for message in face.read(file):
            for key, value in records(message.body):
                sizes.append((len(key or b""), len(value or b"")))
                payload |= {*(key or b""), *(value or b"")}
        if has_payload:
            expected = sizes
        assert sizes == expected, name
        assert (payload <= {0}) is not has_payload


def records(body: object) -> list[tuple[bytes | None, bytes | None]]:
    """Keys and values of a message's records, in order, without those of control batches."""
    found: list[tuple[bytes | None, bytes | None]] = []
    if isinstance(body, list):
        for item in body:
            found += records(item)
    elif isinstance(body, dict):
        if "batches" in body:
            return [
                (it["key"], it["value"])
                for batch in body["batches"]
                if not batch.get("control")
                for it in batch.get("records", ())
            ]
        for item in body.values():
            found += records(item)
    return found


@pytest.mark.parametrize("codec", sorted(COMPRESS))
def test_a_batch_without_payload_has_its_header_and_a_right_crc(codec: str) -> None:
    rows = [Record(7, 1000, b"key", b"value", (("name", b"x"),)), Record(8, 1001, None, b"", ())]
    for crc in (None, 1):
        content = without_payload(write_batch(rows, codec=codec, producer_id=5, base_sequence=3, crc=crc))
        reader = RecordsReader()
        field = reader(content, 0, len(content))
        reader.fill()
        (batch,) = field.batches  # type: ignore[union-attr]
        assert (batch.base_offset, batch.codec, batch.producer_id, batch.count) == (7, codec, 5, 2)  # type: ignore[union-attr]
        assert batch.crc_ok is (crc is None)  # type: ignore[union-attr]
        assert [(it.offset, it.timestamp) for it in batch.records] == [(7, 1000), (8, 1001)]
        assert [(it.key, it.value) for it in batch.records] == [(bytes(3), bytes(5)), (None, b"")]  # type: ignore[union-attr]


def test_whatever_the_bytes_of_a_records_field_are_no_text_stays() -> None:
    random = Random(3)
    whole = write_batch([Record(0, 0, b"SECRET" * 9, b"SECRET" * 9, ())]) + write_message(0, b"SECRET" * 5, b"SECRET")
    for _ in range(300):
        content = bytearray(whole[: random.randrange(len(whole) + 1)])
        for _ in range(random.randrange(3)):
            if content:
                content[random.randrange(len(content))] = random.randrange(256)
        assert b"SECRETSECRET" not in without_payload(bytes(content))


def test_pseudonyms_are_stable_for_a_key_and_keep_their_form() -> None:
    one, same, other = Pseudonyms(b"k"), Pseudonyms(b"k"), Pseudonyms()
    assert one.of("group", "billing") == one.of("group", "billing") == same.of("group", "billing")
    assert one.of("group", "billing") != other.of("group", "billing")
    assert one.of("group", "billing") != one.of("topic", "billing")
    assert one.of("address", "192.168.3.4").startswith("10.")
    assert one.of("address", "2001:db8::1").startswith("fd00:")
    assert one.of("host", "192.168.3.4") == one.of("address", "192.168.3.4")
    assert len(one.of("member", "6L2wg8gJQne7ftm-XDlUYw")) == 22
    for kind, name in (("group", ""), ("address", "127.0.0.1"), ("topic", "__share_group_state"), ("id", "A" * 22)):
        assert one.of(kind, name) == name  # type: ignore[arg-type]
    assert one.end("[2001:db8::1]:9092") == f"[{one.of('address', '2001:db8::1')}]:9092"


def test_many_addresses_never_become_one() -> None:
    names = Pseudonyms(b"k")
    made = {names.of("address", f"172.16.{at >> 8}.{at & 255}") for at in range(5000)}
    assert len(made) == 5000


def test_a_finding_is_told_with_pseudonyms() -> None:
    names = Pseudonyms(b"k")
    (finding,) = [it for it in face.check(CAPTURES / "adv-epochs.pcap") if it.code == "TWO_COUNTERS"]
    mapped = names.finding(finding)
    assert (mapped.code, mapped.packet, mapped.cause) == (finding.code, finding.packet, finding.cause)
    assert mapped.member_id == names.of("member", str(finding.member_id))
    assert str(finding.member_id) not in mapped.argument
    assert mapped.client_id == names.of("client", "A")


def test_sentences_of_brokers_keep_their_words() -> None:
    names = Pseudonyms(b"k")
    group = names.of("group", "g")
    assert names.sentence("Group g is not a share group.") == f"Group {group} is not a share group."
    assert names.sentence("no leader at kafka-3.example.com:9092") == "no leader at x"


def test_packets_are_cut_where_they_were() -> None:
    stream = Stream()
    stream.add(100, b"aaaabbbbbbcc")
    assert stream.replace(b"bbbbbb", b"BBBBBBBBBB")
    stream.close()
    assert [stream.position(at) for at in (0, 4, 5, 9, 10, 12)] == [0, 4, 5, 9, 14, 16]
    assert stream.bytes(4, 14) == b"BBBBBBBBBB"
    assert stream.offset((100 - 1) % (1 << 32)) == -1


def test_bad_usage_is_one_sentence(kshark: Run, trace: Path, tmp_path: Path) -> None:
    for words, sentence in (
        (("--anonymize",), "--anonymize needs --evidence DIR"),
        (("--anonymize-key", "k"), "--anonymize-key needs --evidence DIR"),
        (("--anonymize", "--secrets", "--evidence", tmp_path / "e"), "leave out --secrets"),
    ):
        done = kshark("check", trace, *words)
        assert (done.code, done.out) == (2, "")
        assert sentence in done.err
