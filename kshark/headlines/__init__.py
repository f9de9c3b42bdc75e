"""Headlines: what the findings of a capture mean for a person on call, in the order in which it matters."""

from __future__ import annotations

from kshark.headlines.alike import Sort, sort_of
from kshark.headlines.capture import capture_headlines
from kshark.headlines.collecting import NO_OUTCOMES, Headlines
from kshark.headlines.headline import Headline
from kshark.headlines.screen import screen

__all__ = ["NO_OUTCOMES", "Headline", "Headlines", "Sort", "capture_headlines", "screen", "sort_of"]
