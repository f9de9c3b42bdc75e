"""Which configurations are credentials, by the ends of their names."""

from __future__ import annotations

from types import SimpleNamespace as Body

import pytest

from kshark.codec.masking import mask, masks_of
from kshark.schema import layout, string, struct
from kshark_dissectors.sensitive import SENSITIVE_CONFIG

LAYOUT = layout(
    "Config",
    versions="0",
    flexible="none",
    fields=struct(string("name", nullable="0+"), string("value", secret=SENSITIVE_CONFIG)),
)


def is_masked(name: object) -> bool:
    body = Body(name=name, value="s3cret", is_sensitive=False)
    return mask(masks_of(LAYOUT, 0), body) and body.value == "<6 bytes, masked>"


@pytest.mark.parametrize(
    ("name", "masked"),
    [
        ("ssl.key.password", True),
        ("listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config", True),
        ("SSL_KEYSTORE_CERTIFICATE_CHAIN", True),
        ("sslKeystoreCertificateChain", True),
        ("a" * 40_000 + ".secret.key", True),
        ("ssl.keystore.certificate.chain\n", True),
        ("password.file", False),
        ("ssl.keystore.certificate.chain.", False),
        ("", False),
        (None, False),
    ],
)
def test_the_end_of_a_name_tells_and_tells_the_same_again(name: object, masked: bool) -> None:
    assert [is_masked(name), is_masked(name)] == [masked, masked]
