"""Capture network interfaces: a process that only writes the kernel's blocks to a spool, and its reader."""

from kshark.capture.live.capture import LiveCapture
from kshark.capture.live.rights import User, chosen_user, give_up_rights

__all__ = ["LiveCapture", "User", "chosen_user", "give_up_rights"]
