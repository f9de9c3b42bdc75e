"""`--tls-keys`: a key log file for decrypting TLS. The environment variable SSLKEYLOGFILE is ignored."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kshark.capture.keys import KeyFile


def add_tls_keys(parser: ArgumentParser, *, growing: bool = False) -> None:
    """Add `--tls-keys`: `args.tls_keys` is the content of the file, so that workers need no file.

    `growing`: it is a KeyFile that can read later lines.
    """
    text = "decrypt TLS with a key log file (SSLKEYLOGFILE format)"
    if growing:
        parser.add_argument("--tls-keys", metavar="FILE", type=_file, help=f"{text}; it may grow")
    else:
        parser.add_argument("--tls-keys", metavar="FILE", type=_text, default=b"", help=text)


def digest_of_keys(args: Namespace) -> str | None:
    """Return a digest that identifies the key log and reveals none of its keys; None without a key log."""
    if not args.tls_keys:
        return None
    import hashlib  # 4 ms, only needed here

    return hashlib.sha256(args.tls_keys).hexdigest()[:16]


def _text(path: str) -> bytes:
    from kshark.capture.keys import key_log  # only needed with --tls-keys

    return key_log(path)


def _file(path: str) -> KeyFile:
    from kshark.capture.keys import KeyFile

    return KeyFile(path)
