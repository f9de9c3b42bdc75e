"""A browser shows the page without a network: no error, nothing asked for, nothing wider than the window, light and
dark."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command import runner
from tests.report.browser import Browser, chromium
from tests.shared import CAPTURES, ROOT

#: axe-core checks the accessibility of a page. It is no part of the project: `npm install axe-core` brings it.
_AXE = Path(os.environ.get("AXE_CORE", ROOT / "node_modules/axe-core/axe.min.js"))


@pytest.mark.sweep
@pytest.mark.parametrize(
    "name", ["adv-epochs", *(pytest.param(name, marks=pytest.mark.slow) for name in ("share-restart", "adv-frames"))]
)
def test_a_browser_shows_it(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runner(capsys)("report", CAPTURES / f"{name}.pcap", "-o", tmp_path)
    page = tmp_path / "report.html"
    with chromium() as browser:
        for width in (1280, 390):
            light, dark = (browser.show(page, width, theme) for theme in ("light", "dark"))
            for seen in (light, dark):
                assert seen.console == []
                assert seen.requests == [page.as_uri()]
                assert seen.width == width
            assert light.ground != dark.ground


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report of a capture with 49 findings of one client."""
    from kshark.cli import main

    folder = tmp_path_factory.mktemp("report")
    main(["report", str(CAPTURES / "adv-epochs.pcap"), "-q", "-o", str(folder)])
    return folder / "report.html"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as opened:
        yield opened


def value(browser: Browser, expression: str) -> Any:
    """The value of an expression in the page, awaited."""
    done = browser.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
    assert "exceptionDetails" not in done, done
    return done["result"].get("value")


def choose(browser: Browser, **fields: str) -> tuple[str, int, int]:
    """Fill in the form: what it counts, the rows that are shown, and the kinds that are open."""
    for name, text in fields.items():
        value(browser, f"document.getElementById('find').elements[{json.dumps(name)}].value = {json.dumps(text)}")
    value(browser, "document.getElementById('find').requestSubmit()")
    counted = value(browser, "document.querySelector('output').textContent")
    shown = value(browser, "document.querySelectorAll('.kind:not([hidden]) tbody tr:not([hidden])').length")
    return counted, shown, value(browser, "document.querySelectorAll('.kind[open]').length")


def test_findings_are_searched_and_filtered(browser: Browser, page: Path) -> None:
    browser.show(page, 1280, "light")
    assert choose(browser) == ("49 of 49 findings", 49, 0)
    assert choose(browser, verdict="violation") == ("31 of 49 findings", 31, 17)
    assert choose(browser, code="NO_RECOVERY")[0] == "3 of 49 findings"
    assert choose(browser, verdict="")[0] == "9 of 49 findings"
    assert choose(browser, words="INSTEAD opening")[1] == 9
    assert choose(browser, words="no such words")[1:] == (0, 0)
    assert choose(browser, words="", code="", client="1")[0] == "49 of 49 findings"


def test_several_captures_are_shown_and_searched_by_code(browser: Browser, tmp_path: Path) -> None:
    from kshark.cli import main

    files = [str(CAPTURES / f"{name}.pcap") for name in ("adv-acks", "adv-epochs", "tcp-var-base")]
    main(["report", *files, "--each", "-q", "-o", str(tmp_path)])
    page = tmp_path / "report.html"
    shown = [browser.show(page, width, theme) for width, theme in ((1280, "light"), (390, "dark"))]
    for seen, width in zip(shown, (1280, 390), strict=True):
        assert (seen.console, seen.requests, seen.width) == ([], [page.as_uri()], width)
    assert shown[0].ground != shown[1].ground
    search = "document.getElementById('find').elements.words.value = 'epoch_replay'"
    value(browser, f"{search}; document.getElementById('find').requestSubmit()")
    assert value(browser, "document.querySelector('output').textContent") == "1 of 3 captures"
    first = "[...document.querySelectorAll('{} tbody tr:not([hidden]) a')].map(link => link.textContent)[0]"
    assert [value(browser, first.format(table)) for table in (".captures", ".heat")] == ["adv-epochs.pcap"] * 2


def test_columns_are_sorted_by_buttons(browser: Browser, page: Path) -> None:
    browser.show(page, 1280, "light")
    for times, order in ((1, "ascending"), (2, "descending"), (3, "ascending")):
        value(browser, "document.querySelector('.kind th button').click()")
        assert value(browser, "document.querySelector('.kind th').getAttribute('aria-sort')") == order, times
        ids = value(browser, "[...document.querySelector('.kind tbody').rows].map(row => row.id)")
        assert (ids == sorted(ids)) == (order == "ascending")


def test_a_link_to_a_finding_opens_its_kind_even_if_it_was_filtered_out(browser: Browser, page: Path) -> None:
    browser.show(page, 1280, "light")
    choose(browser, words="no such words")
    value(browser, "location.hash = '#f40'; new Promise(done => setTimeout(done, 300))")
    assert value(browser, "document.getElementById('f40').closest('details').open")
    assert value(browser, "document.getElementById('f40').checkVisibility()")


def test_without_scripts_all_is_there_but_the_form(browser: Browser, page: Path) -> None:
    browser.call("Emulation.setScriptExecutionDisabled", value=True)
    try:
        seen = browser.show(page, 1280, "light")
        assert seen.console == []
    finally:
        browser.call("Emulation.setScriptExecutionDisabled", value=False)
    assert value(browser, "document.getElementById('find').hidden")
    assert value(browser, "document.querySelectorAll('.kind tbody tr').length") == 49
    assert value(browser, "document.querySelectorAll('th button').length") == 0


def test_all_that_can_be_operated_can_be_reached_by_keyboard(browser: Browser, page: Path) -> None:
    """Tab goes from the contents to the form, and to the kinds, whose details the space bar opens."""
    browser.show(page, 1280, "light")
    reached = []
    for _ in range(25):
        for kind in ("keyDown", "keyUp"):
            browser.call("Input.dispatchKeyEvent", type=kind, key="Tab", code="Tab", windowsVirtualKeyCode=9)
        reached.append(value(browser, "document.activeElement.tagName"))
        assert value(browser, "getComputedStyle(document.activeElement).outlineStyle") != "none"
    assert {"A", "INPUT", "SELECT", "BUTTON", "SUMMARY"} <= set(reached)
    value(browser, "document.querySelector('.kind > summary').focus()")
    for kind in ("keyDown", "keyUp"):
        browser.call("Input.dispatchKeyEvent", type=kind, key=" ", code="Space", windowsVirtualKeyCode=32, text=" ")
    assert value(browser, "document.querySelector('.kind').open")


def test_paper_shows_what_is_folded(browser: Browser, page: Path) -> None:
    browser.show(page, 1280, "light")
    value(browser, "dispatchEvent(new Event('beforeprint'))")
    assert value(browser, "document.querySelectorAll('details:not([open])').length") == 0
    value(browser, "dispatchEvent(new Event('afterprint'))")
    assert value(browser, "document.querySelectorAll('.kind[open]').length") == 0


@pytest.mark.skipif(not _AXE.exists(), reason="axe-core is not here (npm install axe-core, or AXE_CORE=axe.min.js)")
@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 400])
def test_axe_finds_no_violation(browser: Browser, page: Path, width: int, theme: str) -> None:
    browser.show(page, width, theme)
    value(browser, "document.querySelectorAll('details').forEach(one => { one.open = true; })")
    browser.call("Runtime.evaluate", expression=_AXE.read_text())
    found = value(browser, "axe.run().then(done => done.violations.map(one => one.id + ': ' + one.nodes[0].html))")
    assert found == []
