"""`--tls-keys`: a key log file with which TLS is decrypted. The environment's SSLKEYLOGFILE is not looked at."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kshark.capture.keys import KeyFile


def add_tls_keys(parser: ArgumentParser, *, growing: bool = False) -> None:
    """`--tls-keys`: in `args.tls_keys` stands the file's text, so that whoever has the arguments needs no file;
    `growing`: the file."""
    text = "decrypt TLS with a key log file, as SSLKEYLOGFILE makes it"
    if growing:
        parser.add_argument("--tls-keys", metavar="FILE", type=_file, help=f"{text}; it may go on growing")
    else:
        parser.add_argument("--tls-keys", metavar="FILE", type=_text, default=b"", help=text)


def said_of_keys(args: Namespace) -> str | None:
    """What tells one key log from another, and nothing of what is in it; None without one."""
    if not args.tls_keys:
        return None
    import hashlib  # 4 ms, which every command would begin with

    return hashlib.sha256(args.tls_keys).hexdigest()[:16]


def _text(path: str) -> bytes:
    from kshark.capture.keys import key_log  # only who names one needs it

    return key_log(path)


def _file(path: str) -> KeyFile:
    from kshark.capture.keys import KeyFile

    return KeyFile(path)
