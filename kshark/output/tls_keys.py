"""`kshark explain tls-keys`: how to get a key log, client by client."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kshark.output.spans import API, DIM, LABEL, PLAIN, VALUE, Line, folded

_WHAT: Final = (
    "A key log is a text file with the secrets of each TLS connection (RFC 9850, the format of SSLKEYLOGFILE). One end "
    "of a connection has to write it while the connection opens: for a connection that is older, and for one whose "
    "handshake is not in the capture, there is no way."
)
#: Who writes it, and how.
_WAYS: Final = (
    (
        "librdkafka and other users of OpenSSL 3.5 or later, built with enable-sslkeylog",
        "SSLKEYLOGFILE=/tmp/keys.log your-program",
        "Without that option, or with an older OpenSSL, a preloaded library does the same (LD_PRELOAD of "
        "sslkeylog.c, from wireshark-notes).",
    ),
    (
        "Java: clients, Kafka Connect, Kafka Streams",
        'KAFKA_OPTS="-javaagent:extract-tls-secrets.jar=/tmp/keys.log"',
        "JSSE writes no key log of its own. Agents do: extract-tls-secrets, or jSSLKeyLog "
        "(-javaagent:jSSLKeyLog.jar==/tmp/keys.log).",
    ),
    (
        "A broker, for all its clients at once",
        'KAFKA_OPTS="-javaagent:extract-tls-secrets.jar=/tmp/keys.log" bin/kafka-server-start.sh ...',
        "It is a Java program like the others; the agent needs a restart.",
    ),
    (
        "Go: franz-go, sarama, kafka-go",
        "tls.Config{KeyLogWriter: file}",
        "Pass this tls.Config to the client (kgo.DialTLSConfig, Config.Net.TLS.Config, Dialer.TLS).",
    ),
    (
        "Python: kafka-python, aiokafka",
        'context.keylog_filename = "/tmp/keys.log"',
        "Of the ssl.SSLContext that is passed as ssl_context. confluent-kafka is librdkafka.",
    ),
    ("Node.js: kafkajs", "node --tls-keylog=/tmp/keys.log app.js", ""),
)
_USE: Final = (
    "Record from before the clients connect, and give the log to kshark: kshark check trace.pcap --tls-keys "
    "/tmp/keys.log. A pcapng file can carry its keys: editcap --inject-secrets tls,/tmp/keys.log trace.pcapng "
    "with-keys.pcapng."
)
_NOT: Final = (
    "The private key of a broker does not help: TLS 1.3 always agrees on keys that no certificate shows (ephemeral "
    "Diffie-Hellman), and so does TLS 1.2 as brokers and clients use it today."
)
_SECRET: Final = "With the log and the capture, anybody can read all of it, passwords too: delete the log after use."


def tls_keys_lines(width: int | None = None) -> Iterator[Line]:
    """Return the page."""
    yield [("tls-keys", API), ("  how to get a key log for --tls-keys", DIM)]
    yield from folded([(_WHAT, PLAIN)], width)
    for who, command, more in _WAYS:
        yield []
        yield [(who, LABEL)]
        yield [("  " + command, VALUE)]
        yield from folded([("  " + more, PLAIN)], width, 2) if more else ()
    for text in (_USE, _NOT, _SECRET):
        yield []
        yield from folded([(text, PLAIN)], width)
