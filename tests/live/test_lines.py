"""Lines of a conversation that is captured: messages, findings, counts and the status, for people and programs."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from kshark.live import Status
from kshark.live.lines import Lines, Style
from kshark.model import Event, Finding, Message
from kshark.output.queued import QueuedSink
from kshark.run import Run
from tests.conversation import INVALID_SHARE_SESSION_EPOCH, Conversation, events, registry

SECOND = 1_000_000_000


class Printed:
    """A run of `kshark live` without an interface."""

    def __init__(self, **style: Any) -> None:
        self._out, self._err = (io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True) for _ in range(2))
        self.shown: list[int] = []
        names: Mapping[str, str] = {}
        fields = {
            "is_json": False, "is_verbose": False, "messages": self._messages, "passes": lambda _: True, "most": None,
            "names": lambda: names, **style,
        }  # fmt: skip
        self.sink = QueuedSink(self._out)
        self.lines = Lines(self.sink, QueuedSink(self._err), Style(**fields))
        self.run = Run(registry(), keeps=False)

    def talk(self, page: list[Event]) -> list[Finding]:
        findings = self.run.page(page)
        self.lines.page(page, findings)
        return findings

    def status(self, seconds: float, **changed: Any) -> None:
        self.lines.status(Status(("eth0",), 0, int(seconds * SECOND), **changed))

    def close(self) -> None:
        self.lines.close(self.run.close())

    @property
    def out(self) -> list[str]:
        return self._text(self._out)

    @property
    def err(self) -> list[str]:
        return self._text(self._err)

    def _messages(self, messages: Sequence[Message]) -> None:
        self.shown += [message.packet for message in messages]
        self.sink.text("".join(f"message {message.packet}\n" for message in messages))

    @staticmethod
    def _text(stream: io.TextIOWrapper) -> list[str]:
        assert isinstance(stream.buffer, io.BytesIO)
        return stream.buffer.getvalue().decode().splitlines()


def one_bad_member() -> list[Event]:
    """A client that skips an epoch again and again."""
    talk = Conversation()
    member = talk.member("a")
    for _ in range(50):
        member.share_fetch(0).answered()
        member.share_fetch(5).answered(INVALID_SHARE_SESSION_EPOCH)
    return events(talk)


def test_text_has_a_finding_once_and_then_its_number() -> None:
    printed = Printed(messages=None)
    printed.status(0)
    page = one_bad_member()
    findings = len(printed.talk(page[: len(page) // 2]))
    assert findings > 20
    assert sum("  EPOCH_SKIP_AHEAD  violation" in line for line in printed.out) == 1
    printed.status(4)
    assert not any("×" in line for line in printed.out)
    printed.status(6)
    assert sum("EPOCH_SKIP_AHEAD ×" in line for line in printed.out) == 1
    printed.talk(page[len(page) // 2 :])
    printed.close()
    assert sum("EPOCH_SKIP_AHEAD ×50" in line for line in printed.out) == 1
    assert printed.err == []


@pytest.mark.parametrize("style", [{"is_verbose": True}, {"is_json": True}], ids=["-V", "-T json"])
def test_details_and_json_have_every_finding(style: dict[str, bool]) -> None:
    printed = Printed(messages=None, **style)
    findings = len(printed.talk(one_bad_member()))
    printed.status(60)
    if "is_json" in style:
        lines = [json.loads(line) for line in printed.out]
        assert [line["code"] for line in lines].count("EPOCH_SKIP_AHEAD") == 50
        assert len(lines) == findings
    else:
        assert sum("  EPOCH_SKIP_AHEAD  violation" in line for line in printed.out) == 50


def test_a_finding_stands_after_the_messages_that_prove_it() -> None:
    printed = Printed()
    talk = Conversation()
    member = talk.member("a")
    member.share_fetch(0).answered()
    refused = member.share_fetch(5).answered(INVALID_SHARE_SESSION_EPOCH)
    after = member.share_fetch(0).answered()
    printed.talk(events(talk))
    code = next(at for at, line in enumerate(printed.out) if "EPOCH_SKIP_AHEAD" in line)
    assert printed.out[code - 1] == f"message {refused.packet}"
    assert printed.out.index(f"message {after.sent}") > code


def test_a_number_of_messages_completes_it() -> None:
    printed = Printed(most=3, passes=lambda message: message.kind == "request")
    talk = Conversation()
    member = talk.member("a")
    for _ in range(5):
        member.share_fetch(0).answered()
    printed.talk(events(talk))
    assert len(printed.shown) == 3
    assert printed.lines.is_complete


def test_the_status_goes_to_stderr_and_in_json_to_stdout() -> None:
    text, program = Printed(), Printed(is_json=True)
    for printed in (text, program):
        printed.status(0)
        printed.status(1, dropped=7)
        printed.status(60, packets=5)
    assert text.out == program.err == []
    assert [line[8:24] for line in text.err] == ["00:00:01.000  7 ", "00:01:00.000  5 "]
    assert [json.loads(line)["status"]["reasons"] for line in program.out] == [["dropped"], ["minute"]]


class Gone(QueuedSink):
    """A sink whose reader has gone."""

    def text(self, text: str) -> None:
        raise BrokenPipeError

    def settle(self) -> None:
        raise BrokenPipeError


def test_a_reader_that_leaves_ends_it_without_an_error() -> None:
    printed = Printed()
    lines = Lines(Gone(printed._out), QueuedSink(printed._err), Style(False, False, None, lambda _: True, None, dict))
    assert not lines.is_complete
    lines.status(Status(("eth0",), 0, 0))
    assert lines.is_complete
    assert lines.reader_left
    lines.page(one_bad_member(), printed.talk(one_bad_member()))
    lines.close([])
