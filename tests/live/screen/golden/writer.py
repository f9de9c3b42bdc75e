"""The screens that a reviewer can read: a capture, the seconds after its first packet, the size, and pressed keys."""

from __future__ import annotations

from pathlib import Path
from typing import Final, NamedTuple

from tests.live.screen.playing import played, screen_of
from tests.shared import CAPTURES


class Shown(NamedTuple):
    capture: str
    seconds: float
    size: tuple[int, int]
    keys: tuple[str, ...] = ()

    @property
    def path(self) -> Path:
        keys = "".join(f"-{key}" for key in self.keys)
        return Path(__file__).parent / f"{self.capture}-{self.size[0]}x{self.size[1]}{keys}.txt"

    @property
    def text(self) -> str:
        picture = played(CAPTURES / f"{self.capture}.pcap", self.seconds).model.picture
        assert picture is not None
        return screen_of(picture, self.size, *self.keys)


SHOWN: Final = (
    Shown("adv-acks", 16, (80, 24)),
    Shown("adv-acks", 16, (80, 24), ("enter",)),
    Shown("adv-acks", 16, (80, 24), ("tab", "down", "e")),
    Shown("adv-acks", 16, (40, 10)),
    Shown("adv-sessions-4.2.1", 20, (160, 50)),
    Shown("share-java-implicit-4.2.1", 12, (80, 24)),
    Shown("share-java-implicit-4.2.1", 12, (160, 50)),
    Shown("share-leaders", 30, (80, 24), ("g",)),
)
