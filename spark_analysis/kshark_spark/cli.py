"""The command `kshark-spark`: check, export and report, for captures of any number and size, or for the tables of an
earlier export.
"""

from __future__ import annotations

import os
import sys
from argparse import Namespace
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from operator import itemgetter
from typing import TYPE_CHECKING, Final

from msgspec import structs

from kshark.capture.captures import need_captures
from kshark.capture.paths import absolute
from kshark.cli import completion
from kshark.cli.ending import ended
from kshark.cli.parser import (
    Parser,
    add_each,
    add_format,
    add_max_request_bytes,
    add_restrictions,
    add_secrets,
    close_to,
    count,
)
from kshark.cli.shown import add_filter
from kshark.cli.source import leave_out
from kshark.cli.tls import add_tls_keys, digest_of_keys
from kshark.errors import Destroyed, Empty, UnreadableInput, UsageError
from kshark.units import counted, safe
from kshark_spark.class_archive import java_options
from kshark_spark.progress import shown
from kshark_spark.session import cores_of, need_pyspark, open_session
from kshark_spark.settings import pairs
from kshark_spark.steps import working

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kshark.cli.described import Command
    from kshark.cli.reporting import Read
    from kshark.model import Finding
    from kshark.output.manifest import Capture
    from kshark_spark.check import Checked

#: The name of the program in its messages.
WHO: Final = "kshark-spark"
COMMANDS: Final = {
    "check": "broken rules: who broke which, with the evidence; the findings of kshark check, computed on Spark",
    "export": "Parquet tables, the same as kshark export's, written by Spark's workers",
    "report": "an HTML page and its data, the same as kshark report's, computed by Spark's workers",
    "compact": "merge the small files of a folder of tables into files of about 256 MB, for faster queries",
    "prepare": "run once per machine: archive Spark's Java classes, so that Spark starts in half the time",
    "completion": "completion of commands, options and codes for bash or zsh",
}
EXAMPLES: Final = {
    "check": (
        "kshark-spark check tables/",
        "kshark-spark check a.pcap b.pcap -T json",
        "kshark-spark check captures/ --each",
    ),
    "export": (
        "kshark-spark export captures/ --each -o tables",
        "kshark-spark export a.pcap -o tables --master spark://host:7077",
    ),
    "report": (
        "kshark-spark report captures/ --each -o report",
        "kshark-spark report tables/ -o report --ignore SESSION_NOT_CLOSED",
    ),
    "compact": ("kshark-spark compact tables/", "kshark-spark compact s3://bucket/tables"),
    "prepare": ("kshark-spark prepare",),
    "completion": (
        'eval "$(kshark-spark completion bash)"',
        'kshark-spark completion zsh > "${fpath[1]}/_kshark_spark"',
    ),
}


