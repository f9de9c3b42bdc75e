"""Which client broke which rule, and in which packets: python examples/broken_rules.py trace.pcap..."""

from __future__ import annotations

import sys
from collections import defaultdict

import kshark


def broken(*captures: str) -> dict[str, list[kshark.Finding]]:
    """Return the violations of each client, by its name."""
    found: defaultdict[str, list[kshark.Finding]] = defaultdict(list)
    for finding in kshark.check(*captures):
        if finding.verdict == "violation" and finding.blame == "client":
            found[finding.client_id or finding.client].append(finding)
    return found


def packets(witness: list[kshark.Witness]) -> list[int]:
    """Return the packets that prove a finding, for Wireshark's `frame.number in {...}`."""
    every = (packet for it in witness for packet in (it.request_packet, it.response_packet, it.packet))
    return sorted({packet for packet in every if packet is not None})


if __name__ == "__main__":
    for client, findings in sorted(broken(*sys.argv[1:]).items()):
        print(f"{client} ({findings[0].software})")
        for finding in sorted(findings, key=lambda it: -it.weight):
            print(f"  {finding.code} in {packets(finding.witness)}: {finding.argument}")
