"""The screen: a consumer that counts in the main thread, and a thread that reads keys and paints."""

from __future__ import annotations

import os
import select
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from threading import Thread
from typing import Final

from kshark.analysis import Change
from kshark.live.consumer import Status
from kshark.live.screen.keys import Keys
from kshark.live.screen.model import Model, Picture
from kshark.live.screen.painter import Painter
from kshark.live.screen.state import State
from kshark.live.screen.terminal import Terminal
from kshark.live.screen.view import lines
from kshark.model import Event, Finding, PacketBatch
from kshark.output.spans import Line
from kshark.run import Run

#: Esc alone is a key if nothing follows in this time.
_ESCAPE_MS: Final = 25
#: A terminal that did not take a whole frame is tried again after this time.
_AGAIN_MS: Final = 50
#: After a drawing, so many times as long without another one.
_RESTS: Final = 9


class Screen:
    """The consumer. Between two calls of `status` keys work on the last picture: a busy engine does not delay them.

    `paint` returns a line with its colours. `quit` is called in the thread of the screen. `save` is called in the main
    thread, and returns a sentence that is shown; None: there is nothing that could save.
    """

    def __init__(
        self,
        model: Model,
        paint: Callable[[Line], str],
        quit: Callable[[], object],
        save: Callable[[], str] | None = None,
        *,
        keys: int = 0,
        output: int = 1,
    ) -> None:
        self._model = model
        self._painter = Painter(paint)
        self._quit = quit
        self._save = save
        self._state = State()
        self._waker, self._wake = os.pipe()
        os.set_blocking(self._waker, False)
        os.set_blocking(self._wake, False)
        self._terminal = Terminal(keys, output, self._resized)
        self._picture: Picture | None = None
        self._wants_save = False
        #: Until then only keys make it draw: with very many members that takes its time.
        self._rest_until_s = 0.0
        self._is_over = False
        self._failure: BaseException | None = None
        self._thread = Thread(target=self._run, name="screen", daemon=True)

    @property
    def changed(self) -> Callable[[Change], None]:
        """Takes the changes of records in flight (Run, `on_change`)."""
        return self._model.change

    def judges(self, run: Run) -> None:
        """Take the run that judges the same pages."""
        self._model.judges(run)

    def start(self, status: Status) -> None:
        """Show the screen."""
        self._model.status(status)
        self._terminal.watch()
        with self._terminal.lock:
            self._terminal.enter()
        self._thread.start()

    def packets(self, batch: PacketBatch) -> None:
        self._model.packets(batch)

    def page(self, page: list[Event], findings: Sequence[Finding]) -> None:
        self._model.page(page, findings)

    def status(self, status: Status) -> None:
        """Show the status, and do what keys asked for. Raises what made the thread of the screen fail."""
        if self._failure is not None:
            raise self._failure
        if self._wants_save:
            self._wants_save = False
            self._state.message = "no flight recorder: see --record" if self._save is None else self._save()
        self._model.status(status)
        self._notify()

    def close(self, findings: Sequence[Finding]) -> None:
        self._model.close(findings)
        self.end()

    def end(self) -> None:
        """Restore the terminal; also after an exception, and more than once."""
        if self._is_over:
            return
        self._is_over = True
        self._notify()
        if self._thread.is_alive():
            self._thread.join()
        with self._terminal.lock:
            self._terminal.close()
        self._terminal.unwatch()
        os.close(self._wake)
        os.close(self._waker)

    def _resized(self) -> None:
        with self._terminal.lock:
            self._painter.forget()
        self._notify()

    def _notify(self) -> None:
        with suppress(BlockingIOError):  # the thread has not read the last ones
            os.write(self._wake, b"\0")

    # -- the thread

    def _run(self) -> None:
        try:
            self._loop()
        except Exception as error:
            self._failure = error

    def _loop(self) -> None:
        keys, waiting = Keys(), select.poll()
        pressed: list[str] = []
        waiting.register(self._terminal.keys, select.POLLIN)
        waiting.register(self._waker, select.POLLIN)
        while not self._is_over:
            if pressed or time.monotonic() >= self._rest_until_s:
                self._draw()
            timeout = _ESCAPE_MS if keys.waits else None if self._is_done() else _AGAIN_MS
            ready = waiting.poll(timeout)
            with suppress(BlockingIOError):
                os.read(self._waker, 4_096)
            pressed = keys.settle() if not ready else []
            for descriptor, event in ready:
                if descriptor == self._terminal.keys:
                    pressed += keys.feed(self._terminal.read())
                    if event & ~select.POLLIN:  # the terminal has gone: no more keys
                        waiting.unregister(descriptor)
            for key in pressed:
                self._press(key)

    def _press(self, key: str) -> None:
        action = self._state.press(key)
        if action == "quit":
            self._quit()
        elif action == "save":
            self._wants_save = True

    def _is_done(self) -> bool:
        """True if the last picture was drawn, and the terminal has taken it."""
        with self._terminal.lock:
            return self._terminal.flush() and time.monotonic() >= self._rest_until_s

    def _draw(self) -> None:
        """Draw the picture, unless the terminal has not taken the last one."""
        if not self._state.paused or self._picture is None:
            self._picture = self._model.picture
        picture = self._picture
        if picture is None:
            return
        begun_s = time.monotonic()
        with self._terminal.lock:
            if self._terminal.flush():
                size = self._terminal.size()
                self._terminal.write(self._painter.frame(lines(picture, *size, self._state), size))
        self._rest_until_s = time.monotonic() + _RESTS * (time.monotonic() - begun_s)