_HELP: Final = (
    "kshark-spark COMMAND --help shows a command's options and examples.\n"
    "Report bugs and wrong findings at https://github.com/kshark/kshark/issues\n"
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code, which has the same meaning as that of `kshark`."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    words = sys.argv[1:] if argv is None else list(argv)
    return ended("kshark-spark", lambda: _run(words), _of_spark)


def _of_spark(error: Exception) -> str | None:
    """Return why Spark stopped, as a sentence; None for an error that is not Spark's."""
    if type(error).__module__.split(".")[0] not in ("pyspark", "py4j") and not isinstance(error, ConnectionError):
        return None
    from kshark_spark.failures import sentence

    return sentence(error)


def _run(words: Sequence[str]) -> int:
    match words:
        case ["help", command, *_] if command in COMMANDS:
            return _run([command, "--help"])
        case [] | ["-h" | "--help" | "help"] | ["-h" | "--help", *_]:
            width = max(map(len, COMMANDS)) + 2
            rows = "".join(f"  {name:<{width}}{text}\n" for name, text in COMMANDS.items())
            text = f"usage: kshark-spark COMMAND ...\n\n{rows}\n{_HELP}"
            print(text, end="", file=sys.stdout if words else sys.stderr)
            return 0 if words else 2
        case ["-V" | "--version", *_]:
            from kshark import __version__

            print(f"kshark-spark {__version__}")
            return 0
        case [command, *rest] if command in COMMANDS:
            args = parser_of(command).parse(rest)
            if command == "completion":
                return _completion(args)
            need_pyspark()
            return _counted(command, _RUN[command], args)
        case ["help", other, *_] | [other, *_]:
            raise UsageError(f'no command "{other}"{close_to(other, COMMANDS)} (kshark-spark --help lists them)')
    raise AssertionError(words)


def _counted(command: str, run: Callable[[Namespace], int], args: Namespace) -> int:
    """Run a command; count for `--metrics`."""
    from kshark_spark.job_metrics import JobMetrics, reported

    args.job = JobMetrics(command)
    with reported(args.job, getattr(args, "metrics", None)) as codes:
        codes.append(run(args))
        return codes[-1]


def parser_of(command: str) -> Parser:
    parser = Parser(command, COMMANDS[command], EXAMPLES[command])
    parser.prog = f"kshark-spark {command}"
    if command == "prepare":
        return parser
    if command == "completion":
        completion.arguments(parser)
        return parser
    if command == "compact":
        parser.add_argument("folder", metavar="DIR", help="a folder of tables, on this machine or in a store")
        _add_where(parser)
        parser.add_argument("-q", dest="quiet", action="store_true", help="no closing summary")
        return parser
    parser.add_argument(
        "paths",
        nargs="+",
        metavar="PATH",
        help="captures: pcap or pcapng files, or folders of them; or one folder of tables",
    )
    add_each(parser)
    parser.add_argument(
        "--cores",
        type=count,
        metavar="N",
        help="how many tasks can run at a time; default: what Spark has, or may add by dynamic allocation",
    )
    _add_where(parser)
    parser.add_argument(
        "--metrics",
        metavar="FILE",
        help="write what a scheduler wants to know (captures, bytes, findings, seconds, exit code) as JSON; for "
        "Prometheus if the name ends in .prom",
    )
    add_max_request_bytes(parser)
    add_tls_keys(parser)
    parser.add_argument("-q", dest="quiet", action="store_true", help="only the closing summary, no findings")
    if command == "export":
        from kshark.cli.export import add_folder

        add_folder(parser)
        parser.add_argument("--records", action="store_true", help="also write a table of records, one row each")
        add_secrets(parser)
        return parser
    from kshark.cli.check import EXIT_CODES, add_coverage, add_fail_on, add_selection, add_verbose

    if command == "report":
        parser.add_argument(
            "-o", dest="folder", metavar="DIR", help="the folder of the report; an earlier report in it is replaced"
        )
        add_restrictions(parser)
        add_filter(
            parser, "only findings based on a message that passes the filter (all messages are judged and counted)"
        )
    add_format(parser, "text", "json")
    add_selection(parser)
    if command == "check":
        add_verbose(parser)
        add_coverage(parser)
        add_fail_on(parser)
        parser.add_argument("--complete", action="store_true", help="not on Spark: use kshark check --complete")
    parser.epilog = f"{parser.epilog}\n{EXIT_CODES}"
    return parser


def described_commands() -> list[Command]:
    """Return the commands as data, for completion and the man page."""
    from kshark.cli.described import described

    return [described(name, about, parser_of(name), EXAMPLES[name]) for name, about in COMMANDS.items()]


def _completion(args: Namespace) -> int:
    completion.write(WHO, described_commands(), completion.shell_of(args), default=None)
    return 0


def _add_where(parser: Parser) -> None:
    parser.add_argument(
        "--master", metavar="URL", help="where Spark runs; default: as set by spark-submit, else on this machine"
    )
    parser.add_argument(
        "--conf",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a Spark setting, as for spark-submit",
    )


def _session(args: Namespace) -> SparkSession:
    if sys.stderr.isatty() and args.master is None and not java_options():
        print(
            "kshark-spark: starting Spark; run `kshark-spark prepare` once to halve the start-up time", file=sys.stderr
        )
    return open_session(args.master, pairs(args.conf), source=False)


# -- check


def _check(args: Namespace) -> int:
    from kshark.cli.check import NOTHING_JUDGED, exit_code, fail_on, judging, outcomes_of, selection, verdict
    from kshark.cli.printed_findings import collected, print_details
    from kshark.cli.source import print_notes_on
    from kshark.output.catalogue import judged
    from kshark.output.sink import Sink

    if args.complete:
        raise UsageError("--complete needs all connections in one process; use kshark check FILE --complete")
    chosen, failing = selection(args), fail_on(args)
    sink, outcomes, nothing = Sink(sys.stdout), list[set[str]](), 0
    with judging():
        for capture, result in _checked(args):
            if capture is not None and args.format == "text":
                sink.text(f"== {safe(capture)}\n")
            if isinstance(result, UnreadableInput):
                leave_out(args, result, WHO)
                args.job.captures["failed"] += 1
                nothing = max(nothing, NOTHING_JUDGED if isinstance(result, Empty | Destroyed) else 2)
                continue
            for error in result.left_out:
                leave_out(args, error, WHO)
            findings = [*filter(chosen, result.findings)]
            printed = collected(findings, args, sink)
            args.job.judged(printed.counts.verdicts, result.observed.exchanges, result.packets)
            if result.notes is not None:
                result.notes.leave_out(judged(printed.counts.codes))
                print_notes_on(result.notes, "the capture" if capture is None else safe(capture))
            if result.giant is not None:
                print(f"{WHO}: {result.giant}", file=sys.stderr)
            verdict(printed, result.observed, args, sink, capture, outcomes=result.outcomes)
            print_details(findings, args, sink, result.topics)
            outcomes.append(outcomes_of(printed.counts, result.observed, args))
    if not outcomes:
        return nothing
    return exit_code(outcomes, failing) or (0 if args.each else 2 * args.unread)


def _checked(args: Namespace) -> Iterator[tuple[str | None, Checked | UnreadableInput]]:
    """Yield the result of each capture with its displayed name, or None if it is the only one."""
    from kshark.cli.check import asks_for_coverage

    coverage = asks_for_coverage(args)
    folder = _tables(args)
    if folder is not None:
        from kshark_spark.check import check
        from kshark_spark.tables import exported

        names = [capture.name for capture in _whole_captures(folder)]
        spark = _session(args)
        with shown(spark), working(f"Check the tables of {counted(len(names), 'capture')}"):
            checked_captures = check(
                exported(spark, folder),
                names,
                2 * cores_of(spark, args.cores),
                named=args.format == "text",
                coverage=coverage,
                outcomes=not args.quiet,
            )
        yield from ((name if len(names) > 1 else None, result) for name, result in checked_captures.items())
        return
    from kshark.cli.source import name_of
    from kshark.pipeline import JUDGED
    from kshark_spark.captures import checked

    captures = _captures(args)
    options = replace(JUDGED, tls_keys=args.tls_keys, max_request_bytes=args.max_request_bytes)
    named = [(name_of(files), [absolute(file) for file in files]) for files in captures]
    spark = _session(args)
    with shown(spark) as clear, working(f"Check {counted(len(captures), 'capture')}"):
        results = checked(spark, named, options, cores_of(spark, args.cores), coverage=coverage)
        for files, (name, places), result in zip(captures, named, results, strict=True):
            if isinstance(result, UnreadableInput):
                if len(captures) == 1:
                    raise result
            else:
                _name_files(result.findings, dict(zip(places, files, strict=True)))
            clear()
            yield name if args.each else None, result


def _name_files(findings: Iterable[Finding], names: Mapping[str, str]) -> None:
    """Name the files of witnesses as on the command line; `names`: by their places for tasks."""
    for finding in findings:
        for witness in finding.witness:
            witness.places = witness.places and [
                structs.replace(place, file=names[place.file]) for place in witness.places
            ]


# -- export


def _export(args: Namespace) -> int:
    from kshark.cli.export import close, folder_of, left_out
    from kshark.cli.segments import segments_in
    from kshark.cli.source import print_notes_on
    from kshark.pipeline import Options
    from kshark_spark.export import run

    if _tables(args) is not None:
        raise UsageError(f"{args.paths[0]} already contains tables; name captures")
    segments = segments_in(args.paths, args)
    args.records = args.records or segments is not None
    named = _captures(args) if segments is None else [[segment] for segment in segments]
    captures = [[absolute(file) for file in files] for files in named]
    values = {
        "records": args.records,
        "secrets": args.secrets,
        "tls_keys": digest_of_keys(args),
        "max_request_bytes": args.max_request_bytes,
    }
    asked = Options(
        records=args.records or "headers",
        embedded=True,
        secrets=args.secrets,
        tls_keys=args.tls_keys,
        max_request_bytes=args.max_request_bytes,
    )
    with folder_of(args, {name: value for name, value in values.items() if value}) as export:
        spark = _session(args)
        none = [*left_out(export, args)]
        with shown(spark), working(f"Export {counted(len(captures), 'capture')}"):
            made = [
                *run(
                    spark,
                    export,
                    captures,
                    asked,
                    cores_of(spark, args.cores),
                    args.commit_every,
                    none,
                    stored=segments is not None,
                )
            ]
    for error in chain.from_iterable(written.left_out for written in made):
        leave_out(args, error, WHO)
    for name, notes in sorted(chain.from_iterable(written.notes for written in made), key=itemgetter(0)):
        print_notes_on(notes, name if len(captures) > 1 else "the capture")
    args.job.exported(len(captures), len(export.faults), export.skipped, export.rows)
    return close(export, args, "kshark-spark")


# -- compact


def _compact(args: Namespace) -> int:
    from kshark.output.export import Export
    from kshark_spark.compact import has_small_files, run

    before = after = 0
    if has_small_files(args.folder):
        with Export(args.folder, mode="append") as export:
            spark = _session(args)
            with shown(spark), working(f"Compact {args.folder}"):
                before, after = run(spark, export)
    if not args.quiet:
        what = f"{counted(before, 'file')} became {after:,}" if before else "there are no small files to merge"
        print(f"kshark-spark: {safe(args.folder)}: {what}", file=sys.stderr)
    return 0


# -- report


def _report(args: Namespace) -> int:
    from kshark.cli.report import Writing, usable
    from kshark.report.names import base_names
    from kshark.tables.captures import capture_names
    from kshark_spark.report import faults_of, is_restricted, parts_of_captures, parts_of_tables

    args.dissectors = []
    target, folder, restricted = usable(args), _tables(args), is_restricted(args)
    if folder is not None:
        if restricted:
            raise UsageError(f"{folder} is a folder of tables; -Y, --since, --until and -d work with captures only")
        captures = {capture.name: [file.file for file in capture.files] for capture in _whole_captures(folder)}
    else:
        files = _captures(args)
        captures = dict(zip(base_names(capture_names(files)), files, strict=True))
    spark = _session(args)
    from kshark_spark.tables import exported, one_exported

    writing = Writing(target, args, several=len(captures) > 1)
    tables = "" if folder is None else "the tables of "
    with shown(spark) as clear, working(f"Report on {tables}{counted(len(captures), 'capture')}"):
        if folder is not None:
            made = parts_of_tables(exported(spark, folder), captures, args, cores_of(spark, args.cores))
            parts: Iterable[Read | UnreadableInput] = [(part, []) for part in made]
            unread = faults_of(one_exported(spark, folder, "faults"), captures)
            writing.add((None, unread), named=False)
        else:
            parts = parts_of_captures(spark, captures, args)
        for name, part in zip(captures, parts, strict=True):
            clear()
            _count(args, part)
            writing.add(_left_out(part, args, len(captures)), named=len(captures) > 1, name=name if folder else None)
    return writing.close()


def _left_out(read: Read | UnreadableInput, args: Namespace, captures: int) -> Read:
    """Report what could not be read. Raises the error of the only capture."""
    if isinstance(read, UnreadableInput):
        if captures == 1:
            raise read
        read = None, [read]
    for error in read[1]:
        leave_out(args, error, WHO)
    return read


def _count(args: Namespace, part: Read | UnreadableInput) -> None:
    """Count a capture of a report for `--metrics`."""
    if isinstance(part, UnreadableInput) or part[0] is None:
        args.job.captures["failed"] += 1
    else:
        args.job.judged(part[0].printed.counts.verdicts, part[0].observed.exchanges)


# -- prepare


def _prepare(_: Namespace) -> int:
    from kshark_spark.prepare import prepare

    try:
        path = prepare()
    except OSError as error:
        raise UsageError(
            f"cannot write the archive of Spark's classes: {error}; set XDG_CACHE_HOME to use another folder"
        ) from None
    print(f"kshark-spark: {path} ({path.stat().st_size >> 20} MB); Spark uses it from now on", file=sys.stderr)
    return 0


_RUN: Final = {"check": _check, "export": _export, "report": _report, "compact": _compact, "prepare": _prepare}

# -- paths


def _tables(args: Namespace) -> str | None:
    """Return the folder of tables, complete or not; None if none is named.

    Raises UsageError if another path is named with it.
    """
    from kshark.output.manifest import is_tables

    paths: Sequence[str] = args.paths
    folders = [path for path in paths if is_tables(path)]
    if folders and len(paths) > 1:
        raise UsageError(f"{folders[0]} is a folder of tables; name no other path with it")
    if folders and args.tls_keys:
        raise UsageError(f"{folders[0]} is a folder of tables; use --tls-keys with the export that writes them")
    return folders[0] if folders else None


def _whole_captures(folder: str) -> list[Capture]:
    """Return the captures of tables that can be checked; a note says which columns they lack. Raises UsageError."""
    from kshark.output.manifest import absent_columns, whole_captures

    manifest = whole_captures(folder)
    absent = absent_columns(manifest)
    if absent:
        print(
            f"{WHO}: {safe(folder)} was written by an earlier kshark and lacks {', '.join(absent)}; fewer violations "
            "can be proved without them: export the captures again if you have them",
            file=sys.stderr,
        )
    return manifest.captures


def _captures(args: Namespace) -> list[list[str]]:
    """Return the files of each capture. A file among several that is not a capture is left out, and reported."""
    from kshark.capture.captures import expand
    from kshark.cli.each import divided

    if "-" in args.paths:
        raise UsageError("Spark's workers cannot read standard input; name files")

    def note(error: UnreadableInput) -> None:
        leave_out(args, error, WHO)
        args.job.captures["failed"] += 1

    files = [str(path) for path in expand(args.paths, note)]
    if len(files) == 1:
        need_captures(files)
    captures = divided(files, args.each)
    args.job.name(captures)
    return captures
