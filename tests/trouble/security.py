"""Who clients are: nobody knows, or they say a name and a password, again and again (SASL; KIP-368)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Final

PASSWORD: Final = "secret"
_LOGIN: Final = "org.apache.kafka.common.security.plain.PlainLoginModule required"
#: After how long a client has to say again who it is; 0: once is enough.
_AGAIN_MS: Final = (0, 2000, 5000)
ADMINISTRATOR: Final = "administrator"
CLIENT: Final = "client"


@dataclass(frozen=True)
class Security:
    """Settings of brokers, and of clients by who they are; all empty where nobody has to say it."""

    brokers: Mapping[str, object] = field(default_factory=dict)
    of_java: Mapping[str, Mapping[str, object]] = field(default_factory=lambda: {ADMINISTRATOR: {}, CLIENT: {}})
    of_librdkafka: Mapping[str, object] = field(default_factory=dict)

    @property
    def knows_clients(self) -> bool:
        """Whether somebody can be denied something."""
        return bool(self.brokers)


def any_security(random: Random) -> Security:
    """None in half of all cases."""
    return Security() if random.random() < 0.5 else passwords(random.choice(_AGAIN_MS))


def passwords(again_ms: int) -> Security:
    """Names and passwords, with access control; clients have to say them again after so long."""
    users = (ADMINISTRATOR, CLIENT)
    own = f'{_LOGIN} username="{ADMINISTRATOR}" password="{PASSWORD}" ' + " ".join(
        f'user_{user}="{PASSWORD}"' for user in users
    )
    brokers = {
        "listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "listener.name.plaintext.plain.sasl.jaas.config": f"{own};",
        "listener.name.plaintext.plain.connections.max.reauth.ms": again_ms,
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "allow.everyone.if.no.acl.found": "true",
        "super.users": f"User:{ADMINISTRATOR};User:ANONYMOUS",  # the controllers' listener knows nobody
    }
    how = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"}
    of_java = {
        user: {**how, "sasl.jaas.config": f'{_LOGIN} username="{user}" password="{PASSWORD}";'} for user in users
    }
    return Security(brokers, of_java, {**how, "sasl.username": CLIENT, "sasl.password": PASSWORD})
