"""When a connection may be used that asks for authentication. Rule 17."""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from kshark.analysis.facts.argument import CONNECTION, Argument
from kshark.analysis.rules.byte_fault import ByteFault
from kshark.analysis.rules.rule import Check, Rule


def not_due(odd: ByteFault) -> Argument | None:
    """The broker says so, or closes the connection without a word; a client that closes may have seen no refusal
    yet."""
    call = odd.call
    if odd.end is None or not odd.is_over:
        return None
    if call.answer is not None:
        text = (
            f"{call.here} was refused with ILLEGAL_SASL_STATE: the listener asks for no authentication, or not now "
            f"({call.packets})"
        )
        return replace(odd.at_end(), text=text, blame="client", because=odd.doubt)
    argument = odd.at_end(CONNECTION, because=None if odd.closed_by == "broker" else "end_not_seen")
    return replace(
        argument,
        text=f"{odd.detail}: {odd.rule.sentence}{odd.often}; the connection was closed (packet {odd.end.packet})",
    )


ROWS: Final = (
    Rule(
        number=17,
        code="SASL_SEQUENCE",
        text="A request that is not due: before its client is authenticated, or to authenticate where nobody asks for "
        "that.",
        source="Kafka: SaslServerAuthenticator; KIP-152",
        at="end",
        weird=("SASL_SEQUENCE",),
        read="authentications",
        refused_with=(34,),
        checks=(Check(not_due),),
        sentence="its client had begun to authenticate itself, and was not done",
        must="Between SaslHandshake and the last answer to SaslAuthenticate nothing else is sent, but ApiVersions "
        "before; and neither is sent to listeners without SASL.",
        advice="Wait for the answer to SaslAuthenticate and look at its error before the first request; and set "
        "security.protocol to that of the listener.",
        wrong="SaslHandshake → 0; Metadata, closed",
        right="SaslHandshake → 0; SaslAuthenticate → 0; Metadata, answered",
    ),
)
