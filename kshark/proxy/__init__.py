"""Read PROXY headers, which load balancers send before the bytes of a client. The stage between reassembly and tls."""

from kshark.proxy.stage import ProxyStage

__all__ = ["ProxyStage"]
