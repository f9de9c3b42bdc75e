"""Key log files: the secrets with which TLS is decrypted, named in addition to a capture."""

from __future__ import annotations

import os
from pathlib import Path

from kshark.capture.files import open_file
from kshark.errors import UnreadableInput, UsageError
from kshark.tls import KeyLog
from kshark.tls.protection import is_installed


def key_log(path: str | Path) -> bytes:
    """Return the text of a key log file. Raises UsageError if it is of no use, UnreadableInput if it cannot be read."""
    file = KeyFile(path)
    try:
        text = file.rest()
    finally:
        file.close()
    if not len(KeyLog(text)):
        raise UsageError(
            f"{path}: no secrets of TLS in it; a line of them is CLIENT_RANDOM, or another label, and two hexadecimal "
            f"numbers"
        )
    return text


class KeyFile:
    """A key log file that may still grow, and may still be empty. Raises as `key_log` does.

    It stays open: later this process may not have the right to open it again.
    """

    def __init__(self, path: str | Path) -> None:
        if not is_installed():
            raise UsageError(
                "TLS is decrypted by the package cryptography, which is not installed; pip install 'kshark[tls]'"
            )
        self._path = path
        self._begin = 0
        self._file = open_file(path)

    def rest(self) -> bytes:
        """Return all bytes that were not read yet."""
        self._file.seek(self._begin)
        return self._file.read()

    def more(self) -> bytes:
        """Return the whole lines that were added since the last call, also to a file that has taken its place."""
        text = self.rest()
        if not text and self._is_replaced():
            text = self.rest()
        whole = text[: text.rfind(b"\n") + 1]
        self._begin += len(whole)
        return whole

    def close(self) -> None:
        self._file.close()

    def _is_replaced(self) -> bool:
        """Open the file that has taken the place of this one, if there is one that may be opened."""
        try:
            if os.path.samestat(os.stat(self._path), os.fstat(self._file.fileno())):
                return False
            file = open_file(self._path)
        except (OSError, UnreadableInput):
            return False
        self._file.close()
        self._file, self._begin = file, 0
        return True
