"""`kshark export`: Parquet tables."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

from kshark.capture.captures import need_captures
from kshark.capture.host import host_of
from kshark.cli.each import captures_of, run_all
from kshark.cli.parser import Parser, add_captures, add_payload, count
from kshark.cli.resting import Resting
from kshark.cli.segments import SegmentReading, segments_of
from kshark.cli.shown import add_filter, display_filter
from kshark.cli.source import Source, print_notes
from kshark.cli.tls import digest_of_keys
from kshark.errors import UnreadableInput, UsageError
from kshark.face import analysed
from kshark.output.table_folder import table_folder
from kshark.output.table_logs import FORMATS
from kshark.pipeline import Options
from kshark.records import Opening
from kshark.tables.captures import Named, grouped
from kshark.units import counted, safe

if TYPE_CHECKING:
    from kshark.output.export import Export
    from kshark.output.parquet_part import Attempt, Part, PartWriter

#: Captures after which the tables are published.
COMMIT_EVERY: Final = 100

EXAMPLES = (
    "kshark export trace.pcap -o tables",
    "kshark export captures/ --each -o tables --records",
    "kshark export captures/ --each -o s3://bucket/tables --resume",
    "kshark export __share_group_state-0/00000000000000000000.log -o tables",
    "duckdb -c \"select api, count(*) from 'tables/exchanges/*.parquet' group by 1\"",
)


def arguments(parser: Parser) -> None:
    add_captures(parser)
    add_folder(parser)
    parser.add_argument(
        "--records",
        dest="with_records",
        action="store_true",
        help="decode record batches; also write a table of records, one row each",
    )
    add_filter(
        parser,
        "only exchanges with a message that passes the filter, and findings based on one; all connections, their gaps, "
        "and all share sessions",
    )
    add_payload(parser)


def add_folder(parser: Parser) -> None:
    """Add the folder of tables, and the mode for tables that exist in it."""
    parser.add_argument(
        "-o",
        dest="folder",
        metavar="DIR",
        help="the folder of tables, on this machine or in a store (s3://bucket/tables); an earlier export in it is "
        "replaced",
    )
    mode = parser.add_mutually_exclusive_group()
    mode.add_argument(
        "--append",
        dest="mode",
        action="store_const",
        const="append",
        default="replace",
        help="add to the tables in DIR",
    )
    mode.add_argument(
        "--resume",
        dest="mode",
        action="store_const",
        const="resume",
        help="add to the tables in DIR, except captures that are already in them",
    )
    parser.add_argument(
        "--partition-by",
        metavar="date,cluster",
        help="one folder for the rows of each day (UTC), each cluster, or both",
    )
    parser.add_argument(
        "--format",
        dest="table_format",
        choices=FORMATS,
        help="delta or iceberg: Parquet files with such a log, one table each; default: parquet, or as in DIR",
    )
    parser.add_argument(
        "--commit-every",
        type=count,
        default=COMMIT_EVERY,
        metavar="N",
        help=f"publish the tables after every N captures, except where an export in DIR is replaced; default: "
        f"{COMMIT_EVERY}",
    )


def run(args: Namespace) -> int:
    try:
        from kshark.output.parquet import without_pandas
    except ImportError:
        raise UsageError("Parquet needs pyarrow: pip install 'kshark[parquet]'") from None
    without_pandas()
    _folder(args)  # report a wrong option before reading anything
    if (segments := segments_of(args)) is not None:
        return _export_segments(segments, args)
    wanted = display_filter(args)
    opened = args.with_records or (wanted is not None and wanted.needs.records)
    opening: Opening = (opened or "headers") if args.records else "checked"
    options = Options(records=opening, payload=args.payload, embedded=True, secrets=args.secrets)
    captures = captures_of(args)
    need_captures([*chain.from_iterable(captures)])
    with folder_of(args, options_of(args)) as export:
        named = [*zip(export.names(captures), captures, strict=True)]
        groups = [named] if args.jobs == 1 else grouped(named, args.jobs)
        items = (("a capture of " + " to ".join(sorted({group[0][0], group[-1][0]})), group) for group in groups)
        every = None if export.replaces else args.commit_every
        work = partial(_group, args, options, export.attempt, only=len(captures) == 1, every=every)
        with closing(run_all(args, work, items, captures)) as made:
            for parts in commits(chain(left_out(export, args), chain.from_iterable(made)), every):
                export.commit(parts)
    return close(export, args, "kshark")


def _export_segments(segments: Sequence[str], args: Namespace) -> int:
    """Write the records of coordinators' logs in log segments; each segment counts as a capture without packets."""
    from kshark.output.parquet_part import PartWriter

    args.with_records = True
    with folder_of(args, options_of(args)) as export:
        part = PartWriter(export.attempt)
        for name, path in zip(export.names([[path] for path in segments]), segments, strict=True):
            reading = SegmentReading([path], args)
            try:
                capture = export.attempt.capture(name, [path])
                if capture is None:
                    part.skip()
                    continue
                part.begin(capture)
                for batches in reading:
                    for stored in batches:
                        part.stored(stored.topic, stored.partition, [stored.batch])
                part.end(0)
            except UnreadableInput as error:
                if len(segments) == 1:
                    raise
                part.fault(name, error)
            reading.print_notes()
        export.commit([part.close()])
    return close(export, args, "kshark")


