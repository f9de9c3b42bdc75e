"""A network between clients and a broker: bytes go through as they are, but now and then late, or never."""

from __future__ import annotations

import asyncio
import contextlib
from random import Random
from typing import Final

_PIECE: Final = 1 << 16
_LOOKS_AGAIN_SECONDS: Final = 0.05


class Proxy:
    """Listens on `port` for the broker behind `to`, both on loopback.

    `delay`: the most seconds by which a piece of bytes is late, each by another time. Until `stalled_until` (of the
    loop's clock) nothing goes through towards the "broker" or the "client"."""

    def __init__(self, port: int, to: int, random: Random) -> None:
        self.port, self._to, self._random = port, to, random
        self.delay = 0.0
        self.stalled_until = {"broker": 0.0, "client": 0.0}
        self._connections: set[tuple[asyncio.StreamWriter, asyncio.StreamWriter]] = set()
        self._serving: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", self.port)

    async def stop(self) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._serving:
            task.cancel()
        self.reset()
        await asyncio.gather(*self._serving, return_exceptions=True)

    def stall(self, seconds: float, towards: str | None = None) -> None:
        """Nothing goes through for so long, in one direction or in both."""
        until = asyncio.get_running_loop().time() + seconds
        for end in self.stalled_until if towards is None else (towards,):
            self.stalled_until[end] = until

    def lose(self, share: float, seconds: float, towards: str | None = None) -> None:
        """Bytes of a connection cannot be lost here: they are late."""
        self.stall(seconds * share, towards)

    def reset(self, share: float = 1) -> None:
        """Aborts that share of the connections."""
        for ends in [*self._connections]:
            if self._random.random() < share:
                for end in ends:
                    end.transport.abort()

    def _accept(self, from_client: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        task = asyncio.get_running_loop().create_task(self._serve(from_client, to_client))
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)

    async def _serve(self, from_client: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        try:
            from_broker, to_broker = await asyncio.open_connection("127.0.0.1", self._to)
        except OSError:  # the broker is down
            to_client.transport.abort()
            return
        ends = to_client, to_broker
        self._connections.add(ends)
        await asyncio.gather(self._pump(from_client, to_broker, "broker"), self._pump(from_broker, to_client, "client"))
        self._connections.discard(ends)

    async def _pump(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, towards: str) -> None:
        """One direction, up to its end; a connection that is aborted ends so, too."""
        clock = asyncio.get_running_loop().time
        with contextlib.suppress(OSError):
            while piece := await source.read(_PIECE):
                while clock() < self.stalled_until[towards]:
                    await asyncio.sleep(_LOOKS_AGAIN_SECONDS)
                if self.delay:
                    await asyncio.sleep(self.delay * self._random.random())
                sink.write(piece)
                await sink.drain()
        sink.close()
