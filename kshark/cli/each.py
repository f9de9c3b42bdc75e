"""Read the captures of a command line: one after the other, or with `--each --jobs N` by N processes."""

from __future__ import annotations

import gc
import sys
from argparse import Namespace
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from functools import partial
from itertools import chain
from pathlib import PurePath
from typing import TypeVar

from kshark.capture.captures import expand
from kshark.capture.files import is_pipe
from kshark.capture.paths import is_remote, parted
from kshark.cli.source import Source, leave_out, name_of, print_notes
from kshark.output.sink import Sink
from kshark.pipeline import Options

T = TypeVar("T")
R = TypeVar("R")

#: Prints one capture. The command receives its return value, also from another process.
Show = Callable[[Source, Namespace, Sink], R]


def each(
    args: Namespace,
    options: Options,
    show: Show[R],
    *,
    captures: Sequence[Sequence[str]] | None = None,
    printing: bool = False,
    headings: bool = True,
    stops: bool = False,
) -> Iterator[R]:
    """Read the captures of a command line: print each with `show`, its heading before and its notes after it.

    Yields the results of `show`, in order. `captures`: the result of captures_of. `printing`: `show` prints while it
    reads. `headings`: text output has a line with each capture's name. `stops`: Ctrl-C ends the reading, and `show`
    prints what was found by then. Raises UsageError if no capture is named, UnreadableInput if none exists.
    """
    if captures is None:
        captures = captures_of(args)
    several = sum(map(len, captures)) > 1
    work = partial(
        _shown,
        args,
        options,
        show,
        printing=printing,
        headings=headings,
        several=several,
        stops=stops,
        of=len(captures),
    )
    items = ((name_of(files), (number, files)) for number, files in enumerate(captures))
    with closing(run_all(args, work, items, captures)) as results:
        for result, unread in results:
            args.unread = args.unread or unread
            yield result
            if args.interrupted:
                return


def captures_of(args: Namespace) -> list[list[str]]:
    """Return the files of each capture: one file with `--each`, those of a folder with `--each-folder`, else all.

    A file among several that cannot be read is left out.
    """
    gc.freeze()
    return divided([str(path) for path in expand([*args.files, *args.more_files], partial(leave_out, args))], args.each)


def divided(files: Sequence[str], each: str | None) -> list[list[str]]:
    """Return the files of each capture; `each`: "file", "folder", or None for one capture of all files."""
    if each is None:
        return [[*files]]
    if each == "file":
        return [[file] for file in files]
    of_folder: dict[PurePath, list[str]] = {}
    for file in files:
        of_folder.setdefault(PurePath(parted(file)[0]).parent, []).append(file)
    return [*of_folder.values()]


def run_all(
    args: Namespace, work: Callable[..., R], items: Iterable[tuple[str, T]], captures: Sequence[Sequence[str]]
) -> Generator[R, None, None]:
    """Yield the results of `work` for the named items, computed in `--jobs` processes or in this one.

    `items` contain the `captures`. `work` receives an item, and `alone`: true if no other process uses the terminal.
    """
    files = [*chain.from_iterable(captures)]
    if args.jobs == 1 or _is_for_one(args, captures, files):
        return (work(item, alone=True) for _, item in items)
    from kshark.cli.processes import in_processes  # multiprocessing, 15 ms

    # connections to a store do not survive a fork
    forks = not any(map(is_remote, [*files, getattr(args, "folder", None) or ""]))
    return in_processes(partial(work, alone=False), items, args.jobs, forks=forks)


def _is_for_one(args: Namespace, captures: Sequence[Sequence[str]], files: Iterable[str]) -> bool:
    """True if one process reads everything in spite of `--jobs`; a note reports it."""
    if len(captures) == 1:
        advice = "" if args.each else "; add --each if every file is a separate capture"
        print(f"kshark: --jobs: a single capture is read by one process{advice}", file=sys.stderr)
        return True
    if any(map(is_pipe, files)):
        print("kshark: --jobs: a pipe, and all captures named with it, are read by one process", file=sys.stderr)
        return True
    return False


def _shown(
    args: Namespace,
    options: Options,
    show: Show[R],
    capture: tuple[int, Sequence[str]],
    *,
    printing: bool,
    headings: bool,
    several: bool,
    stops: bool,
    of: int,
    alone: bool,
) -> tuple[R, bool]:
    """Return the result of `show` for one capture, and whether a file was left out."""
    progress = alone and not (printing and not args.quiet and sys.stdout.isatty())
    number, files = capture
    source = Source(
        files, args, options, number=number, progress=progress, leaves_out=several, stops=stops and alone, of=of
    )
    sink = Sink(sys.stdout, lambda: source.log_lines)
    if args.each and headings and args.format == "text":
        sink.text(f"== {source.title}\n")
    result = show(source, args, sink)
    print_notes(source, heading=args.each)
    return result, args.unread
