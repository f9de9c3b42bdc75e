"""`kshark export`: Parquet tables."""

from __future__ import annotations

import sys
from argparse import Namespace
from typing import TYPE_CHECKING

from kshark.cli.parser import Parser, add_captures, add_jobs, add_payload
from kshark.cli.resting import Resting
from kshark.cli.shown import add_filter, display_filter
from kshark.cli.source import Source, print_notes, sources
from kshark.errors import UsageError
from kshark.face import analysed
from kshark.output.units import counted
from kshark.pipeline import Options
from kshark.records import Opening

if TYPE_CHECKING:
    from kshark.output.parquet import ParquetWriter

EXAMPLES = (
    "kshark export trace.pcap -o tables",
    "kshark export captures/ --each -o tables --records",
    "duckdb -c \"select api, count(*) from 'tables/exchanges/*.parquet' group by 1\"",
)


def arguments(parser: Parser) -> None:
    add_captures(parser)
    parser.add_argument("-o", dest="folder", metavar="DIR", help="the folder of tables; an earlier export in it is replaced")
    parser.add_argument(
        "--records", dest="with_records", action="store_true", help="open record batches: a table of records too, one row each"
    )
    add_filter(
        parser,
        "only exchanges with a message that passes, and findings that rest on one; all connections, their gaps, and all share sessions",
    )
    add_payload(parser)
    add_jobs(parser)


def run(args: Namespace) -> int:
    if args.folder is None:
        raise UsageError("no folder given for the tables; name one with -o DIR")
    try:
        from kshark.output.parquet import ParquetWriter, without_pandas
    except ImportError:
        raise UsageError("Parquet needs pyarrow: pip install 'kshark[parquet]'") from None
    without_pandas()
    wanted = display_filter(args)
    opened = args.with_records or (wanted is not None and wanted.needs.records)
    opening: Opening = args.records and (opened or "headers")
    captures = list(sources(args, Options(records=opening, payload=args.payload, embedded=True)))
    if args.jobs > 1:
        from kshark.cli.pipelined import exported  # multiprocessing, 15 ms

        rows = exported(captures, args)
    else:
        writer = ParquetWriter(args.folder, [source.files for source in captures], records=args.with_records, wanted=wanted)
        for source in captures:
            _write(source, writer, args)
            print_notes(source, heading=args.each)
        rows = writer.close()
    if not args.quiet:
        filled = ", ".join(f"{name} {count:,}" for name, count in rows.items() if count)
        print(f"kshark: {counted(sum(rows.values()), 'row')} in {args.folder} ({filled or 'every table is empty'})", file=sys.stderr)
    return 0


def _write(source: Source, writer: ParquetWriter, args: Namespace) -> None:
    writer.begin()
    resting = Resting(args)
    for page, told in analysed(source):
        writer.page(filter(source.shows, page) if args.since else page)
        resting.add(page)
        writer.page(resting.shown(filter(source.shows, told) if args.since else told))
