"""Connections under TLS as real packets: Python's own `ssl` speaks both ends, in memory, and logs its secrets.

tls = Speaking(Tcp(wire), secrets, ciphers="ECDHE-ECDSA-AES128-GCM-SHA256").open()
tls.client(request)  # as tests.packets.Tcp: the packets that carry it
"""

from __future__ import annotations

import ssl
import tempfile
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

from tests.conversation import Connection, Conversation
from tests.packets import Tcp

#: The name by which the client asks for its broker.
BROKER_NAME = "broker-1.kafka.example"
#: OpenSSL's SSL_OP_NO_ENCRYPT_THEN_MAC, which Python has no name for.
NO_ENCRYPT_THEN_MAC = 1 << 19
TLS_12, TLS_13 = ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3


@cache
def folder() -> tempfile.TemporaryDirectory[str]:
    """Removed at the end of the process."""
    return tempfile.TemporaryDirectory()


@cache
def certificate(kind: str) -> Path:
    """A certificate that signs itself, with its key: of an "ec" or "rsa" key."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec, rsa

    key: Any = ec.generate_private_key(ec.SECP256R1()) if kind == "ec" else rsa.generate_private_key(65537, 2048)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, BROKER_NAME)])
    now = datetime.now(UTC)
    made = x509.CertificateBuilder(
        name, name, key.public_key(), x509.random_serial_number(), now, now + timedelta(days=1)
    )
    made = made.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    path = Path(folder().name) / f"{kind}.pem"
    text = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    path.write_bytes(text + made.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
    return path


class Secrets:
    """A key log file that connections write to."""

    def __init__(self) -> None:
        with tempfile.NamedTemporaryFile(dir=folder().name, delete=False) as file:
            self.path = Path(file.name)

    @property
    def text(self) -> bytes:
        return self.path.read_bytes()


class Speaking:
    """A TCP connection whose payload goes through TLS. `mutual`: the client shows a certificate too; `curve`: the only
    one of the server, of which the client guesses another (HelloRetryRequest)."""

    def __init__(
        self, tcp: Tcp, secrets: Secrets, version: ssl.TLSVersion = TLS_13, ciphers: str | None = None, *,
        key: str = "ec",
        mac_last: bool = True, mutual: bool = False, curve: str | None = None, resumed: Speaking | None = None,
    ) -> None:  # fmt: skip
        self.tcp = tcp
        if resumed is not None:
            self.contexts = resumed.contexts
        else:
            self.contexts = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            for context in self.contexts:
                context.minimum_version = context.maximum_version = version
                if ciphers is not None:
                    context.set_ciphers(f"{ciphers}:@SECLEVEL=0")
                if not mac_last:
                    context.options |= NO_ENCRYPT_THEN_MAC
                context.load_verify_locations(certificate(key))
            self.contexts[1].load_cert_chain(certificate(key))
            self.contexts[0].check_hostname = False
            if curve is not None:
                self.contexts[1].set_ecdh_curve(curve)
            if mutual:
                self.contexts[1].verify_mode = ssl.CERT_REQUIRED
                self.contexts[0].load_cert_chain(certificate(key))
            self.contexts[0].keylog_filename = str(secrets.path)
        client, server = (ssl.MemoryBIO(), ssl.MemoryBIO()), (ssl.MemoryBIO(), ssl.MemoryBIO())
        session = None if resumed is None else resumed.sides[0].session
        self._bio = client, server
        self.sides = (
            self.contexts[0].wrap_bio(*client, server_hostname=BROKER_NAME, session=session),
            self.contexts[1].wrap_bio(*server, server_side=True),
        )

    def open(self) -> Speaking:
        self.tcp.open()
        done = [False, False]
        while not all(done):
            for side in (0, 1):
                try:
                    self.sides[side].do_handshake()
                    done[side] = True
                except ssl.SSLWantReadError:
                    pass
                self._flush(side)
        self._read(0)
        return self

    def client(self, payload: bytes) -> list[int]:
        return self._say(0, payload)

    def broker(self, payload: bytes) -> list[int]:
        return self._say(1, payload)

    def _say(self, side: int, payload: bytes) -> list[int]:
        self.sides[side].write(payload)
        packets = self._flush(side)
        assert self._read(1 - side) == payload
        return packets

    def _flush(self, side: int) -> list[int]:
        """Sends what a side has to say; the other one gets it."""
        data = self._bio[side][1].read()
        self._bio[1 - side][0].write(data)
        return (self.tcp.broker if side else self.tcp.client)(data) if data else []

    def _read(self, side: int) -> bytes:
        found = b""
        try:
            while data := self.sides[side].read(1 << 20):
                found += data
        except ssl.SSLWantReadError:
            pass
        return found

    def close(self) -> None:
        """Both sides say good-bye (close_notify), then TCP ends."""
        for side in (0, 1):
            with suppress(ssl.SSLWantReadError):
                self.sides[side].unwrap()
            self._flush(side)
        self.tcp.close()


def connection(
    talk: Conversation, secrets: Secrets, version: ssl.TLSVersion = TLS_13, ciphers: str | None = None, **more: Any
) -> Connection:
    """A client's connection to a broker under TLS, with ApiVersions asked and answered."""
    plain = talk.connection(introduced=False, from_syn=False)
    made = Connection(talk, Speaking(plain.tcp, secrets, version, ciphers, **more).open())  # type: ignore[arg-type]
    made.api_versions(talk.release)
    return made
