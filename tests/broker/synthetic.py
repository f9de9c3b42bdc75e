"""Conversations on paper that an observer looks on at, as at those with a real broker: the same script, with the
answers that it says."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tests.broker.live import Observer
from tests.conversation import BROKER, Asked, Connection, Conversation


@dataclass
class Played(Asked):
    """A request on paper; `answered` tells the observer first."""

    connection: PlayedConnection
    answer: dict[str, Any] | None = None

    def answered(self, error: int = 0, **body: Any) -> Played:
        self.answer = {"error_code": int(error), "responses": [], **body}
        self.connection.talk.observer.answered(self, self.answer)
        super().answered(error, **body)
        return self


@dataclass
class PlayedConnection(Connection):
    """A connection on paper; requests that were sent on it and not answered stay so when it ends."""

    talk: Synthetic

    def ask(self, key: int, api: str, version: int, body: dict[str, Any]) -> Played:
        told = Played(self, api, key, version, self.correlation_id + 1, [])
        self.talk.observer.sent(told, body)
        told.packets = super().ask(key, api, version, body).packets
        self.talk.exchanges[-1] = told
        return told

    def close(self) -> None:
        self.talk.observer.ended(self._port, "fin")
        super().close()

    def reset(self) -> None:
        self.talk.observer.ended(self._port, "rst")
        super().reset()

    @property
    def _port(self) -> int:
        return int(self.tcp.source.rpartition(":")[2])


class Synthetic(Conversation):
    """A conversation on paper with a broker of that line of releases (`4.1`)."""

    def __init__(self, line: str, observer: Observer) -> None:
        super().__init__(release=line)
        self.observer = observer

    def connection(
        self, broker: str = BROKER, host: str = "10.0.0.1", *, from_syn: bool = True, introduced: bool = True
    ) -> PlayedConnection:
        made = super().connection(broker, host, from_syn=from_syn, introduced=False)
        connection = PlayedConnection(self, made.tcp)
        if introduced:
            connection.api_versions(self.release)
        return connection
