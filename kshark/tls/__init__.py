"""From TLS to what is inside, where its secrets are known. The stage between reassembly and framing."""

from kshark.tls.connection import unread
from kshark.tls.keylog import KeyLog
from kshark.tls.protection import is_installed
from kshark.tls.stage import TlsStage

__all__ = ["KeyLog", "TlsStage", "is_installed", "unread"]
