"""From secrets to keys, as RFC 8448 shows it ("Example Handshake Traces for TLS 1.3", section 3), and from keys to
content."""

from __future__ import annotations

import pytest

from kshark.tls.protection import Tls13
from kshark.tls.schedule import Keys, key_block, next_secret, prf, traffic_keys
from kshark.tls.suites import SUITES_12, SUITES_13

AES_128_GCM = SUITES_13[0x1301]
#: A traffic secret, with the key and the IV that come of it.
RFC_8448 = {
    "client, handshake": (
        "b3eddb126e067f35a780b3abf45e2d8f3b1a950738f52e9600746a0e27a55a21", "dbfaa693d1762c5b666af5d950258d01",
        "5bd3c71b836e0b76bb73265f",
    ),
    "server, handshake": (
        "b67b7d690cc16c4e75e54213cb2d37b4e9c912bcded9105d42befd59d391ad38", "3fce516009c21727d0f2e4e86ee403bc",
        "5d313eb2671276ee13000b30",
    ),
    "client, application": (
        "9e40646ce79a7f9dc05af8889bce6552875afa0b06df0087f792ebb7c17504a5", "17422dda596ed5d9acd890e3c63f5051",
        "5b78923dee08579033e523d9",
    ),
    "server, application": (
        "a11af9f05531f856ad47116b45a950328204b4f44bfb6b3a4b4f1f3fcb631643", "9f02283b6c9c07efc26bb9f2ac92e356",
        "cf782b88dd83549aadf1e984",
    ),
}  # fmt: skip
#: The client's record of application data there, with 50 bytes from 0 on inside.
RECORD = bytes.fromhex(
    "1703030043a23f7054b62c94d0affafe8228ba55cbefacea42f914aa66bcab3f2b9819a8a5b46b395bd54a9a20441e2b62974e1f5a6292a2977014bd1e3deae6"
    "3aeebb21694915e4"
)


@pytest.mark.parametrize("whose", RFC_8448)
def test_a_traffic_secret_gives_the_key_and_iv_of_the_rfc(whose: str) -> None:
    secret, key, iv = map(bytes.fromhex, RFC_8448[whose])
    assert traffic_keys(AES_128_GCM, secret) == Keys(key, iv)


def test_the_record_of_the_rfc_is_opened_with_its_secret_and_sequence_number() -> None:
    protection = Tls13(AES_128_GCM, bytes.fromhex(RFC_8448["client, application"][0]))
    header, body = RECORD[:5], RECORD[5:]
    assert protection.open(0, header, body) == (23, bytes(range(50)))
    assert protection.open(1, header, body) is None
    assert protection.open(0, header, body[:-1] + bytes((body[-1] ^ 1,))) is None
    assert Tls13(AES_128_GCM, bytes.fromhex(RFC_8448["server, application"][0])).open(0, header, body) is None


def test_the_pseudorandom_function_of_tls_12() -> None:
    """The test vector for P_SHA256 that the IETF's TLS working group passes around."""
    secret, seed = bytes.fromhex("9bbe436ba940f017b17652849a71db35"), bytes.fromhex("a0ba9f936cda311827a6f796ffd5198c")
    found = prf("sha256", secret, b"test label", seed, 100)
    assert found.hex().startswith("e3f229ba727be17b8d122620557cd453c2aab21d07c3d495329b52d4e61edb5a")
    assert len(found) == 100


def test_what_a_key_block_is_cut_into() -> None:
    """RFC 5246, section 6.3: MAC keys, keys, IVs, the client's first."""
    block = prf("sha256", b"m" * 48, b"key expansion", b"s" * 32 + b"c" * 32, 2 * (20 + 16))
    client, server = key_block(SUITES_12[0xC013], b"m" * 48, b"c" * 32, b"s" * 32)
    assert client.mac + server.mac + client.key + server.key == block
    assert client.iv == server.iv == b""


def test_another_secret_follows_each_key_update() -> None:
    first = bytes(range(32))
    second = next_secret(AES_128_GCM, first)
    assert len(second) == 32
    assert second != first
    assert Tls13(AES_128_GCM, first, updated=True).following() is not None
