"""The opaque bytes of a classic group, by the group's protocol type: what members offer, and what the leader
assigns."""

from typing import Final

from kshark_dissectors.embedded import connect_protocol, consumer_protocol

SUBSCRIPTIONS: Final = {"consumer": consumer_protocol.SUBSCRIPTION, "connect": connect_protocol.METADATA}
ASSIGNMENTS: Final = {"consumer": consumer_protocol.ASSIGNMENT, "connect": connect_protocol.ASSIGNMENT}
