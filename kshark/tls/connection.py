"""One TLS connection: parse its clear handshake, open its records with logged secrets, and deliver the content.

Each record of application data becomes one piece of a Run, with the packets and times of the record. Both directions
are fed in packet order. Records sent before the ServerHello and the secrets are known wait for them: secrets are logged
slightly later than packets while a capture is written. Bytes that cannot be decrypted are counted, and a Gap stands
where some of them may have been data. Source: RFC 8446, RFC 5246.
"""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from kshark import limits
from kshark.model import Closed, Flow, Gap, Side, Tls
from kshark.reassembly import Item, Run
from kshark.tls.alerts import Alerts
from kshark.tls.hello import TLS_12, TLS_13, ClientHello, ServerHello, client_hello, server_hello
from kshark.tls.keylog import APPLICATION, EARLY, HANDSHAKE, MASTER_SECRET, KeyLog
from kshark.tls.protection import Tls13, is_installed, tls12
from kshark.tls.records import APPLICATION_DATA, CHANGE_CIPHER_SPEC, NotTls, Record, Records
from kshark.tls.schedule import key_block
from kshark.tls.signs import ALERT, CLIENT_HELLO, NO_KEYS, NOT_SEEN, SERVER_HELLO, unread
from kshark.tls.signs import HANDSHAKE as HANDSHAKE_RECORD
from kshark.tls.suites import SUITES_12, SUITES_13

_NAMES: Final = {0x0300: "SSL 3.0", 0x0301: "TLS 1.0", 0x0302: "TLS 1.1", TLS_12: "TLS 1.2", TLS_13: "TLS 1.3"}

#: Memory of a waiting record besides its bytes.
_RECORD_BYTES: Final = 300
WRONG_KEYS: Final = "the keys do not fit"


