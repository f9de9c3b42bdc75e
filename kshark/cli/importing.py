"""Import everything that a running capture may need: another user may not be able to read the files of modules."""

from __future__ import annotations

import importlib
import os
import pkgutil
import stat
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final

import kshark
import kshark_dissectors
from kshark.capture.live import User

#: Packages that are imported inside functions, as far as they are installed.
INSIDE: Final = (
    "crc32c",
    "cryptography.exceptions",
    "cryptography.hazmat.primitives.ciphers",
    "cryptography.hazmat.primitives.ciphers.algorithms",
    "cryptography.hazmat.primitives.ciphers.modes",
    "google.protobuf.message",
    "opentelemetry.proto.metrics.v1.metrics_pb2",
    "pyarrow.compute",
    "re2",
    *(
        "base64",
        "concurrent.futures",
        "difflib",
        "fcntl",
        "hashlib",
        "importlib.metadata",
        "importlib.util",
        "traceback",
    ),
)
#: Modules that a running capture does not need.
_OTHERS: Final = ("kshark.__main__", "kshark.testing", "kshark.report", "kshark.diff", "kshark.wireshark")


def import_all(user: User | None) -> None:
    """Import all modules, unless this user can read their files."""
    files = (kshark.__file__, kshark_dissectors.__file__, os.__file__, importlib.import_module("numpy").__file__)
    if user is None or all(file is not None and can_read(user, Path(file)) for file in files):
        return
    for package in (kshark, kshark_dissectors):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if not module.name.startswith(_OTHERS):
                with suppress(ImportError):  # of an optional package
                    importlib.import_module(module.name)
    _import(INSIDE)


def _import(names: Iterable[str]) -> None:
    for name in names:
        with suppress(ImportError):
            importlib.import_module(name)


def can_read(user: User, file: Path) -> bool:
    """True if the user may read the file and enter all folders above it."""
    needs = [(file.resolve(), stat.S_IROTH), *((folder, stat.S_IXOTH) for folder in file.resolve().parents)]
    return all(_allows(user, path.stat(), bit) for path, bit in needs)


def _allows(user: User, found: os.stat_result, bit: int) -> bool:
    if found.st_uid == user.uid:
        return bool(found.st_mode & bit << 6)
    return bool(found.st_mode & (bit << 3 if found.st_gid == user.gid else bit))
