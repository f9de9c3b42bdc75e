"""CRC-32C (Castagnoli) in hardware: the checksum of record batches. Source: KIP-98; RFC 3720, appendix B.4."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib.machinery import PathFinder
from importlib.util import find_spec, module_from_spec

_Checksum = Callable[[bytes | memoryview], int]


@cache
def crc32c() -> _Checksum:
    """Return the checksum function.

    It is imported at the first call, and without its package: the package spends 20 ms to look up its own version.
    """
    package = find_spec("crc32c")
    extension = PathFinder.find_spec("crc32c._crc32c", None if package is None else package.submodule_search_locations)
    if extension is None or extension.loader is None:
        from crc32c import crc32c as checksum

        return checksum
    module = module_from_spec(extension)
    extension.loader.exec_module(module)
    checksum_in_c: _Checksum = module.crc32c
    return checksum_in_c
