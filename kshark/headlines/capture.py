"""Headlines about the capture: what of it cannot be trusted, if that matters for the verdict."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kshark.analysis import Observed
from kshark.headlines.headline import Headline
from kshark.output.catalogue import CODES
from kshark.output.findings import FindingCounts
from kshark.units import counted, number, size

#: Reasons of unknown findings that missing bytes give.
_LOST: Final = ("gap", "capture_lost", "resync", "cut")


def capture_headlines(observed: Observed, counts: FindingCounts) -> Iterator[Headline]:
    """Yield what is wrong with the capture, and what that means for the verdict."""
    defects = observed.defects
    if observed.body_cut and (cut := defects["SNAP_LENGTH_CUT"]):
        text = (
            f"This capture is cut: {counted(cut, 'packet')} lost {size(observed.defect_bytes['SNAP_LENGTH_CUT'])} to "
            f"the snap length. {number(observed.body_cut)} of {counted(observed.exchanges, 'request')} can be judged "
            "only in part."
        )
        yield _headline(text, "SNAP_LENGTH_CUT", "Record again with tcpdump -s 0.")
    if dropped := defects["PACKETS_DROPPED"]:
        text = f"The recording host dropped {counted(dropped, 'packet')}: they are missing here."
        yield _headline(text, "PACKETS_DROPPED")
    unproved = sum(counts.reasons[reason] for reason in _LOST)
    if observed.missing_bytes and unproved:
        text = (
            f"This capture has {counted(observed.gaps, 'gap')} ({size(observed.missing_bytes)} missing): for that "
            f"reason {counted(unproved, 'finding')} cannot be proved."
        )
        yield _headline(text, "STREAM_GAP", "Record again with a larger buffer: tcpdump -B 65536.")
    code = next((code for code in ("CLOCK_STEP", "CLOCK_STOPPED") if defects[code]), None)
    if code is not None and (clock := counts.reasons["clock"]):
        what = "was stepped" if code == "CLOCK_STEP" else "stood still"
        text = f"The capture's clock {what}: for that reason {counted(clock, 'finding')} cannot be proved."
        yield _headline(text, code)
    if defects["CAPTURE_UNREAD"]:
        text = f"{size(observed.defect_bytes['CAPTURE_UNREAD'])} at the end of the file could not be read."
        yield _headline(text, "CAPTURE_UNREAD")


def _headline(text: str, code: str | None, advice: str | None = None) -> Headline:
    if advice is None:
        advice = "" if code is None else CODES[code].advice
    return Headline("capture", text, advice, code, blame="capture")
