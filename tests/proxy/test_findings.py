"""Findings about clients behind proxies: whose missing bytes matter, and who refuses a header."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kshark.analysis import Analyzer
from kshark.model import Finding
from kshark.tables.events import events_from_tables
from kshark_dissectors.enums import ErrorCode
from tests.analysis.talks import METADATA, NO_METADATA, NO_TOPICS, replied, sent
from tests.conversation import Connection, Conversation, Thinned, events, everything, unknown, violation
from tests.proxy.making import binary, ipv4, line
from tests.tables.test_tables import tables

PROXY, OTHER_PROXY = "10.0.0.5", "10.0.0.6"
REAL = "203.0.113.7"
ALERT = b"\x15\x03\x03\x00\x02\x02\x28"


def header(port: int = 41_000, client: str = REAL) -> bytes:
    return ipv4(port, client=client)


# -- whose missing bytes matter


def skips(talk: Conversation, connection: Connection, other: Connection) -> tuple[int, int]:
    """A member skips an epoch while the other connection misses bytes; returns the packets of the refusal."""
    member = talk.member("a", connection=connection)
    member.share_fetch(0).answered()
    other.tcp.seq[0] += 100
    lost = sent(other, METADATA, 0, NO_TOPICS)
    replied(other, NO_METADATA)
    return member.share_fetch(3).answered(ErrorCode.INVALID_SHARE_SESSION_EPOCH).packet, lost


def verdicts(talk: Conversation | Thinned) -> list[Finding]:
    return [finding for finding in everything(talk) if finding.code.startswith("EPOCH")]


def proxied(talk: Conversation, host: str = PROXY, client: str = REAL, port: int = 41_000) -> Connection:
    return talk.connection(host=host, header=header(port, client))


@pytest.mark.parametrize(
    "other",
    [
        lambda talk: proxied(talk, port=41_001),
        lambda talk: proxied(talk, OTHER_PROXY, port=41_001),
        lambda talk: talk.connection(host=REAL),
        lambda talk: talk.connection(host=PROXY, header=line("UNKNOWN")),
        lambda talk: talk.connection(host=PROXY, header=binary(0x00, b"")),
        lambda talk: talk.connection(host=PROXY, from_syn=False),
        lambda talk: talk.connection(host=OTHER_PROXY, from_syn=False),
    ],
    ids=["proxy", "another proxy", "direct", "UNKNOWN", "UNSPEC", "older", "older, of another proxy"],
)  # fmt: skip
def test_missing_bytes_of_a_connection_that_may_be_the_clients(other: Callable[[Conversation], Connection]) -> None:
    talk = Conversation()
    refused, _ = skips(talk, proxied(talk), other(talk))
    assert verdicts(talk) == [unknown("EPOCH_REFUSED", refused, because="gap")]


@pytest.mark.parametrize(
    "other",
    [
        lambda talk: proxied(talk, client="203.0.113.8"),
        lambda talk: proxied(talk, OTHER_PROXY, "203.0.113.8"),
        lambda talk: talk.connection(host="10.0.0.77"),
    ],
    ids=["another client", "another client and proxy", "direct"],
)
def test_missing_bytes_of_other_clients_matter_to_nobody(other: Callable[[Conversation], Connection]) -> None:
    talk = Conversation()
    refused, _ = skips(talk, proxied(talk), other(talk))
    assert verdicts(talk) == [violation("EPOCH_SKIP_AHEAD", refused, blame="client")]


def test_a_client_that_no_header_names_may_be_any_client() -> None:
    talk = Conversation()
    refused, _ = skips(talk, talk.connection(host=PROXY, header=line("UNKNOWN")), proxied(talk))
    assert verdicts(talk) == [unknown("EPOCH_REFUSED", refused, because="gap")]


def test_a_direct_client_may_come_through_a_proxy_too() -> None:
    talk = Conversation()
    refused, _ = skips(talk, talk.connection(host=REAL), proxied(talk))
    assert verdicts(talk) == [unknown("EPOCH_REFUSED", refused, because="gap")]


def test_fewer_packets_accuse_nobody() -> None:
    """Clean sessions of two clients behind one proxy, without one or two packets."""
    talk = Conversation()
    first = talk.member("a", connection=proxied(talk))
    second = talk.member("b", connection=proxied(talk, client="203.0.113.8"))
    for epoch in range(4):
        first.share_fetch(epoch).answered()
        second.share_fetch(epoch).answered()
    assert [finding for finding in everything(talk) if finding.verdict == "violation"] == []
    for packet in range(1, len(talk.wire.packets)):
        for lost in ([packet], [packet, packet + 1]):
            found = everything(talk.without_packets(lost))
            assert [finding for finding in found if finding.verdict == "violation"] == [], lost


# -- who refuses a header


def refused(talk: Conversation | Thinned) -> list[tuple[str, str, str]]:
    codes = ("PROXY_HEADER_REFUSED", "REQUEST_UNANSWERED")
    found = [finding for finding in everything(talk) if finding.code in codes]
    assert back(talk) == found
    return [(finding.code, finding.verdict, finding.blame) for finding in found]


def back(talk: Conversation | Thinned) -> list[Finding]:
    """The same from the tables."""
    found = tables(events(talk))
    analyzer = Analyzer()
    findings = analyzer.page(events_from_tables(found["exchanges"], found["flows"], found["weirds"]))
    findings += analyzer.close()
    return [finding for finding in findings if finding.code in ("PROXY_HEADER_REFUSED", "REQUEST_UNANSWERED")]


def test_a_listener_for_plain_clients_refuses_headers_and_requests() -> None:
    for end in (lambda connection: connection.tcp.reset(1), lambda connection: close_by_broker(connection)):
        talk = Conversation()
        talk.connection()
        for with_request in (False, True):
            connection = talk.connection(host=PROXY, header=header(), introduced=False)
            if with_request:
                sent(connection, METADATA, 0, NO_TOPICS)
            end(connection)
        assert refused(talk) == [("PROXY_HEADER_REFUSED", "violation", "network")] * 2


def close_by_broker(connection: Connection) -> None:
    connection.tcp.fin(1)
    connection.tcp.fin(0)


def test_a_plain_client_from_before_the_capture_may_have_sent_a_header() -> None:
    talk = Conversation()
    talk.connection(from_syn=False)
    talk.connection(host=PROXY, header=header(), introduced=False).tcp.reset(1)
    assert refused(talk) == [("PROXY_HEADER_REFUSED", "unknown", "unknown")]


def test_a_listener_that_accepts_headers_closes_for_another_reason() -> None:
    talk = Conversation()
    talk.connection()
    proxied(talk)
    connection = talk.connection(host=PROXY, header=header(41_001), introduced=False)
    sent(connection, METADATA, 0, NO_TOPICS)
    connection.tcp.reset(1)
    assert refused(talk) == [("REQUEST_UNANSWERED", "note", "unknown")]


def test_a_client_that_closes_first_was_not_refused() -> None:
    talk = Conversation()
    talk.connection()
    connection = talk.connection(host=PROXY, header=header(), introduced=False)
    connection.tcp.fin(0)
    connection.tcp.reset(1)
    assert refused(talk) == []


@pytest.mark.parametrize("local", [binary(0x00, b"", 0), header().replace(b"\x21\x11", b"\x20\x11")])
def test_a_health_check_accuses_nobody(local: bytes) -> None:
    for end in (lambda tcp: tcp.close(), lambda tcp: tcp.reset(0), lambda tcp: tcp.reset(1), lambda tcp: tcp.fin(1)):
        talk = Conversation()
        talk.connection()
        end(talk.connection(host=PROXY, header=local, introduced=False).tcp)
        assert everything(talk) == []


def test_a_broker_that_nobody_knows_as_one_is_not_judged() -> None:
    talk = Conversation()
    talk.connection()
    talk.connection("10.0.0.80:80", PROXY, header=header(), introduced=False).tcp.reset(1)
    assert refused(talk) == []


def test_an_alert_is_no_answer() -> None:
    talk = Conversation()
    talk.connection()
    connection = talk.connection(host=PROXY, header=header(), introduced=False)
    connection.tcp.broker(ALERT)
    connection.tcp.reset(1)
    assert refused(talk) == [("PROXY_HEADER_REFUSED", "violation", "network")]


def test_an_answer_that_may_be_missing_is_no_refusal() -> None:
    talk = Conversation()
    talk.connection()
    connection = talk.connection(host=PROXY, header=header(), introduced=False)
    sent(connection, METADATA, 0, NO_TOPICS)
    answer = replied(connection, NO_METADATA)
    connection.tcp.fin(1)
    connection.tcp.fin(0)
    thinned = talk.without_packets([answer])
    assert [code for code, *_ in refused(thinned)] in ([], ["REQUEST_UNANSWERED"])


def test_refused_connections_are_no_restart() -> None:
    """A broker that closes all its connections together was restarted; refused ones do not count."""
    talk = Conversation()
    talk.connection().close()
    for _ in range(3):
        connection = talk.connection(host=PROXY, header=header(), introduced=False)
        sent(connection, METADATA, 0, NO_TOPICS)
        connection.tcp.reset(1)
    assert {code for code, *_ in refused(talk)} == {"PROXY_HEADER_REFUSED"}
    analyzer = Analyzer()
    analyzer.page(events(talk))
    (broker,) = {id(broker): broker for broker in analyzer._brokers._by_address.values()}.values()
    assert broker.restarts == []
