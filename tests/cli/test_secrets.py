"""Credentials are masked in whatever a command prints or writes, and shown to who asks for them."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import kshark as face
from kshark.codec import compile_writer
from kshark.codec.masking import masks_of
from kshark.registry import Registry
from kshark.schema import Layout
from kshark_dissectors.embedded import cluster_security, cluster_topics
from tests.cli.command import Run
from tests.cli.incident import written
from tests.embedding import batch_of, exchange, request_frame, response_frame
from tests.packets import Tcp, Wire

WORD = "hunter2-of-the-oak"
TOKEN = WORD.encode()
MASK = "<18 bytes, masked>"
#: In JSON bytes are base64, whatever they say.
MASKED_BYTES = base64.b64encode(MASK.encode()).decode()

CONFIGS = [
    {"name": "listener.name.sasl.scram-sha-512.sasl.jaas.config", "value": WORD},
    {"name": "ssl.key.password", "value": WORD},
    {"name": "retention.ms", "value": "604800000"},
]
RESOURCE = {"resource_type": 4, "resource_name": "1", "configs": CONFIGS}
DESCRIBED = [
    {
        "name": "ssl.truststore.password",
        "value": WORD,
        "synonyms": [{"name": "ssl.truststore.password", "value": WORD}],
    },
    {"name": "plug.in.pin", "value": WORD, "is_sensitive": True},
    {"name": "retention.ms", "value": "604800000"},
]
UPSERTION = {"name": "alice", "mechanism": 2, "iterations": 4096, "salt": TOKEN, "salted_password": TOKEN}


def stored(layout: Layout, number: int, **fields: Any) -> tuple[None, bytes]:
    """A record of `__cluster_metadata`: frame version, type and version in front of the value."""
    return None, bytes([1, number, 0]) + compile_writer(layout, 0)(fields)


RECORDS = batch_of(
    stored(cluster_security.USER_SCRAM_CREDENTIAL, 11, name="alice", salt=TOKEN, stored_key=TOKEN, server_key=TOKEN),
    stored(cluster_topics.CONFIG, 4, resource_type=4, resource_name="1", name="ssl.key.password", value=WORD),
    stored(cluster_topics.CONFIG, 4, resource_type=2, resource_name="orders", name="retention.ms", value="604800000"),
)


@pytest.fixture(scope="module")
def capture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One exchange of every API whose messages hold credentials; a forwarded one; the records in which controllers keep
    them."""
    wire = Wire()
    tcp = Tcp(wire).open()
    exchange(tcp, 36, 2, {"auth_bytes": TOKEN}, {"auth_bytes": TOKEN})
    exchange(
        tcp,
        19,
        7,
        {"topics": [{"name": "t", "configs": CONFIGS}]},
        {"topics": [{"name": "t", "configs": [DESCRIBED[1]]}]},
    )
    exchange(tcp, 32, 4, {}, {"results": [{"resource_type": 4, "resource_name": "1", "configs": DESCRIBED}]})
    exchange(tcp, 33, 2, {"resources": [RESOURCE]}, {})
    exchange(tcp, 38, 3, {}, {"token_id": "t", "hmac": TOKEN})
    exchange(tcp, 39, 2, {"hmac": TOKEN}, {})
    exchange(tcp, 40, 2, {"hmac": TOKEN}, {})
    exchange(tcp, 41, 3, {}, {"tokens": [{"token_id": "t", "hmac": TOKEN}]})
    exchange(tcp, 44, 1, {"resources": [RESOURCE]}, {})
    exchange(tcp, 51, 0, {"upsertions": [UPSERTION]}, {})
    forwarded = {"request_data": request_frame(44, 1, {"resources": [RESOURCE]}), "client_host_address": b"\x7f\0\0\1"}
    exchange(tcp, 58, 0, forwarded, {"response_data": response_frame(44, 1, {})})
    described = response_frame(41, 3, {"tokens": [{"token_id": "t", "hmac": TOKEN}]})
    exchange(
        tcp,
        58,
        0,
        {"request_data": request_frame(41, 3, {}), "client_host_address": b"\x7f\0\0\1"},
        {"response_data": described},
    )
    topic = {"topic": "__cluster_metadata", "partitions": [{"partition_index": 0, "records": RECORDS}]}
    exchange(tcp, 1, 4, {"max_wait_ms": 1}, {"responses": [topic]})
    return written(tmp_path_factory.mktemp("secrets"), wire.packets)


def told(text: str | bytes) -> bool:
    """Whether the credential is in there, as it is, in base64 (wherever it begins in what was encoded) or in
    hexadecimal digits."""
    data = text.encode() if isinstance(text, str) else text
    coded = [base64.b64encode(b"\0" * lead + TOKEN)[4 * bool(lead) : -4] for lead in range(3)]
    return any(form in data for form in (TOKEN, TOKEN.hex().encode(), TOKEN.hex(" ").encode(), *coded))


WAYS = (
    ("read",),
    ("read", "-V"),
    ("read", "-T", "json"),
    ("read", "-T", "json", "--no-payload"),
)
FIELDS = (
    "auth_bytes",
    "hmac",
    "salt",
    "salted_password",
    "configs.value",
    "synonyms.value",
    "request_data",
    "response_data",
    "records.value",
)
AS_FIELDS = ("read", "-T", "fields", *(word for name in FIELDS for word in ("-e", f"kafka.{name}")))


