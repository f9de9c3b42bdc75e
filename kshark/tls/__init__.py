"""Decrypt TLS if its secrets are known. The stage between reassembly and framing."""

from kshark.tls.keylog import KeyLog
from kshark.tls.signs import unread
from kshark.tls.stage import TlsStage

__all__ = ["KeyLog", "TlsStage", "unread"]
