"""Live capture on network interfaces of our own, with real packets: `make test-live`.

It needs root, iproute2, tcpreplay and tcpdump. KSHARK_LIVE_SECONDS is how long packets are sent at full rate (5).
"""
