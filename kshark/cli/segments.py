"""Log segments for commands: find them among the named files, print them, and print the notes on them."""

from __future__ import annotations

import re
import sys
from argparse import Namespace
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kshark.capture.files import is_pipe, open_file
from kshark.cli.apis import registry
from kshark.cli.source import leave_out
from kshark.errors import UnreadableInput, UsageError
from kshark.output.sink import Sink
from kshark.units import safe

if TYPE_CHECKING:
    from kshark.output.notes import Notes
    from kshark.segments import SegmentBatch, ShareState

_NAME: Final = re.compile(r"\d{20}\.log")
#: Share partitions that are listed if none is selected.
_LISTED: Final = 5
#: Options of captures, by their attributes, that say nothing about log segments.
_OF_CAPTURES: Final = {
    "display_filter": "-Y",
    "output": "-w",
    "since": "--since",
    "until": "--until",
    "each": "--each",
    "at": "--at",
    "offset": "--offset",
    "holders": "--holders",
}


def segments_of(args: Namespace) -> list[str] | None:
    """Return the log segments that a command line names, as segments_in does."""
    return segments_in([*args.files, *args.more_files], args)


def segments_in(paths: Sequence[str], args: Namespace) -> list[str] | None:
    """Return the log segments of these files and folders, in the order of the log; None if they are captures.

    A folder of a partition stands for its segments, a folder of such folders for all of them, unless it has captures.
    The first file decides.
    Raises UsageError for options that need packets.
    """
    named = [name for path in paths for name in ([path] if _holds_captures(path) else _below(path))]
    if not named or not _may_be_segment(named[0]):
        return None
    from kshark.segments import are_segments, segment_files  # codecs and dissectors; captures do without

    if not are_segments(named):
        return None
    wrong = [option for name, option in _OF_CAPTURES.items() if getattr(args, name, None)]
    if wrong:
        raise UsageError(f"{wrong[0]} needs packets, and log segments have none; leave it out")
    return segment_files(named)


class SegmentReading:
    """The batches of log segments; iterate once, then `print_notes`."""

    def __init__(self, files: list[str], args: Namespace) -> None:
        from kshark.output.notes import Notes

        self._files = files
        self._args = args
        self._notes: Notes = Notes()
        self._batches = 0

    def __iter__(self) -> Iterator[list[SegmentBatch]]:
        from kshark.segments import Segment, SegmentBatch, weirds_of

        args, several = self._args, len(self._files) > 1
        for path in self._files:
            try:
                segment = Segment(
                    path,
                    registry(args),
                    records=getattr(args, "records", True),
                    payload=getattr(args, "payload", True),
                    secrets=getattr(args, "secrets", False),
                )
                for page in segment:
                    batches = [item for item in page if isinstance(item, SegmentBatch)]
                    yield batches
                    self._batches += len(batches)
                    self._notes.add([*weirds_of(page)])
            except UnreadableInput as error:
                if not several:
                    raise
                leave_out(args, error)

    def print_notes(self) -> None:
        """Print the notes on the segments to stderr."""
        from kshark.cli.source import print_notes_on

        name = f"{len(self._files)} log segments" if len(self._files) > 1 else "the log segment"
        if not self._batches:
            print(f"kshark: {safe(self._files[0])}: no batch; nothing was stored there", file=sys.stderr)
        self._notes.messages = max(1, self._batches)  # "no Kafka messages" is about packets
        print_notes_on(self._notes, name)


def print_batches(files: list[str], args: Namespace) -> int:
    """Print batches and records: `kshark read` for log segments."""
    from kshark.output.segments import batch_lines, record_lines
    from kshark.output.tree import Trees
    from kshark.segments import ShareReplay

    if args.format == "fields":
        raise UsageError("-T fields shows fields of messages, and log segments have none; write -T json")
    sink, left, reading = Sink(sys.stdout), args.count, SegmentReading(files, args)
    replay = ShareReplay()  # names records that contradict the ones before
    trees = Trees(registry(args))
    for batches in reading:
        shown = batches if left is None else batches[:left]
        for batch in shown:
            replay.feed(batch)
        if args.format == "json" and not args.quiet:
            sink.json(shown)
        elif not args.quiet:
            lines = (batch_lines(batch, trees) if args.verbose else record_lines(batch) for batch in shown)
            sink.lines(chain.from_iterable(lines), crop=not args.verbose)
        if left is not None and (left := left - len(shown)) == 0:
            return 0
    reading.print_notes()
    return 0


def print_share_states(files: list[str], args: Namespace) -> int:
    """Print the states of share partitions by the log: `kshark deliveries` for log segments."""
    from kshark.output.segments import share_state_lines
    from kshark.segments import ShareReplay

    replay, reading = ShareReplay(), SegmentReading(files, args)
    for batches in reading:
        for batch in batches:
            replay.feed(batch)
    sink = Sink(sys.stdout)
    every = [*replay.states()]
    states = [
        state
        for state in every
        if args.group in (None, state.group_id)
        and args.topic in (None, state.topic_id)
        and args.partition in (None, state.partition)
    ]
    if every and not states:
        others = [f"{state.group_id} · {state.topic_id}[{state.partition}]" for state in every[:_LISTED]]
        print(
            f"kshark: no share partition matches (the log names topics by id); there are {safe(', '.join(others))}"
            f"{f' and {len(every) - _LISTED} more' if len(every) > _LISTED else ''}",
            file=sys.stderr,
        )
    elif args.format == "json" and not args.quiet:
        sink.json(states)
    elif not args.quiet:
        sink.lines(share_state_lines(states, sink.width))
    if replay.forgotten:
        print(f"kshark: {replay.forgotten} records of further share partitions were left out", file=sys.stderr)
    reading.print_notes()
    return 0


def need_log(args: Namespace) -> None:
    """Raise UsageError if `--log` names no log segments."""
    from kshark.segments import are_segments

    for path in args.log:
        if not are_segments(_below(path)):
            raise UsageError(f"{path} is no log segment; --log needs one of __share_group_state, or a folder of them")


def share_states_by_log(args: Namespace, until_ns: int) -> list[ShareState]:
    """Return the states of share partitions by the segments of `--log`, up to a time."""
    from kshark.segments import ShareReplay, segment_files

    replay = ShareReplay(until_ns // 1_000_000)
    reading = SegmentReading(segment_files([name for path in args.log for name in _below(path)]), args)
    for batches in reading:
        for batch in batches:
            replay.feed(batch)
    reading.print_notes()
    return [*replay.states()]


def _below(path: str) -> list[str]:
    folder = Path(path)
    if path == "-" or not folder.is_dir():
        return [path]
    inside = [file for file in (*folder.glob("*.log"), *folder.glob("*-*/*.log")) if _NAME.fullmatch(file.name)]
    return [str(file) for file in inside] or [path]


def _holds_captures(path: str) -> bool:
    """True for a folder with captures directly in it: these are read, as always."""
    return path != "-" and any(Path(path).glob("*.pcap*"))


def _may_be_segment(path: str) -> bool:
    """True unless the file's first bytes are a capture's: most files are, and need no further look."""
    from kshark.capture.formats import FORMATS, MAGIC

    if is_pipe(path) or Path(path).is_dir():
        return False
    try:
        with open_file(path) as file:
            head = file.read(4)
    except UnreadableInput:
        return False
    return head not in FORMATS and head != MAGIC
