"""Members that do anything at all with a broker that does everything right: kshark says what the broker knows, and
blames nobody else."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from kshark.model import Finding
from tests.analysis.reference import ReferenceBroker
from tests.conversation import Asked, Connection, Conversation, Member, Thinned, findings
from tests.examples import as_many

#: What kshark may call the cause, by why the broker refused.
CAUSES = {
    "negative": {"negative"},
    "ack_epoch_zero": {"ack_epoch_zero"},
    "behind": {"replay", "stale", "two_counters", "two_writers", "reopened_elsewhere"},
    "ahead": {"skip_ahead", "two_writers", "reopened_elsewhere"},
    "never_opened": {"never_opened", "unknown"},
    "final_epoch": {"final_epoch"},
    "failed_reopen": {"failed_reopen"},
    "connection_closed": {"connection_closed"},
    "old_connection_closed": {"old_connection_closed"},
}
#: What a client does wrong beside being refused.
BESIDE = {"NO_RECOVERY", "REOPEN_HOT_LOOP", "DUPLICATE_PARTITION_ENTRY"}


class Act(NamedTuple):
    """One thing a client does on one of its connections: `epoch` is relative to the one due where it is a string."""

    connection: int
    what: str
    epoch: int | str


acts = st.builds(
    Act,
    st.integers(0, 2),
    st.sampled_from(["fetch", "fetch", "fetch", "acknowledge", "acknowledge", "twice", "close"]),
    st.sampled_from(["+0", "+0", "+0", "+0", "+1", "+3", "-1", "-2", 0, 0, 1, -1, -1, -3]),
)


class Talk(NamedTuple):
    """A conversation as it happened, and why the broker refused what it refused."""

    conversation: Conversation
    refused: list[tuple[Asked, str]]
    asked: list[Asked]


def hold(script: list[Act], release: str) -> Talk:
    talk, broker = Conversation(release=release), ReferenceBroker(release)
    connections = [_numbered(talk.connection(), count) for count in range(3)]
    member = talk.member("a", connection=connections[0])
    refused, asked = [], []
    for act in script:
        connection = connections[act.connection]
        if act.what == "close":
            broker.close(connection.tcp.source)
            connection.close()
            connections[act.connection] = _numbered(talk.connection(), len(asked))
            continue
        due = broker.session.due if broker.session is not None else 1
        epoch = due + int(act.epoch) if isinstance(act.epoch, str) else act.epoch
        request, error = _ask(member.on(connection), act, epoch, broker)
        asked.append(request.answered(error))
        if broker.reason is not None:
            refused.append((request, broker.reason))
    return Talk(talk, refused, asked)


def _numbered(connection: Connection, count: int) -> Connection:
    """Number requests of all connections apart, as one client does: otherwise they may be copies of each other."""
    connection.correlation_id += 1_000 * count
    return connection


def _ask(member: Member, act: Act, epoch: int, broker: ReferenceBroker) -> tuple[Asked, int]:
    if act.what == "acknowledge":
        return member.share_acknowledge(epoch), broker.ask(member.connection.tcp.source, fetch=False, epoch=epoch)
    twice = act.what == "twice" and epoch == 0
    error = broker.ask(member.connection.tcp.source, fetch=True, epoch=epoch, twice=twice)
    version = 0 if broker.release == "4.0" else 1
    return member.share_fetch(epoch, [0, 0] if twice else (), version=version), error


def at(found: Finding) -> tuple[int | None, int | None]:
    return found.witness[-1].request_packet, found.witness[-1].response_packet


def place(asked: Asked) -> tuple[int, int]:
    return asked.packets[-1], asked.answer_packets[-1]


@settings(max_examples=as_many(60), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@example([Act(0, "fetch", "-1"), Act(1, "fetch", "-1"), Act(0, "close", "+0"), Act(0, "fetch", "+0")], "4.1")
@given(st.lists(acts, min_size=1, max_size=25), st.sampled_from(["4.1", "4.2"]))
def test_every_refusal_is_explained_as_the_broker_would(script: list[Act], release: str) -> None:
    talk = hold(script, release)
    found = findings(talk.conversation)
    caused = {at(finding): finding for finding in found if finding.cause is not None}
    assert Counter(at(finding) for finding in found if finding.cause is not None) == Counter(
        place(asked) for asked, _ in talk.refused
    )
    for asked, reason in talk.refused:
        finding = caused[place(asked)]
        if finding.unknown_because == "in_flight":
            continue  # TCP may have delivered the request late: its connection shows no later one
        assert finding.cause in CAUSES[reason], (reason, finding.argument)
        not_seen = (
            reason == "old_connection_closed" and finding.unknown_because == "end_not_seen"
        )  # the newer one may have ended, too
        assert finding.verdict != "unknown" or reason == "never_opened" or not_seen
        assert finding.blame != "broker" or reason == "old_connection_closed"


@settings(max_examples=as_many(60), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(acts, min_size=1, max_size=25), st.sampled_from(["4.0", "4.1", "4.2"]))
def test_what_the_broker_accepted_is_held_against_nobody(script: list[Act], release: str) -> None:
    talk = hold(script, release)
    refused = {place(asked) for asked, _ in talk.refused}
    for finding in findings(talk.conversation):
        if at(finding) not in refused:
            assert finding.verdict == "note" or finding.code in BESIDE, (
                finding.code,
                finding.verdict,
                finding.argument,
            )
            assert finding.blame in ("client", "unknown")


@settings(max_examples=as_many(60), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(acts, min_size=1, max_size=20), st.sampled_from(["4.0", "4.1", "4.2"]), st.data())
def test_what_is_missed_accuses_nobody(script: list[Act], release: str, data: st.DataObject) -> None:
    talk = hold(script, release).conversation
    missing = data.draw(losses([number for number, _ in talk.packets()]))
    assert violating(talk.without_packets(missing)) - violating(talk) == set()


def violating(talk: Conversation | Thinned) -> set[tuple[str, int | None]]:
    """Exchanges at which a violation stands, by what does not change when packets are missing."""
    return {
        (found.client, found.witness[-1].correlation_id) for found in findings(talk) if found.verdict == "violation"
    }


@st.composite
def losses(draw: st.DrawFn, packets: list[int]) -> set[int]:
    """One packet, a run, the beginning, the end, or here and there."""
    at, length = draw(st.integers(0, len(packets) - 1)), draw(st.integers(1, 12))
    match draw(st.sampled_from(["one", "run", "beginning", "end", "some"])):
        case "one":
            return {packets[at]}
        case "run":
            return set(packets[at : at + length])
        case "beginning":
            return set(packets[:at])
        case "end":
            return set(packets[at:])
        case _:
            return draw(st.sets(st.sampled_from(packets), max_size=12))
