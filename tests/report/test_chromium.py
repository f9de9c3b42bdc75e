"""A browser shows the page without a network: no error, nothing asked for, nothing wider than the window, light and
dark."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.command import runner
from tests.report.browser import chromium
from tests.shared import CAPTURES


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
