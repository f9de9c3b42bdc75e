"""The flight recorder: holds the last packets of a running capture, and saves those around a violation.

The saved file alone gives the same finding.
"""

from kshark.live.recorder.options import RecorderOptions, recorder_options
from kshark.live.recorder.recorder import Recorder
from kshark.live.recorder.saving import Saving

__all__ = ["Recorder", "RecorderOptions", "Saving", "recorder_options"]