def left_out(export: Export, args: Namespace) -> Iterator[Part]:
    """Yield a part with a row in `faults` for each file that is no capture, which was reported and left out."""
    from kshark.output.parquet_part import PartWriter

    errors: list[UnreadableInput] = [error for error in getattr(args, "faults", ()) if error.file is not None]
    if errors:
        part = PartWriter(export.attempt)
        for name, error in zip(export.names([[str(error.file)] for error in errors]), errors, strict=True):
            part.fault(name, error)
        yield part.close()


def folder_of(args: Namespace, options: dict[str, Any]) -> Export:
    """Return the export of a command line. Raises UsageError."""
    from kshark.output.export import Export
    from kshark.output.parquet_partitions import partitions_by

    folder = _folder(args)
    by = None if args.partition_by is None else partitions_by(args.partition_by)
    return Export(folder, options, mode=args.mode, partition_by=by, table_format=args.table_format)


def _folder(args: Namespace) -> str:
    if not args.folder:
        raise UsageError("no folder given for the tables; name one with -o DIR")
    return table_folder(args.folder).name


def options_of(args: Namespace) -> dict[str, Any]:
    """Return the options of a command line that decide which rows a capture has, without those not set."""
    values = {
        "records": args.with_records,
        "filter": args.display_filter,
        "since": args.since,
        "until": args.until,
        "no_records": not args.records,
        "no_payload": not args.payload,
        "secrets": args.secrets,
        "decode_as": args.decode_as,
        "dissectors": args.dissectors,
        "tls_keys": digest_of_keys(args),
        "max_request_bytes": args.max_request_bytes,
    }
    return {name: value for name, value in values.items() if value}


def commits(parts: Iterable[Part], every: int | None) -> Iterator[list[Part]]:
    """Yield the parts of each commit: at least `every` captures, all if None, and the rest at the end."""
    held: list[Part] = []
    for part in parts:
        held.append(part)
        if every is not None and sum(part.count for part in held) >= every:
            yield held
            held = []
    yield held


def close(export: Export, args: Namespace, who: str) -> int:
    """Print the captures that could not be read, and the summary. Return the exit code."""
    reported = {str(error) for error in getattr(args, "faults", ())}
    for fault in export.faults:
        if fault not in reported:
            print(f"{who}: {fault}", file=sys.stderr)
    if not args.quiet:
        print(f"{who}: {_summary(export)}", file=sys.stderr)
    return 2 if export.faults or args.unread else 0


def _summary(export: Export) -> str:
    """Return the summary of the export in one line."""
    filled = ", ".join(f"{name} {rows:,}" for name, rows in export.rows.items() if rows)
    skipped = f"; {counted(export.skipped, 'capture')} already in it" if export.skipped else ""
    if skipped and not filled:
        return f"nothing new in {safe(export.folder)}{skipped}"
    return (
        f"{counted(export.rows.total(), 'row')} in {safe(export.folder)} ({filled or 'every table is empty'}){skipped}"
    )


def _group(
    args: Namespace,
    options: Options,
    attempt: Attempt,
    captures: Sequence[Named],
    *,
    only: bool,
    every: int | None,
    alone: bool,
) -> Iterable[Part]:
    """Return the parts of these captures; a list if another process waits for them."""
    parts = _parts(args, options, attempt, captures, only=only, every=every, alone=alone)
    return parts if alone else [*parts]


def _parts(
    args: Namespace,
    options: Options,
    attempt: Attempt,
    captures: Sequence[Named],
    *,
    only: bool,
    every: int | None,
    alone: bool,
) -> Iterator[Part]:
    """Write the tables of these captures and yield their parts: one if `every` is None, else one for so many captures,
    or less if they are large, that can be committed one by one.

    If the `only` capture cannot be read, the tables stay unchanged.
    """
    from kshark.output.parquet_part import PartWriter

    wanted = display_filter(args)
    part = PartWriter(attempt, wanted)
    for name, files in captures:
        source = Source(files, args, options, progress=alone, leaves_out=len(files) > 1)
        try:
            capture = attempt.capture(name, files)
            if capture is None:
                part.skip()
                continue
            part.begin(capture)
            _write(source, part, args)
            part.end(source.shown_packets or 0, host_of(files), source.faults)
        except UnreadableInput as error:
            if only:
                raise
            part.fault(name, error)
        print_notes(source, heading=args.each)
        if every is not None and part.is_full(every):
            yield part.close()
            part = PartWriter(attempt, wanted)
    yield part.close()


def _write(source: Source, part: PartWriter, args: Namespace) -> None:
    resting = Resting(args)
    for page, results in analysed(source):
        part.page(filter(source.shows, page) if args.since else page)
        resting.add(page)
        part.page(resting.shown(filter(source.shows, results) if args.since else results))
