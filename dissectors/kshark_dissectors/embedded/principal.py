"""The principal of a forwarded request, as a broker reports it to the controller in Envelope (KIP-590). Kafka:
DefaultKafkaPrincipalBuilder."""

from kshark.places import Structure
from kshark.schema import boolean, layout, string, struct

DEFAULT_PRINCIPAL = layout(
    "DefaultPrincipalData",
    versions="0",
    flexible="0+",
    fields=struct(string("type"), string("name"), boolean("token_authenticated")),
)

PRINCIPAL = Structure(DEFAULT_PRINCIPAL)
