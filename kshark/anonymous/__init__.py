"""Anonymous copies: names and addresses become pseudonyms, record payloads become zero bytes, and the rest stays, so
that a copy shows the same findings.
"""

from kshark.anonymous.pseudonyms import KINDS, Kind, Pseudonyms

__all__ = ["KINDS", "Kind", "Pseudonyms"]
