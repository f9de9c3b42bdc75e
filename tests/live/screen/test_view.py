"""What the screen shows, and what keys do."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest
from msgspec.structs import replace
from rich.cells import cell_len

from kshark.live import Lost, Status
from kshark.live.screen import Model, Picture, State, lines
from kshark.live.screen.rows import Beat, Fading, Row, RowKey
from kshark.model import Finding
from kshark.output.spans import plain
from tests.conversation import INVALID_SHARE_SESSION_EPOCH, Conversation
from tests.live.screen.golden.writer import SHOWN, Shown
from tests.live.screen.playing import screen_of, talked
from tests.output.test_findings import NOON_NS, finding
from tests.shared import ROOT

SIZES = [(80, 24), (160, 50), (40, 10)]
SECOND_NS = 1_000_000_000


@pytest.mark.parametrize("shown", SHOWN, ids=lambda shown: shown.path.stem)
def test_the_screen_of_a_capture(shown: Shown) -> None:
    """Written by `python -m tests.live.screen.golden`."""
    assert shown.text == shown.path.read_text()


def test_the_documentation_shows_one_of_them() -> None:
    lines_of = SHOWN[0].path.read_text().splitlines()
    assert "\n".join([*lines_of[:15], lines_of[-1]]) in (ROOT / "docs" / "live.md").read_text()


def member(name: str, group: str = "g", **fields: Any) -> Row:
    beat = Beat(NOON_NS, SECOND_NS, 1)
    return Row(
        RowKey(0, group, name.ljust(22, "A")), name, since_ns=NOON_NS, last_ns=NOON_NS, **{"beat": beat, **fields}
    )


def picture(rows: Sequence[Row] = (), findings: Sequence[Finding] = (), **status: Any) -> Picture:
    model = Model({})
    model.page([], findings)
    state = {"interfaces": ("eth0",), "since_ns": NOON_NS, "now_ns": NOON_NS + SECOND_NS, "packets": 9, **status}
    model.status(Status(**state))
    assert model.picture is not None
    return replace(model.picture, rows=[*rows])


class Looking:
    """A user before a screen: `press` keys, and look at its `lines`."""

    def __init__(self, of: Picture, size: tuple[int, int] = (80, 24)) -> None:
        self.picture, self.size, self.state = of, size, State()
        self.actions: list[str | None] = []

    def press(self, *keys: str) -> Looking:
        for key in keys:
            self.actions.append(self.state.press(key))
            lines(self.picture, *self.size, self.state)
        return self

    @property
    def lines(self) -> list[str]:
        return [plain(line).rstrip() for line in lines(self.picture, *self.size, self.state)]

    @property
    def clients(self) -> list[str]:
        """The clients of the table, from its top."""
        titles, *rest = self.lines[2:]
        at = titles.index("client")
        table = [line for line in rest[: rest.index("─" * self.size[0])] if "more" not in line]
        return [line[at:].split()[0] for line in table]

    @property
    def chosen(self) -> str:
        """The marked words."""
        for line in lines(self.picture, *self.size, self.state):
            if marked := "".join(text for text, style in line if style == "chosen").split():
                return marked[-1]
        return ""


# -- the first page


def test_before_the_first_packet_it_waits() -> None:
    assert "  Waiting for packets." in Looking(picture(packets=0)).lines


def test_traffic_without_groups_is_no_error() -> None:
    assert "  9 packets, no member of a group has sent a request yet." in Looking(picture()).lines


def test_the_head_says_how_the_capture_is() -> None:
    of = picture(
        [member("a"), member("b", "h")], [finding()], delay_ns=2 * SECOND_NS, dropped=137, recorder="60 s/112 MB"
    )
    first, second, *_ = Looking(of, (100, 24)).lines
    assert first == "kshark  eth0  12:03:07  up 1 s  0 packets/s  0 brokers  2 groups  2 members"
    assert second == "1 VIOLATION  0 not proved  0 notes  lost 137  behind 2.0 s  rec 60 s/112 MB"


def test_a_link_that_is_down_is_said_first() -> None:
    assert Looking(picture(down=("eth0",)), (40, 10)).lines[0].startswith("kshark  eth0 down")


def test_losses_are_said_when_and_that_nobody_is_blamed() -> None:
    lost = (Lost(NOON_NS - SECOND_NS, NOON_NS, 137),)
    assert Looking(picture(dropped=137, lost=lost)).lines[2] == (
        "137 packets lost 12:03:06.4 to 12:03:07.4 (no room): nobody is blamed for that"
    )
    assert "lost 12:03" not in "\n".join(
        Looking(picture(dropped=137, lost=lost, now_ns=NOON_NS + 90 * SECOND_NS)).lines
    )


def test_who_is_in_trouble_comes_first() -> None:
    rows = [
        member("calm"),
        member("refused", trouble=Fading(40.0, NOON_NS)),
        member("late", beat=Beat(NOON_NS - 9 * SECOND_NS, SECOND_NS, 1)),
        member("breaks", trouble=Fading(400.0, NOON_NS), violations=3),
    ]
    assert Looking(picture(rows)).clients == ["breaks", "late", "refused", "calm"]


def test_old_trouble_fades() -> None:
    rows = [
        member("before", trouble=Fading(4000.0, NOON_NS - 600 * SECOND_NS), violations=90),
        member("now", trouble=Fading(50.0, NOON_NS)),
    ]
    assert Looking(picture(rows)).clients == ["now", "before"]


def test_what_hurts_first_comes_first_with_what_to_do() -> None:
    killed = finding(code="SESSION_KILLED_BY_OLD_CONNECTION", blame="broker", cause=None)
    of = picture([member("a")], [*[finding()] * 3, killed, finding(code="NO_RECOVERY", verdict="unknown", cause=None)])
    text = Looking(of, (120, 24)).lines
    codes = [line.split()[1 + line.split()[1].startswith("x")] for line in text if line.startswith("12:03:07 ")]
    assert codes == ["SESSION_KILLED_BY_OLD_CONNECTION", "EPOCH_SKIP_AHEAD", "NO_RECOVERY"]
    assert (
        "  → Upgrade the brokers to 4.2. Until then, open the new session after the old connection is closed."
        in "\n".join(text)
    )
    assert any("x3    EPOCH_SKIP_AHEAD" in line for line in text)


def test_findings_of_several_clients_are_one_line_that_names_them() -> None:
    of = picture([], [finding(client_id=name, member_id=name) for name in ("a", "b", "c", "d", "a")])
    assert sum("EPOCH_SKIP_AHEAD" in line for line in Looking(of).lines) == 1
    assert any("x5    EPOCH_SKIP_AHEAD       a, b +2: " in line for line in Looking(of).lines)


def test_a_party_is_not_named_twice() -> None:
    text = "Broker 10.0.1.5:9092 was down for 6.8 s"
    down = finding(code="BROKER_DOWN", verdict="note", blame="broker", cause=None, argument=text)
    assert any(f" BROKER_DOWN            {text}" in line for line in Looking(picture([], [down])).lines)


def test_what_happened_long_ago_comes_after_what_happens() -> None:
    old = finding(code="SESSION_KILLED_BY_OLD_CONNECTION", blame="broker", time_ns=NOON_NS - 400 * SECOND_NS)
    text = "\n".join(Looking(picture([], [old, finding()])).lines)
    assert text.index("EPOCH_SKIP_AHEAD") < text.index("SESSION_KILLED_BY_OLD_CONNECTION")


# -- keys


ROWS = [member(name, group, trouble=Fading(300.0 - at * 100, NOON_NS)) for at, (name, group) in enumerate(
    [("a1", "orders"), ("b1", "pay"), ("a2", "orders")]
)]  # fmt: skip


def test_arrows_choose_a_member_who_stays_chosen_when_the_order_changes() -> None:
    looking = Looking(picture(ROWS)).press("down")
    assert (looking.clients, looking.chosen) == (["a1", "b1", "a2"], "b1")
    looking.picture = picture([replace(row, trouble=Fading(500.0 * (row.client_id == "a2"), NOON_NS)) for row in ROWS])
    assert (looking.clients[0], looking.chosen) == ("a2", "b1")
    assert looking.press("esc").chosen == "a2"
    assert looking.press("end", "down").chosen == looking.clients[-1]
    assert looking.press("k", "home").chosen == "a2"


def test_a_filter_is_typed_and_leaves_what_has_its_text() -> None:
    looking = Looking(picture(ROWS, [finding(client_id="b1"), finding(client_id="a1", code="EPOCH_STALE")])).press("/")
    assert looking.lines[-1].startswith("/▏")
    looking.press("B", "q", "backspace", "1")
    assert looking.clients == ["b1"]
    assert looking.press("enter").lines[-1].startswith("/B1 (Esc)  q quit")
    assert not any("EPOCH_STALE" in line for line in looking.lines)
    assert looking.press("esc").clients == ["a1", "b1", "a2"]
    assert "  Nothing passes the filter. Esc shows everything again." in looking.press("/", "x", "y").lines


def test_g_shows_groups_and_enter_the_members_of_one() -> None:
    looking = Looking(picture(ROWS)).press("g")
    assert [line.split()[1:4] for line in looking.lines[3:5]] == [["orders", "2", "members"], ["pay", "1", "member"]]
    assert looking.press("enter").clients == ["a1", "a2"]
    assert looking.lines[-1].startswith("group orders (Esc)")
    assert looking.press("esc").clients == ["a1", "b1", "a2"]


def test_s_sorts_by_the_next_column() -> None:
    rows = [member("few", refused=2), member("many", refused=9, trouble=Fading(0.1, NOON_NS)), member("none")]
    looking = Looking(picture(rows))
    looking.press("s", "s")
    assert looking.clients == ["many", "few", "none"]


def test_enter_shows_the_chosen_member_and_q_leaves_the_page_before_the_program() -> None:
    looking = Looking(picture(ROWS)).press("down", "enter")
    assert looking.lines[2] == "client b1  group pay"
    assert looking.press("q").clients == ["a1", "b1", "a2"]
    assert looking.actions == [None, None, None]
    assert looking.press("q").actions[-1] == "quit"


def test_w_saves_wherever_it_is_pressed() -> None:
    assert Looking(picture(ROWS)).press("w", "enter", "w").actions == ["save", None, "save"]


def test_e_explains_the_finding_under_the_cursor() -> None:
    looking = Looking(picture([], [finding(), finding(code="EPOCH_STALE", cause="stale")]), (100, 40))
    text = "\n".join(looking.press("tab", "down", "e").lines)
    assert "EPOCH_STALE  violation by client billing-3 · stale" in text
    assert "the last one" in text
    assert looking.press("e").lines[-1].startswith("q quit")


def test_a_page_is_scrolled_to_its_end_and_no_further() -> None:
    looking = Looking(picture([], [finding()]), (80, 12)).press("e")
    begin = looking.lines
    end = looking.press("end").lines
    assert end != begin
    assert looking.press("down", "pagedown").lines == end
    assert looking.press("home").lines == begin


def test_help_names_every_key_of_the_last_line() -> None:
    looking = Looking(picture(ROWS), (160, 24))
    named = {part.split()[0] for part in looking.lines[-1].split("  ")}
    text = [line.split()[0] for line in looking.press("?").lines[3:-1] if line]
    assert named - {"?"} <= {*text}


# -- any size, any name


@pytest.mark.parametrize("size", [*SIZES, (1, 1), (3, 2), (20, 5), (39, 9), (80, 7), (131, 36), (400, 120)])
@pytest.mark.parametrize("keys", [(), ("enter",), ("e",), ("?",), ("g",), ("tab", "down"), ("/", "g")])
def test_lines_fit_at_every_size(size: tuple[int, int], keys: tuple[str, ...]) -> None:
    lost = (Lost(NOON_NS, NOON_NS, 1),)
    rows = [member(f"m{at}", trouble=Fading(float(at), NOON_NS)) for at in range(60)]
    of = picture(rows, [finding(), finding(code="EPOCH_STALE"), finding(verdict="unknown")], lost=lost, dropped=1)
    looking = Looking(of, size).press(*keys)
    shown = looking.lines
    assert len(shown) <= size[1]
    assert all(cell_len(line) <= size[0] for line in shown)


HOSTILE = [
    "\x1b]0;owned\x07\x1b[2J",
    "名前が長いクライアント" * 9,
    "e" + "\u0301" * 5_000,
    "\u202eevil\u202c",
    "a\tb\nc\r",
    "👩‍👩‍👧‍👦" * 20,
    "\ud800".encode("utf-8", "surrogatepass").decode("utf-8", "replace") + "\x00",
    " " * 300,
    "",
]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", HOSTILE, ids=range(len(HOSTILE)))
def test_names_of_packets_cannot_leave_their_cells(name: str, size: tuple[int, int]) -> None:
    talk = Conversation()
    connection = talk.connection()
    connection.client_id = name
    one = talk.member("m", group=name or "g", connection=connection)
    one.share_fetch(epoch=0).answered()
    one.share_fetch(epoch=4).answered(INVALID_SHARE_SESSION_EPOCH)
    of = talked(talk).model.picture
    assert of is not None
    assert of.verdicts == {"violation": 1}
    for keys in ((), ("enter",), ("e",), ("g",)):
        text = screen_of(of, size, *keys)
        for line in text.splitlines():
            assert line.isprintable()
            assert cell_len(line) <= size[0]
            assert len(line) <= 12 * size[0]


def test_ten_thousand_members_are_as_many_lines_as_fit() -> None:
    rows = [member(f"m{at:05}", f"g{at % 50}", trouble=Fading(float(at % 7), NOON_NS)) for at in range(10_000)]
    looking = Looking(picture(rows))
    assert len(looking.lines) == 24
    assert any("more members by trouble" in line for line in looking.lines)
    assert looking.press("end").chosen == looking.clients[-1]
    assert any(" before, " in line for line in looking.lines)


def test_any_keys_at_any_time_show_lines_that_fit() -> None:
    chance = random.Random(11)
    names = ["a", "名前", "\u0301e", "x" * 90]
    keys = [*"pgesw/?qjk \u00e4", "enter", "esc", "tab", "up", "down", "pageup", "pagedown", "home", "end", "backspace"]
    codes = ["EPOCH_SKIP_AHEAD", "EPOCH_STALE", "SESSION_KILLED_BY_OLD_CONNECTION", "NO_RECOVERY", "NEVER_ACKED"]
    looking = Looking(picture())
    for _ in range(1_500):
        if chance.random() < 0.1:
            rows = [member(f"{chance.choice(names)}{at}", chance.choice(names)) for at in range(chance.randrange(40))]
            found = [
                finding(code=chance.choice(codes), client_id=chance.choice(names), cause=None)
                for _ in range(chance.randrange(12))
            ]
            looking.picture = picture(rows, found)
            looking.size = chance.randrange(1, 170), chance.randrange(1, 60)
        looking.press(chance.choice(keys))
        shown = looking.lines
        assert len(shown) <= looking.size[1]
        assert all(cell_len(line) <= looking.size[0] for line in shown)
