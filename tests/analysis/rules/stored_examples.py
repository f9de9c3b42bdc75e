"""Plays what rows show of stored state: what brokers ask of share coordinators, and administrators of groups."""

from __future__ import annotations

import re
from typing import Any, Final

from tests.analysis.administrators import Administrator
from tests.analysis.coordinators import ACCEPTED, Batch, Sender, leader
from tests.conversation import Connection, Conversation

_STORING: Final = re.compile(
    r"(?:on (?P<connection>[B-Z]): )?(?P<api>Initialize|Read|Write)ShareGroupState(?P<asked>[^→]*) → "
    r"(?P<error>\d+)(?P<given>.*)"
)
_WORD: Final = re.compile(
    r",? (?:(?P<name>state epoch|leader epoch|start offset|complete count) (?P<value>-?\d+)|acknowledged "
    r"(?P<first>\d+)-(?P<last>\d+))"
)
#: The words for what tests.analysis.coordinators knows by another name.
_NAMES: Final = {"start offset": "start", "complete count": "complete"}
_LOOKING: Final = re.compile(r"FindCoordinator share key (?P<key>\S+) → (?P<error>\d+)")
_ALTERING: Final = re.compile(
    r"on (?P<connection>[B-Z]): AlterShareGroupOffsets t\[0\] (?P<offset>\d+) → (?P<error>\d+)"
)


class Senders:
    """Who asks about partition 0, each on a connection to the coordinator; who begins by writing was given the state
    before."""

    def __init__(self, talk: Conversation) -> None:
        self._talk = talk
        self._senders: dict[str, Sender] = {}

    def say(self, line: str) -> bool:
        """Whether it knows the words. Raises ValueError where only the first of them are known."""
        if storing := _STORING.fullmatch(line):
            self._store(storing)
        elif looking := _LOOKING.fullmatch(line):
            told = {"key": looking["key"], "node_id": 1, "host": "b", "port": 9092, "error_message": None}
            asked = self._connection().ask(
                10, "FindCoordinator", 6, {"key_type": 2, "coordinator_keys": [looking["key"]]}
            )
            asked.answered(None, coordinators=[{**told, "error_code": int(looking["error"])}])
        elif altering := _ALTERING.fullmatch(line):
            asked = Administrator(self._connection()).alter(p0=int(altering["offset"])).asked
            asked.answered(int(altering["error"]), responses=[])
        return bool(storing or looking or altering)

    def _connection(self) -> Connection:
        return self._talk.connection()

    def _store(self, said: re.Match[str]) -> None:
        sender = self._sender(said["connection"] or "A", writes=said["api"] == "Write")
        numbers, batches = _words(said["asked"])
        match said["api"]:
            case "Initialize":
                storing = sender.initialize(**numbers)
            case "Read":
                storing = sender.read(**numbers)
            case _:
                storing = sender.write(numbers.pop("start", -1), *batches, **numbers)
        told, given = _words(said["given"])
        if int(said["error"]):
            storing.refused(int(said["error"]))
        elif said["api"] == "Read":
            storing.given(told.pop("start", -1), *given, **told)
        else:
            storing.accepted()

    def _sender(self, name: str, *, writes: bool) -> Sender:
        if name not in self._senders:
            self._senders[name] = leader(self._talk) if writes else Sender(self._talk.connection())
        return self._senders[name]


def _words(said: str) -> tuple[dict[str, Any], list[Batch]]:
    """Numbers by name, and batches."""
    found = [*_WORD.finditer(said)]
    if "".join(word[0] for word in found) != said:
        raise ValueError(said)
    numbers = {
        _NAMES.get(word["name"], word["name"].replace(" ", "_")): int(word["value"]) for word in found if word["name"]
    }
    return numbers, [(int(word["first"]), int(word["last"]), ACCEPTED, 1) for word in found if word["first"]]
