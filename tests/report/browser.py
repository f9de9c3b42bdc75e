"""Chromium without a window and without a network, driven over a pipe (Chrome DevTools Protocol)."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.patience import PATIENCE_S

_NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
#: Nothing outside this machine is found by name, and nothing is fetched in the background.
_OPTIONS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--remote-debugging-pipe",
    "--host-resolver-rules=MAP * ~NOTFOUND", "--disable-background-networking", "--no-first-run",
    "--disable-dev-shm-usage",
)  # fmt: skip
#: The browser reads from file descriptor 3 and writes to 4.
_START = """
import os, sys
to, out, *run = sys.argv[1:]
os.dup2(int(out), 99)
os.dup2(int(to), 3)
os.dup2(99, 4)
os.execv(run[0], run)
"""


@dataclass
class Seen:
    """A page as it was shown: width of its content, what the console said, what it asked for, and a picture (PNG)."""

    width: int
    console: list[str]
    requests: list[str]
    picture: bytes
    ground: str = ""


@dataclass
class Browser:
    """A running Chromium."""

    to: int
    answers: Iterator[dict[str, Any]]
    session: str = ""
    events: list[dict[str, Any]] = field(default_factory=list)
    _number: int = 0

    def call(self, method: str, **given: Any) -> dict[str, Any]:
        """One command; events that come before its answer are kept."""
        self._number += 1
        message = {
            "id": self._number,
            "method": method,
            "params": given,
            **({"sessionId": self.session} if self.session else {}),
        }
        os.write(self.to, json.dumps(message).encode() + b"\0")
        for answer in self.answers:
            if answer.get("id") == self._number:
                assert "error" not in answer, answer
                return dict(answer["result"])
            self.events.append(answer)
        raise AssertionError("Chromium has gone")

    def wait(self, method: str) -> None:
        while not any(event.get("method") == method for event in self.events):
            self.events.append(next(self.answers))

    def show(self, page: Path, width: int, theme: str) -> Seen:
        """Loads a file in a window of that width, light or dark."""
        self.events.clear()
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=width < 600
        )
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": theme}])
        self.call("Page.navigate", url=page.as_uri())
        self.wait("Page.loadEventFired")
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        ground = self.call("Runtime.evaluate", expression="getComputedStyle(document.body).backgroundColor")["result"][
            "value"
        ]
        clip = {"x": 0, "y": 0, "width": width, "height": size["height"], "scale": 1}
        picture = base64.b64decode(self.call("Page.captureScreenshot", captureBeyondViewport=True, clip=clip)["data"])
        said = ("Log.entryAdded", "Runtime.exceptionThrown", "Runtime.consoleAPICalled")
        console = [json.dumps(event["params"]) for event in self.events if event["method"] in said]
        requests = [
            event["params"]["request"]["url"] for event in self.events if event["method"] == "Network.requestWillBeSent"
        ]
        return Seen(int(size["width"]), console, requests, picture, ground)


@contextmanager
def chromium() -> Iterator[Browser]:
    """Chromium, or a skipped test where there is none."""
    found = next((path for name in _NAMES if (path := shutil.which(name))), None)
    if found is None:
        pytest.skip(f"no Chromium here (looked for {', '.join(_NAMES)})")
    (theirs_in, ours_out), (ours_in, theirs_out) = os.pipe(), os.pipe()
    with tempfile.TemporaryDirectory(prefix="kshark-chromium-", ignore_cleanup_errors=True) as profile:
        command = [found, *_OPTIONS, f"--user-data-dir={profile}"]
        given = [sys.executable, "-c", _START, str(theirs_in), str(theirs_out), *command]
        process = subprocess.Popen(given, pass_fds=(theirs_in, theirs_out), stderr=subprocess.DEVNULL)
        os.close(theirs_in)
        os.close(theirs_out)
        try:
            yield _opened(Browser(ours_out, _messages(ours_in)))
        finally:
            process.terminate()
            process.wait(PATIENCE_S)
            os.close(ours_out)
            os.close(ours_in)


def _opened(browser: Browser) -> Browser:
    target = browser.call("Target.createTarget", url="about:blank")["targetId"]
    browser.session = browser.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
    for domain in ("Page", "Log", "Runtime", "Network"):
        browser.call(f"{domain}.enable")
    return browser


def _messages(source: int) -> Iterator[dict[str, Any]]:
    held = b""
    while data := os.read(source, 1 << 16):
        *whole, held = (held + data).split(b"\0")
        for message in whole:
            yield json.loads(message)
