"""Capture filters: libpcap compiles them, through scapy, to programs of the kernel's packet filter (BPF)."""

from __future__ import annotations

import logging
import struct
from typing import Any, Final

from kshark.errors import UsageError

ANY: Final = "any"
#: From linux/filter.h: return a constant, the number of bytes of the packet to keep.
_RETURN: Final = 0x06
#: pcap's name for packets that begin with an IP header, for which filters of `any` are compiled.
_DLT_RAW: Final = 12
#: Code, two jumps, constant.
_INSTRUCTION: Final = struct.Struct("=HBBI")


def program_of(bpf: str | None, interface: str, snap_length: int) -> bytes:
    """Return the program of a filter, which keeps `snap_length` bytes of a packet. Raises UsageError."""
    if bpf is None:
        return _INSTRUCTION.pack(_RETURN, 0, 0, snap_length)
    compiled, free = _compiled(bpf, interface)
    program = []
    for at in range(compiled.bf_len):
        one = compiled.bf_insns[at]
        # scapy's constant is 65535, and offloaded packets are longer
        kept = snap_length if one.code == _RETURN and one.k else one.k
        program.append(_INSTRUCTION.pack(one.code, one.jt, one.jf, kept))
    free(compiled)
    return b"".join(program)


def _compiled(bpf: str, interface: str) -> tuple[Any, Any]:
    logging.getLogger("scapy").setLevel(logging.ERROR)
    try:
        from scapy.arch.common import compile_filter, free_filter
        from scapy.error import Scapy_Exception
    except ImportError:
        raise UsageError("a capture filter needs scapy: pip install 'kshark[live]'") from None
    try:
        if interface == ANY:
            return compile_filter(bpf, linktype=_DLT_RAW), free_filter
        return compile_filter(bpf, interface), free_filter
    except (Scapy_Exception, ImportError, OSError) as error:
        raise UsageError(f"the capture filter cannot be used (libpcap compiles it): {error}") from None
