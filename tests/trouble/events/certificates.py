"""Certificates of a broker, made anew for each recording."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

#: Files in a case's folder: the broker's certificate, which is its own authority; another authority; the broker's key.
CERTIFICATE: Final = "certificate.pem"
WRONG_AUTHORITY: Final = "wrong.pem"
_KEY: Final = "broker.pem"
_DAY: Final = datetime.timedelta(days=1)


def make_certificates(folder: Path) -> Mapping[str, object]:
    """Write a broker's certificate and an authority that did not sign it; return the broker's settings."""
    for certificate_file, key_file in ((CERTIFICATE, _KEY), (WRONG_AUTHORITY, None)):
        certificate, key = _self_signed()
        (folder / certificate_file).write_bytes(certificate)
        if key_file is not None:
            (folder / key_file).write_bytes(key + certificate)
    return {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": folder / _KEY,
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": folder / CERTIFICATE,
    }


def _self_signed() -> tuple[bytes, bytes]:
    """Return a certificate and its key, in PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "broker")])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _DAY)
        .not_valid_after(now + 30 * _DAY)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    clear = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return certificate.public_bytes(pem), clear
