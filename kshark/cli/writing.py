"""`kshark read -w`: the packets of the messages that pass, as pcapng."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final

from kshark.capture.copying import need_files
from kshark.cli.apis import registry
from kshark.cli.period import Period
from kshark.cli.shown import display_filter
from kshark.cli.source import leave_out
from kshark.errors import UsageError
from kshark.evidence.capture import Copied
from kshark.evidence.files import STANDARD_OUTPUT, appearing, need_output
from kshark.evidence.messages import MessagePackets
from kshark.units import counted, safe, size

if TYPE_CHECKING:
    from kshark.cli.source import Source
    from kshark.model import Message
    from kshark.output.sink import Sink

#: Bytes that are copied at a time.
_PIECE: Final = 1 << 20


def need_writable(args: Namespace, captures: Sequence[Sequence[str]]) -> None:
    """Raise UsageError if `-w` does not go with the other options, or if its file cannot be written."""
    if args.verbose or args.fields or args.format != "text":
        raise UsageError("-w writes packets and prints no messages; leave out -T, -V and -e")
    if len(captures) > 1:
        raise UsageError("-w writes one file; name one capture, or leave out --each")
    need_files(captures[0], "-w")
    need_output(args.output, captures[0], "-w")


def copied(source: Source, args: Namespace) -> Copied:
    """Return a capture of the command line for copies of its packets."""
    return Copied(
        source.files,
        source.options,
        registry(args),
        Period(args.since, args.until).clip,
        partial(leave_out, args) if len(source.files) > 1 else None,
        args.tls_keys if getattr(args, "secrets", False) else b"",
    )


def write_messages(source: Source, args: Namespace, _: Sink) -> None:
    """Read a capture, and write the packets of the messages that pass, with their answers."""
    wanted = display_filter(args)

    def passing(messages: list[Message]) -> list[Message]:
        shown = [*filter(source.shows, messages)] if args.since else messages
        return shown if wanted is None else wanted.passing(shown)

    packets = MessagePackets(passing, args.count)
    for page in source:
        packets.page(page)
        if packets.is_done:
            break
    near = None if args.output == STANDARD_OUTPUT else Path(args.output).parent
    with TemporaryDirectory(prefix=".kshark-", dir=near) as folder:
        file = Path(folder) / "packets.pcapng"
        written, unread = _write(source, args, packets, file)
        if unread:
            written, unread = _write(source, args, packets, file)
        with appearing(args.output) as output, file.open("rb") as complete:
            for piece in iter(partial(complete.read, _PIECE), b""):
                output.write(piece)
        if not args.quiet:
            _print_written(args.output, written, packets.messages, file.stat().st_size)
    if unread:
        print(f"kshark: {counted(unread, 'message')} of them cannot be read again from there", file=sys.stderr)


def _write(source: Source, args: Namespace, packets: MessagePackets, file: Path) -> tuple[int, int]:
    """Write the chosen packets. Return their number, and how many messages cannot be read from the file."""
    capture = copied(source, args)
    (numbers,) = capture.write([(file, packets.selection)])
    heads = replace(source.options, records=False, bodies=frozenset(), embedded=False)
    assert numbers is not None  # without a limit
    return len(numbers), packets.unread(capture.pages(file, heads))


def _print_written(output: str, packets: int, messages: int, length: int) -> None:
    name = "standard output" if output == STANDARD_OUTPUT else safe(output)
    print(
        f"kshark: wrote {counted(messages, 'message')} and the other side of each, in {counted(packets, 'packet')} "
        f"({size(length)}), to {name}",
        file=sys.stderr,
    )
