"""What has to be certain for an argument to hold."""

from __future__ import annotations

from kshark.analysis.facts.argument import ABSENCE, EXCHANGE, STATE, Both, ProofNeeds, StillOpen
from kshark.analysis.facts.bases import NO_CONNECTION
from kshark.analysis.facts.known import BEGINNING, NOTHING_HIDDEN
from kshark.analysis.states.session.state import WentOn
from tests.analysis.plain import connection, session, step


def test_what_arguments_need() -> None:
    assert (EXCHANGE.state, EXCHANGE.proof) == (False, None)
    assert (STATE.state, STATE.proof) == (True, None)
    assert (ABSENCE.state, ABSENCE.absence) == (True, NO_CONNECTION)


def test_a_proof_is_needed_beside_what_was() -> None:
    proof = StillOpen(connection(), 10)
    assert STATE.and_proof(proof) == ProofNeeds(state=True, proof=proof)


def test_facts_are_needed_beside_each_other() -> None:
    assert STATE.knowing(BEGINNING).knowing(NOTHING_HIDDEN).facts == (BEGINNING, NOTHING_HIDDEN)
    assert EXCHANGE.facts == ()


def test_of_two_proofs_the_first_one_names_the_reason() -> None:
    open_still, went_on = StillOpen(connection(), 10), WentOn(session(1), step(1))
    assert Both(open_still, went_on).because == open_still.because == "end_not_seen"
    assert Both(went_on, open_still).because == went_on.because == "hidden_traffic"


def test_a_later_request_or_fin_shows_that_a_connection_was_open() -> None:
    used, left, other = connection(), connection(), connection()
    used.last_request, left.client_fin, other.last_request = 11, 11, 10
    assert [StillOpen(each, 10).holds() for each in (used, left, other)] == [True, True, None]
    other.over_at = 50
    assert StillOpen(other, 10).holds() is False
