"""Order of requests on connections with authentication. Rule 17."""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from kshark.analysis.facts.argument import CONNECTION, EXCHANGE, Argument
from kshark.analysis.facts.bases import BETWEEN_DIRECTIONS
from kshark.analysis.rules.byte_fault import ByteFault
from kshark.analysis.rules.rule import Check, Rule


def not_due(odd: ByteFault) -> Argument | None:
    """The broker refuses the request, or closes the connection without an answer.

    If the client closes, it may not have received a refusal yet.
    """
    call = odd.call
    if odd.end is None or not odd.is_over:
        return None
    if call.answer is not None:
        text = (
            f"{call.here} was refused with ILLEGAL_SASL_STATE: the listener expects no authentication, or not at this "
            f"point ({call.packets})"
        )
        return replace(odd.at_end(), text=text, needs=EXCHANGE.knowing(odd.known), blame="client")
    argument = odd.at_end(CONNECTION.knowing(odd.closed_unanswered))
    return replace(
        argument,
        text=f"{odd.detail}: {odd.rule.sentence}{odd.often}; the connection was closed (packet {odd.end.packet})",
    )


ROWS: Final = (
    Rule(
        number=17,
        code="SASL_SEQUENCE",
        text="A request comes before its client is authenticated, or authenticates when the listener does not expect "
        "it.",
        provoked_by="Connect to a listener with SASL_PLAINTEXT.",
        source="Kafka: SaslServerAuthenticator; KIP-152",
        rests_on=(BETWEEN_DIRECTIONS,),
        at="end",
        weird=("SASL_SEQUENCE",),
        read="authentications",
        refused_with=(34,),
        checks=(Check(not_due),),
        sentence="its client had begun authentication and had not finished it",
        act="sent a request that is not due during authentication",
        weight=55,
        must="Between SaslHandshake and the last answer to SaslAuthenticate the client sends nothing else; "
        "ApiVersions comes before. Listeners without SASL receive neither request.",
        advice="Wait for the answer to SaslAuthenticate and check its error before the first request. Set "
        "security.protocol to that of the listener.",
        wrong="SaslHandshake → 0; Metadata, closed",
        right="SaslHandshake → 0; SaslAuthenticate → 0; Metadata, answered",
    ),
)
