"""The choices of the user, and how keys change them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Literal

from msgspec import Struct

from kshark.live.screen.columns import SORTS
from kshark.live.screen.rows import RowKey

#: The whole screen, or a page over it: the chosen member, the explanation of a cause, or the keys.
View = Literal["overview", "details", "explain", "help"]
#: What a key asks the program to do.
Action = Literal["quit", "save"]
#: Longest filter.
_FILTER: Final = 80
_ALL: Final = 1 << 30


class State(Struct):
    """`chosen`, `cause`: the row and the cause under the cursor, None: the first. `on_causes`: the cursor is on causes.

    `move`: lines by which the cursor shall move at the next drawing, `top`: the first line of a page.
    `group`: the group whose members are shown, None: all; `by_group`: rows are groups. `typing`: the filter is typed.
    """

    view: View = "overview"
    paused: bool = False
    sort: int = 0
    filter: str = ""
    typing: bool = False
    by_group: bool = False
    group: RowKey | None = None
    on_causes: bool = False
    chosen: RowKey | None = None
    cause: tuple[str, ...] | None = None
    move: int = 0
    top: int = 0
    message: str = ""

    def press(self, key: str) -> Action | None:
        """Change the state by a key, and return what the program shall do."""
        self.message = ""
        if self.typing:
            self._type(key)
            return None
        if key == "q" and self.view == "overview":
            return "quit"
        if key == "w":
            return "save"
        if key in _MOVES:
            self._move(_MOVES[key])
        elif key in _KEYS:
            _KEYS[key](self)
        return None

    def _type(self, key: str) -> None:
        if key == "enter":
            self.typing = False
        elif key == "esc":
            self.typing, self.filter = False, ""
        elif key == "backspace":
            self.filter = self.filter[:-1]
        elif len(key) == 1 and len(self.filter) < _FILTER:
            self.filter += key

    def _move(self, lines: int) -> None:
        if self.view == "overview":
            self.move += lines
        else:
            self.top = max(0, self.top + lines)

    def _back(self) -> None:
        """Leave the page, or else the nearest choice."""
        if self.view != "overview":
            self.view = "overview"
        elif self.filter:
            self.filter = ""
        elif self.group is not None or self.by_group:
            self.group, self.by_group = None, False
        else:
            self.chosen, self.cause, self.on_causes = None, None, False

    def _groups(self) -> None:
        """Show groups instead of members, or members again."""
        self.view = "overview"
        self.by_group, self.group, self.chosen = not self.by_group and self.group is None, None, None

    def _enter(self) -> None:
        if self.by_group and not self.on_causes:
            self.by_group, self.group, self.chosen = False, self.chosen or self.group, None
        else:
            self._page("explain" if self.on_causes else "details")

    def _page(self, view: View) -> None:
        self.view, self.top = "overview" if self.view == view else view, 0

    def _pause(self) -> None:
        self.paused = not self.paused

    def _filter(self) -> None:
        self.view, self.typing = "overview", True

    def _sort(self) -> None:
        self.sort = (self.sort + 1) % len(SORTS)

    def _tab(self) -> None:
        self.on_causes = not self.on_causes


_MOVES: Final = {
    "up": -1,
    "k": -1,
    "down": 1,
    "j": 1,
    "pageup": -10,
    "pagedown": 10,
    "home": -_ALL,
    "end": _ALL,
}
_KEYS: Final[dict[str, Callable[[State], None]]] = {
    "p": State._pause,
    " ": State._pause,
    "/": State._filter,
    "g": State._groups,
    "enter": State._enter,
    "e": lambda state: state._page("explain"),
    "s": State._sort,
    "tab": State._tab,
    "esc": State._back,
    "q": State._back,
    "backspace": State._back,
    "?": lambda state: state._page("help"),
    "h": lambda state: state._page("help"),
}
#: Help: keys and their meaning.
HELP: Final = (
    ("p", "pause the screen; the capture goes on"),
    ("/", "show members and findings that contain a text; Enter keeps it, Esc ends it"),
    ("g", "groups instead of members; Enter shows the members of one"),
    ("up down", "choose a row (also k and j, Page Up, Page Down, Home, End); Esc: the first one again"),
    ("Tab", "choose among the findings instead of the rows"),
    ("Enter", "the chosen member: its last requests, the records it holds, its findings"),
    ("e", "what a finding means, and what to do"),
    ("s", "sort by another column"),
    ("w", "save what the flight recorder holds"),
    ("q", "back; on the first page: end the capture, with the verdict"),
)
