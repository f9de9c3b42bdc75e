"""Writes the screens anew: look at the differences before they are committed."""

from tests.live.screen.golden.writer import SHOWN

for shown in SHOWN:
    shown.path.write_text(shown.text)
    print(shown.path.name)
