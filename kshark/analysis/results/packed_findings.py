"""Findings that wait to be shown in the order of packets: about 400 bytes each, as objects 2 kB."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final

import msgspec
from msgspec import UNSET
from msgspec.structs import astuple

from kshark.analysis.results.findings import in_packet_order
from kshark.analysis.results.packed import Packed
from kshark.model import Finding, Witness

_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder(list).decode
_WITNESS: Final = Finding.__struct_fields__.index("witness")
#: The first of the fields, at the end, that may be UNSET.
_OPTIONAL: Final = Finding.__struct_fields__.index("until_ns")
#: The fields of a witness before the files of its packets; these are added to a finding when it is shown.
_PLACES: Final = Witness.__struct_fields__.index("places")


class PackedFindings:
    """Collect findings as they are proved. Iterate to get them in the order of packets, each time as new objects.

    The files of their witnesses are not kept. `shown`: applied to each finding when it is returned.
    """

    def __init__(self, findings: Iterable[Finding] = (), shown: Callable[[Finding], Finding] | None = None) -> None:
        self._packed = Packed()
        self._shown = shown
        self.add(findings)

    def add(self, findings: Iterable[Finding]) -> None:
        for finding in findings:
            self._packed.add(finding.packet, pack(finding))

    def __len__(self) -> int:
        return len(self._packed)

    def __iter__(self) -> Iterator[Finding]:
        return self.since(0)

    def since(self, skipped: int) -> Iterator[Finding]:
        """Yield the findings after the first `skipped` added ones, in the order of packets."""
        for same in self._packed.since(skipped):
            findings = in_packet_order(map(unpack, same))
            yield from findings if self._shown is None else map(self._shown, findings)


def pack(finding: Finding) -> bytes:
    """Encode a finding, without the files of its witnesses."""
    values = [*astuple(finding)]
    values[_WITNESS] = [astuple(witness)[:_PLACES] for witness in finding.witness]
    values[_OPTIONAL:] = ["" if value is UNSET else value for value in values[_OPTIONAL:]]
    return _encode(values)


def unpack(packed: bytes | bytearray) -> Finding:
    """Decode an encoded finding."""
    values = _decode(packed)
    values[_WITNESS] = [Witness(*witness) for witness in values[_WITNESS]]
    values[_OPTIONAL:] = [UNSET if value == "" else value for value in values[_OPTIONAL:]]
    return Finding(*values)
