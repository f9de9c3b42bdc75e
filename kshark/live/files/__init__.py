"""Files that a running capture writes: pcapng (`-w`), rotated as tshark does it, and tables (`--export`)."""

from kshark.live.files.capture_files import CaptureFiles
from kshark.live.files.conditions import Conditions, autostop, need_conditions, ring_buffer
from kshark.live.files.folder import need_writable
from kshark.live.files.interfaces import Interfaces

__all__ = ["CaptureFiles", "Conditions", "Interfaces", "autostop", "need_conditions", "need_writable", "ring_buffer"]
