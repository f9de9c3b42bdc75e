"""What has to be certain for an argument to hold."""

from __future__ import annotations

from kshark.analysis.facts.argument import ABSENCE, EXCHANGE, STATE, ProofNeeds, StillOpen
from tests.analysis.plain import connection


def test_what_arguments_need() -> None:
    assert (EXCHANGE.state, EXCHANGE.absence, EXCHANGE.proof) == (False, None, None)
    assert (STATE.state, STATE.absence, STATE.proof) == (True, None, None)
    assert (ABSENCE.state, ABSENCE.absence, ABSENCE.proof) == (True, "session", None)


def test_a_proof_is_needed_beside_what_was() -> None:
    proof = StillOpen(connection(), 10)
    assert STATE.and_proof(proof) == ProofNeeds(state=True, proof=proof, unproved="end_not_seen")
    assert ABSENCE.and_proof(proof, "race") == ProofNeeds(state=True, absence="session", proof=proof, unproved="race")


def test_a_later_request_or_fin_shows_that_a_connection_was_open() -> None:
    used, left, other = connection(), connection(), connection()
    used.last_request, left.client_fin, other.last_request = 11, 11, 10
    assert [StillOpen(each, 10).holds() for each in (used, left, other)] == [True, True, None]
    other.over_at = 50
    assert StillOpen(other, 10).holds() is False
