"""The screen of `kshark live`: who is in trouble, why, and what to do.

    model = Model(names.by_id)
    run = Run(registry, on_change=model.change)
    screen = Screen(model, Terminal(sys.stdout).paint, quit=stop)
    screen.start()  # then give it to the capture's loop as a consumer; `screen.end` restores the terminal

The model counts; `lines` is a pure function of a picture of it; only `Screen` has a thread, a terminal and signals.
"""

from __future__ import annotations

from kshark.live.screen.model import Model, Picture
from kshark.live.screen.screen import Screen
from kshark.live.screen.state import State
from kshark.live.screen.view import lines

__all__ = ["Model", "Picture", "Screen", "State", "lines"]
