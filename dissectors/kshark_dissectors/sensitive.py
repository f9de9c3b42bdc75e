"""Which configurations are credentials: those that Kafka declares as of type PASSWORD (ConfigDef.Type), by the end of
their names.

Names may have a listener's prefix (`listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config`) or belong to plug-ins,
which follow the same habits. Brokers never tell such a value (`is_sensitive`); who sets one sends it."""

from typing import Final

from kshark.schema import Secret

#: A configuration's value, by the name beside it, and in answers by the broker's word.
SENSITIVE_CONFIG: Final = Secret(
    flag="is_sensitive",
    name="name",
    ends=(
        "password",
        "passphrase",
        "secret",
        "secret.key",
        "master.key",
        "access.key",
        "private.key",
        "api.key",
        "keystore.key",
        "keystore.certificate.chain",
        "truststore.certificates",
        "jaas.config",
        "credentials",
        "token",
        "user.info",
    ),
)