class TlsConnection:
    """Processes the items of a TLS connection in packet order, and appends the decrypted content to `out`.

    `over`: nothing of it was decrypted, and nothing will be.
    """

    def __init__(self, flow: Flow, client: Side, keys: KeyLog) -> None:
        self.flow = flow
        self.over = False
        self._tls = flow.tls = Tls(client)
        self._keys = keys
        self._alerts = Alerts(flow, client)
        self._sides = (Records(0), Records(1))
        #: The first handshake message of each side, until it is whole; then None.
        self._greetings: list[bytearray | None] = [bytearray(), bytearray()]
        self._client_hello: ClientHello | None = None
        self._server_hello: ServerHello | None = None
        #: The packet and time at which the protection of records became known.
        self._agreed: tuple[int, int] | None = None
        #: Records that came before that, with their side.
        self._waiting: list[tuple[Records, Record]] = []
        self._waiting_bytes = 0  # with the facts about them
        #: 0-RTT data may still come: its key, how many records of it may be skipped, and the number of the next one.
        self._early: Tls13 | None = None
        self._early_left = 0
        self._early_sequence = 0
        self._dead = False
        #: Nothing was delivered yet.
        self._silent = True
        #: The hole before the first delivered bytes of each side; a connection that is not decrypted has none.
        self._before: list[Gap | None] = [None, None]
        self._runs: list[Run | None] = [None, None]

    @property
    def memory(self) -> int:
        """Bytes held, with the facts about them."""
        greetings = sum(len(greeting) for greeting in self._greetings if greeting is not None)
        return self._sides[0].memory + self._sides[1].memory + self._waiting_bytes + greetings

    def piece(self, run: Run, index: int, out: list[Item]) -> None:
        """Process one piece of a run."""
        data = run.data[index]
        if self._dead:
            self._tls.unread[run.side] += len(data)
            return
        side = self._sides[run.side]
        at = run.packet[index], run.time_ns[index], run.ready[index], run.ready_ns[index], run.knows[index]
        self._unread(side, side.add(data, *at))
        if self._server_hello is not None and self._agreed is None:
            self._agree(*side.ready, out)
        self._advance(side, out)

    def hand_on(self) -> None:
        """Finish the runs in `out`: they grow no more."""
        self._runs = [None, None]

    def _advance(self, side: Records, out: list[Item]) -> None:
        """Process the whole records held."""
        try:
            while not self._dead:
                if side.searching and not self._resumed(side):
                    break
                record = side.next()
                if record is None:
                    break
                if self._silent:
                    self._watch(side, record, out)
                self._record(side, record, out)
        except NotTls:
            self.give_up(
                "bytes that are no TLS records" if not side.searching else "no record was found again after a gap", out
            )
        if len(self._sides[0]) + len(self._sides[1]) + self._waiting_bytes > limits.TLS_WAITING_BYTES:
            self.give_up(self._why_waiting(), out)

    def _resumed(self, side: Records) -> bool:
        """True if a record was found again after a hole. Without known protection there is no search."""
        if self._agreed is None:
            return False
        found, dropped = side.find()
        self._unread(side, dropped)
        return found

    def _watch(self, side: Records, record: Record, out: list[Item]) -> None:
        """Look for an alert before the first data."""
        version = 0 if self._server_hello is None else self._server_hello.version
        weird = self._alerts.record(side.side, record, version, is_early=self._early_left > 0)
        if weird is not None:
            out.append(weird)

    # -- records

    def _record(self, side: Records, record: Record, out: list[Item]) -> None:
        if self._greetings[side.side] is not None and record.kind == HANDSHAKE_RECORD:
            self._greeting(side, record, out)
        elif self._agreed is None:
            self._wait(side, record)
        elif side.protection is None:
            self._in_clear(side, record, out)
        elif isinstance(side.protection, Tls13) and record.kind != APPLICATION_DATA:
            pass  # a ChangeCipherSpec without meaning, a second ClientHello, an alert
        else:
            self._open(side, record, out)

    def _wait(self, side: Records, record: Record) -> None:
        """Let a record wait: only the server's answer and the secrets show its content."""
        self._waiting.append((side, record))
        self._waiting_bytes += record.size + _RECORD_BYTES

    def _in_clear(self, side: Records, record: Record, out: list[Item]) -> None:
        """Process a record of TLS 1.2 before the side's ChangeCipherSpec."""
        if record.kind == CHANGE_CIPHER_SPEC and side.pending is not None:
            side.protect(side.pending)
        elif record.kind == APPLICATION_DATA:
            self.give_up("data outside the protection", out)

    def _open(self, side: Records, record: Record, out: list[Item]) -> None:
        opened = side.open(record)
        if opened is None and self._early_left and side.side == self._tls.client and not side.opened:
            opened = self._open_early(record)
            if opened is None:
                self._damaged(side, record, out, only_once=True)
        elif opened is None and not side.opened and side.lost is None:
            self._unread(side, record.size)
            self.give_up(WRONG_KEYS, out)
        elif opened is None:
            self._damaged(side, record, out)
            side.searching = True
        if opened is not None and opened[0] == APPLICATION_DATA and opened[1]:
            self._emit(side, opened[1], record, out)
        elif opened is not None and opened[0] == ALERT and self._silent:
            weird = self._alerts.decrypted(side.side, opened[1], record)
            if weird is not None:
                out.append(weird)

    def _damaged(self, side: Records, record: Record, out: list[Item], *, only_once: bool = False) -> None:
        """Report a record that does not open as a hole in the content."""
        self._unread(side, record.size)
        if side.lost is None or not only_once:
            self._hole(side, record.packet, record.ready, record.ready_ns, out)

    def _open_early(self, record: Record) -> tuple[int, bytes] | None:
        """Open 0-RTT data, which come before the client's first record with the key of the handshake."""
        self._early_left -= 1
        opened = self._early.open(self._early_sequence, record.header, record.body) if self._early is not None else None
        if opened is None:
            self._tls.why = "0-RTT data without a key that fits"
        else:
            self._early_sequence += 1
        return opened

    def _emit(self, side: Records, content: bytes, record: Record, out: list[Item]) -> None:
        number = side.side
        ready, ready_ns = record.ready, record.ready_ns
        assert self._agreed is not None
        if ready < self._agreed[0]:
            ready, ready_ns = self._agreed
        if self._silent:
            out += [replace(gap, packet=ready, time_ns=ready_ns) for gap in self._before if gap is not None]
            self._silent = False
        run = self._runs[number]
        if run is None:
            run = self._runs[number] = Run(self.flow, number, [], [], [], [], [], [])
            out.append(run)
        run.add(content, record.packet, record.time_ns, ready, ready_ns, record.knows)
        self._tls.content[number] += len(content)

    # -- the handshake

    def _greeting(self, side: Records, record: Record, out: list[Item]) -> None:
        """Collect the side's first message, which may be longer than a record; bytes after it there do not matter."""
        begun = self._greetings[side.side]
        assert begun is not None
        begun += record.body
        is_client = side.side == self._tls.client
        if len(begun) < 4:
            return
        size = 4 + int.from_bytes(begun[1:4], "big")
        if begun[0] != (CLIENT_HELLO if is_client else SERVER_HELLO) or size > limits.TLS_HELLO_BYTES:
            self.give_up("its handshake cannot be read", out)
        elif len(begun) >= size:
            body = bytes(begun[4:size])
            self._greetings[side.side] = None
            if is_client:
                self._asked(client_hello(body), out)
            else:
                self._answered(server_hello(body), record, out)

    def _asked(self, hello: ClientHello | None, out: list[Item]) -> None:
        if hello is None:
            self.give_up("its ClientHello cannot be read", out)
            return
        self._client_hello = hello
        self._tls.server_name = hello.server_name
        self._early_left = limits.TLS_EARLY_RECORDS if hello.early_data else 0

    def _answered(self, hello: ServerHello | None, record: Record, out: list[Item]) -> None:
        asked = self._client_hello
        if hello is None or asked is None:
            self.give_up("its ServerHello cannot be read" if hello is None else NOT_SEEN, out)
            return
        if hello.retry:
            self._greetings[1 - self._tls.client] = bytearray()
            return
        self._tls.version = _NAMES.get(hello.version, f"version {hello.version:#06x}")
        self._server_hello = hello
        self._agree(record.ready, record.ready_ns, out)

    def _agree(self, packet: int, time_ns: int, out: list[Item]) -> None:
        """Look up the secrets; with them, the protection of records is known at that packet."""
        why = self._protect()
        if why == NO_KEYS:
            return  # they may come
        if why:
            self.give_up(why, out)
            return
        self._agreed = packet, time_ns
        waiting, self._waiting, self._waiting_bytes = self._waiting, [], 0
        for side, record in waiting:
            if self._dead:
                self._unread(side, record.size)
            else:
                self._record(side, record, out)
        for side in self._sides:
            self._advance(side, out)

    def _protect(self) -> str:
        """Set the protection of both sides; return why that is impossible, or an empty text."""
        asked, hello = self._client_hello, self._server_hello
        assert asked is not None
        assert hello is not None
        secrets = self._keys.of(asked.random)
        suites = {TLS_12: SUITES_12, TLS_13: SUITES_13}.get(hello.version)
        if suites is None:
            return f"{self._tls.version} is not decrypted"
        suite = suites.get(hello.suite)
        if suite is None or hello.compressed:
            return f"cipher suite {hello.suite:#06x} is not decrypted" if suite is None else "compression is not undone"
        labels = (MASTER_SECRET,) if hello.version == TLS_12 else (*HANDSHAKE, *APPLICATION)
        if not all(label in secrets for label in labels):
            return NO_KEYS
        if not is_installed():
            return "the package cryptography is missing (pip install 'kshark[tls]')"
        client, server = self._sides[self._tls.client], self._sides[1 - self._tls.client]
        if hello.version == TLS_12:
            keys = key_block(suite, secrets[MASTER_SECRET], asked.random, hello.random)
            client.pending, server.pending = (tls12(suite, side_keys, mac_last=hello.mac_last) for side_keys in keys)
            return ""
        for side, first, then in zip((client, server), HANDSHAKE, APPLICATION, strict=True):
            side.protect(Tls13(suite, secrets[first], secrets[then]))
        if EARLY in secrets and self._early_left:
            self._early = Tls13(suite, secrets[EARLY])
        return ""

    # -- what is missing

    def gap(self, gap: Gap, out: list[Item]) -> None:
        """Handle a hole in the bytes of one direction."""
        if self._dead:
            return
        side = self._sides[gap.side]
        self._unread(side, side.lose(gap.size))
        if self._greetings[gap.side] is not None or any(waiting is side for waiting, _ in self._waiting):
            self.give_up(self._why_waiting(), out)
            return
        self._missing(side, replace(gap, size=-1), out)

    def _hole(self, side: Records, first: int, packet: int, time_ns: int, out: list[Item]) -> None:
        """Report a hole from the packet `first` up to `packet` that no lost segment caused."""
        self.flow.gaps += 1
        self._missing(side, Gap(self.flow, side.side, packet, time_ns, first, packet, -1, "undecrypted"), out)

    def _missing(self, side: Records, gap: Gap, out: list[Item]) -> None:
        side.lost, self._runs[side.side] = gap.first_packet, None
        if not self._silent:
            out.append(gap)
        elif self._before[side.side] is None:
            self._before[side.side] = gap

    def make_room(self, out: list[Item]) -> None:
        """Give up this connection: it holds the most of too many waiting bytes."""
        self.give_up(self._why_waiting(), out)

    def give_up(self, why: str, out: list[Item]) -> None:
        """Stop decrypting both directions: one direction alone would look as if the other were silent."""
        self._tls.why = why
        self._dead = True
        for side in self._sides:
            self._unread(side, len(side))
            side.drop(len(side))
        for side, record in self._waiting:
            self._unread(side, record.size)
        self._waiting, self._waiting_bytes = [], 0
        if self._silent:
            self.over, self._tls.unread = (
                True,
                [0, 0],
            )  # nothing of it was decrypted, so no part is counted separately
            if self.flow.service == "unknown":
                self.flow.service = "tls"
            return
        packet, time_ns = max(side.ready for side in self._sides)
        for side in self._sides:
            self._hole(side, side.ready[0] or self.flow.first_packet, packet, time_ns, out)

    def _unread(self, side: Records, size: int) -> None:
        self._tls.unread[side.side] += size

    def closed(self, closed: Closed, out: list[Item]) -> None:
        """Handle the end of the connection."""
        if self._server_hello is not None and self._agreed is None and not self._dead:
            self._agree(closed.packet, closed.time_ns, out)
        weird = self._alerts.closed(closed) if self._silent else None
        if weird is not None:
            out.append(weird)
        for side in self._sides:
            self._unread(side, len(side))
        if self._silent and self.flow.service == "unknown":
            self.flow.service = "tls"
            self._tls.why = self._tls.why or self._why_silent()
        elif not self._silent:
            for side in self._sides:
                if self._dead or side.searching:
                    self._hole(side, side.lost or self.flow.first_packet, closed.packet, closed.time_ns, out)
            if sum(self._tls.unread):
                self._tls.why = self._tls.why or "records of which a part is missing"
                out.append(unread(self.flow, closed.packet, closed.time_ns, sum(self._tls.unread)))
        out.append(closed)

    def _why_silent(self) -> str:
        """Return why a connection whose keys did not fail delivered nothing."""
        if self._agreed is not None:
            return "it carried no data"
        return (
            self._why_waiting() if self.flow.stream_bytes[1 - self._tls.client] else "its ClientHello was not answered"
        )

    def _why_waiting(self) -> str:
        return NOT_SEEN if self._server_hello is None else NO_KEYS