@pytest.mark.parametrize(
    "way", [*WAYS, AS_FIELDS, ("groups", "-V"), ("stats",), ("check", "-V", "-T", "json")], ids=" ".join
)
def test_no_command_prints_them(kshark: Run, capture: Path, way: tuple[str, ...]) -> None:
    done = kshark(*way, capture)
    assert done.code == 0
    assert not told(done.out)
    assert not told(done.err)


@pytest.mark.parametrize("way", [*WAYS[1:], AS_FIELDS], ids=" ".join)
def test_who_asks_sees_them(kshark: Run, capture: Path, way: tuple[str, ...]) -> None:
    assert told(kshark(*way, capture, "--secrets").out)


def test_how_long_they_were_stands_in_their_place(kshark: Run, capture: Path) -> None:
    sent, *rest = kshark("read", capture, "-T", "json").json
    assert sent["body"]["auth_bytes"] == MASKED_BYTES
    (created,) = [line for line in rest if line.get("api") == "IncrementalAlterConfigs" and line["kind"] == "request"]
    assert [config["value"] for config in created["body"]["resources"][0]["configs"]] == [MASK, MASK, "604800000"]
    assert f'      auth_bytes: "{MASK}"' in [f"    {line}" for line in kshark("read", "-V", capture).lines]


def test_what_the_broker_calls_sensitive_is_masked_whatever_its_name(kshark: Run, capture: Path) -> None:
    (answer,) = [line for line in kshark("read", capture, "-T", "json").json if line.get("api") == "DescribeConfigs"][
        1:
    ]
    assert [config["value"] for config in answer["body"]["results"][0]["configs"]] == [MASK, MASK, "604800000"]


def test_what_holds_none_stays_beside_what_it_holds(kshark: Run, capture: Path) -> None:
    lines = kshark("read", capture, "-T", "json").json
    forwarded = [line["body"] for line in lines if line.get("api") == "Envelope"]
    assert base64.b64decode(forwarded[0]["request_data"]).endswith(b" bytes, masked>")
    assert forwarded[0]["request_data_decoded"]["body"]["resources"][0]["configs"][0]["value"] == MASK
    assert base64.b64decode(forwarded[1]["response_data"]) == response_frame(44, 1, {})
    assert forwarded[3]["response_data_decoded"]["body"]["tokens"][0]["hmac"] in (MASK, MASKED_BYTES)
    records = lines[-1]["body"]["responses"][0]["partitions"][0]["records"]["batches"][0]["records"]
    assert [b"masked" in base64.b64decode(record["value"]) for record in records] == [True, True, False]


def test_a_filter_does_not_tell_them(kshark: Run, capture: Path) -> None:
    for name in ("auth_bytes", "hmac", "salt", "configs.value", "request_data", "records.value"):
        asked = f'kafka.{name} contains "{WORD}"'
        assert kshark("read", capture, "-Y", asked).out == ""
        assert kshark("read", capture, "-Y", asked, "--secrets").out != ""


def test_tables_do_not_hold_them(kshark: Run, capture: Path, tmp_path: Path) -> None:
    assert kshark("export", capture, "--records", "-o", tmp_path / "masked", "-q").code == 0
    assert kshark("export", capture, "--records", "-o", tmp_path / "open", "-q", "--secrets").code == 0
    for folder, shown in (("masked", False), ("open", True)):
        tables = [pq.read_table(path) for path in sorted((tmp_path / folder).rglob("*.parquet"))]
        cells = [value for table in tables for column in table.columns for value in column.to_pylist()]
        assert any(told(value) for value in cells if isinstance(value, str | bytes)) is shown


def test_a_single_message_and_python_mask_them_too(kshark: Run, capture: Path, tmp_path: Path) -> None:
    file = tmp_path / "body"
    file.write_bytes(face.encode(36, 2, "request", {"auth_bytes": TOKEN}))
    assert kshark("decode", 36, 2, "request", file).json == [{"auth_bytes": MASKED_BYTES}]
    assert told(kshark("decode", 36, 2, "request", file, "--secrets").out)
    assert next(face.read(capture)).body == {"auth_bytes": MASK.encode()}
    assert next(face.read(capture, secrets=True)).body == {"auth_bytes": TOKEN}


def test_every_credential_of_the_field_tables_is_in_this_capture(kshark: Run, capture: Path) -> None:
    registry = Registry()
    apis = [api for key in registry.names() if (api := registry.api(key)) is not None]
    held = {
        api.name
        for api in apis
        for layout in (api.request, api.response)
        if any(masks_of(layout, v) for v in _each(layout))
    }
    assert held <= {line.get("api") for line in kshark("read", capture, "-T", "json").json}
    inside = {
        layout.name for layout in registry.structures().values() if any(masks_of(layout, v) for v in _each(layout))
    }
    assert inside == {"UserScramCredentialRecord", "ConfigRecord"}


def _each(layout: Layout) -> range:
    return range(layout.versions.low, layout.versions.high + 1)
