"""Read capture files and pipes as packet batches, the only input; `kshark.capture.live` reads interfaces."""

from kshark.capture.captures import Captures, each_capture, expand, open_captures
from kshark.capture.numbering import Numbering
from kshark.capture.source import Capture, open_capture, read_bytes

__all__ = ["Capture", "Captures", "Numbering", "each_capture", "expand", "open_capture", "open_captures", "read_bytes"]
