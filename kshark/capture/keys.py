"""Key log files: the secrets with which TLS is decrypted, named in addition to a capture."""

from __future__ import annotations

from pathlib import Path

from kshark.capture.files import open_file, size_of
from kshark.errors import UsageError
from kshark.tls import KeyLog
from kshark.tls.protection import is_installed


def key_log(path: str | Path) -> bytes:
    """Return the text of a key log file. Raises UsageError if it is of no use, UnreadableInput if it cannot be read."""
    text = KeyFile(path).rest()
    if not len(KeyLog(text)):
        raise UsageError(
            f"{path}: no secrets of TLS in it; a line of them is CLIENT_RANDOM, or another label, and two hexadecimal "
            f"numbers"
        )
    return text


class KeyFile:
    """A key log file that may still grow, and may still be empty. Raises as `key_log` does."""

    def __init__(self, path: str | Path) -> None:
        if not is_installed():
            raise UsageError(
                "TLS is decrypted by the package cryptography, which is not installed; pip install 'kshark[tls]'"
            )
        self._path = path
        self._begin = 0
        size_of(path)

    def rest(self) -> bytes:
        """Return all bytes that were not read yet."""
        with open_file(self._path) as file:
            file.seek(self._begin)
            return file.read()

    def more(self) -> bytes:
        """Return the whole lines that were added since the last call."""
        if size_of(self._path) <= self._begin:
            return b""
        text = self.rest()
        whole = text[: text.rfind(b"\n") + 1]
        self._begin += len(whole)
        return whole
