"""Files that `kshark live` writes: captures (`-w`), tables (`--export`), recordings around violations (`--record`)."""

from __future__ import annotations

import signal
import time
from argparse import Namespace
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from kshark.cli.apis import registry
from kshark.cli.parser import Parser, ports
from kshark.errors import UsageError
from kshark.live.files.capture_files import print_note
from kshark.live.files.conditions import NO_CONDITIONS, autostop, need_conditions, ring_buffer
from kshark.pipeline import JUDGED, Options
from kshark.units import safe

if TYPE_CHECKING:
    from kshark.capture.live import User
    from kshark.live import Consumer
    from kshark.live.files import CaptureFiles
    from kshark.live.files.tables import Tables
    from kshark.live.recorder import Recorder, RecorderOptions
    from kshark.model import PacketBatch
    from kshark.run import Run

STANDARD_OUTPUT = "-"


def add_files(parser: Parser) -> None:
    parser.add_argument(
        "-w",
        dest="output",
        metavar="FILE",
        help="write the packets as pcapng; -: to standard output, findings go to stderr",
    )
    parser.add_argument(
        "-b",
        dest="ring_buffer",
        action="append",
        default=[],
        metavar="CONDITION",
        help="with -w, several files: duration:SECONDS, interval:SECONDS, filesize:KB or packets:N make the next one, "
        "files:N keeps the last N",
    )
    parser.add_argument(
        "-a",
        dest="autostop",
        action="append",
        default=[],
        metavar="CONDITION",
        help="end the capture: duration:SECONDS, packets:N, filesize:KB, files:N",
    )
    parser.add_argument("--export", metavar="DIR", help="write the tables of kshark export while capturing")
    parser.add_argument(
        "--record",
        metavar="TIME,SIZE",
        help="hold the last packets, in TMPDIR, for --on-violation (60s,1GB)",
    )
    parser.add_argument(
        "--on-violation",
        metavar="save=DIR",
        help="save the packets around each violation: a file that gives the same finding; save=DIR,before=30s,after=5s,"
        "per=5m,keep=50,codes=CODE+CODE. SIGUSR1 saves all that is held",
    )


class LiveFiles:
    """The files of a running capture: `open` with the rights of the beginning, `start` with those that are left.

    Raises UsageError for options that are wrong or do not go together.
    """

    def __init__(self, args: Namespace) -> None:
        self._args = args
        self._ends, self._full = autostop(args.autostop), ring_buffer(args.ring_buffer)
        need_conditions(args.output, self._ends, self._full)
        if args.output is not None:
            from kshark.evidence.files import need_output

            need_output(args.output, [], "-w")
        self._recording = _recorder_options(args)
        #: Prints a note; a screen may set another one.
        self.note: Callable[[str], object] = print_note
        self._interfaces: tuple[str, ...] = ()
        self._files: CaptureFiles | None = None
        self._tables: Tables | None = None
        self.recorder: Recorder | None = None

    @property
    def needs_tables(self) -> bool:
        """True if the capture is to be read for tables, too."""
        return self._args.export is not None

    @property
    def takes_output(self) -> bool:
        """True if packets are written to standard output, so that nothing else may be."""
        return bool(self._args.output == STANDARD_OUTPUT)

    @property
    def consumers(self) -> list[Consumer]:
        """The consumers of the capture that write files."""
        return [it for it in (self._files, self._tables, self.recorder) if it is not None]

    @property
    def save(self) -> Callable[[], str] | None:
        """A function that saves what the flight recorder holds, and returns a sentence; None without a recorder."""
        if self._recording is None:
            return None
        return self._save

    @property
    def keeps_packets(self) -> bool:
        """True if packets are wanted that are not judged."""
        return self._args.output is not None

    @property
    def is_complete(self) -> bool:
        """True if the capture ends because of its files or of `-a`."""
        return self._files is not None and self._files.is_complete

    def cut(self, batch: PacketBatch) -> PacketBatch:
        """Return the packets of a batch that are part of the capture."""
        return batch if self._files is None else self._files.cut(batch)

    def open(self, user: User | None, run: Run, names: tuple[str, ...]) -> None:
        """Open what needs the rights of the beginning, and give it to the user that the process becomes.

        `names`: those of the interfaces.
        """
        args = self._args
        self._interfaces = names
        if args.output is not None or self._ends != NO_CONDITIONS:
            self._files = self._opened()
        if args.export is not None:
            from kshark.live.files.tables import Tables

            self._tables = Tables(args.export, ",".join(names), _row_options(args), run, note=self._print)
        if self._recording is not None:
            self.recorder = self._recorder(self._recording)
        if user is not None:
            for written in (self._files, self._tables, self.recorder):
                if written is not None:
                    written.give_to(user.uid, user.gid)

    def start(self) -> None:
        """Begin, after rights were given up and before the first packet. Raises UsageError if they are not enough."""
        if self._files is not None:
            self._files.need_writable()
        if self._tables is not None:
            self._tables.start()
        if self.recorder is not None:
            recorder = self.recorder
            recorder.start()
            signal.signal(signal.SIGUSR1, lambda *_: recorder.save("SIGUSR1"))

    def _opened(self) -> CaptureFiles:
        from kshark.live.files import CaptureFiles, Interfaces

        args = self._args
        interfaces = Interfaces(self._interfaces, args.snap_length, args.filter)
        try:
            return CaptureFiles(
                args.output,
                interfaces,
                self._ends,
                self._full,
                since_ns=time.time_ns(),
                secrets=args.secrets,
                note=self._print,
            )
        except OSError as error:
            raise UsageError(f"{safe(args.output)}: {error.strerror}; name another file with -w") from None

    def _recorder(self, options: RecorderOptions) -> Recorder:
        from kshark.live.files import Interfaces
        from kshark.live.recorder import Recorder, Saving

        args = self._args
        judged: Options = replace(JUDGED, kafka_ports=ports(args), max_request_bytes=args.max_request_bytes)
        names = ", ".join(self._interfaces)
        saving = Saving(options, judged, registry(args), names, secrets=args.secrets, check=_check_options(args))
        return Recorder(saving, Interfaces(self._interfaces, args.snap_length, args.filter), note=self._print)

    def _save(self) -> str:
        assert self.recorder is not None
        self.recorder.save("key w")
        return "saving what is held"

    def _print(self, sentence: str) -> None:
        self.note(sentence)


def _recorder_options(args: Namespace) -> RecorderOptions | None:
    if args.record is None and args.on_violation is None:
        return None
    from kshark.live.recorder import recorder_options

    return recorder_options(args.record, args.on_violation)


def _check_options(args: Namespace) -> str:
    """Return the options with which `kshark check` reads a recording."""
    options = [f"-d {rule}" for rule in args.decode_as]
    if args.max_request_bytes is not None:
        options.append(f"--max-request-bytes {args.max_request_bytes}")
    if args.tls_keys is not None and not args.secrets:
        options.append("--tls-keys FILE")
    return "".join(f" {option}" for option in options)


def _row_options(args: Namespace) -> dict[str, Any]:
    """Return the options that decide which rows tables have, without those not set."""
    values = {
        "no_records": not args.records,
        "no_payload": not args.payload,
        "secrets": args.secrets,
        "decode_as": args.decode_as,
        "dissectors": args.dissectors,
        "max_request_bytes": args.max_request_bytes,
    }
    return {name: value for name, value in values.items() if value}
