"""`python -m tools.sync PATH`: check that the dissectors are complete. No output means that they are."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from kshark.errors import Error, UsageError
from kshark.schema import Versions
from tools.sync.definitions import Definition, read_folder, snake_case
from tools.sync.draft import api_draft, index_line, layout_draft
from tools.sync.ours import our_layouts
from tools.sync.report import Report, compare


def main(arguments: Sequence[str] | None = None) -> int:
    """Return exit code 0: no difference, 1: differences, 2: bad usage."""
    asked = _parser().parse_args(arguments)
    try:
        theirs = read_folder(asked.path)
        if asked.draft is not None:
            print("\n".join(_drafted(asked.draft, theirs, asked.into)))
            return 0
        report = compare(our_layouts(), theirs)
    except Error as error:
        print(f"tools.sync: {error}", file=sys.stderr)
        return 2
    for line in _lines(report, asked.path):
        print(line)
    if asked.known:
        print("\n".join(f"= {line}" for line in report.known))
    words = f"{len(theirs)} definitions, {len(report.known)} known differences"
    print(words if report else f"{words}, nothing to do", file=sys.stderr)
    return 1 if report else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tools.sync", description="Compares the dissectors with Kafka's message definitions."
    )
    parser.add_argument(
        "path", type=Path, metavar="PATH", help="a folder of Kafka's sources, or of its definitions (JSON)"
    )
    parser.add_argument("--known", action="store_true", help="print the known differences as well")
    parser.add_argument(
        "--draft",
        metavar="NAME",
        help="write a first draft of a dissector: PauseGroup, or the name of a stored message",
    )
    parser.add_argument(
        "--into",
        type=Path,
        metavar="FOLDER",
        default=Path("dissectors/kshark_dissectors"),
        help="folder for the draft of an API (default: %(default)s)",
    )
    return parser


def _lines(report: Report, path: Path) -> Iterator[str]:
    """Yield the differences by message: + new in the definitions, - removed, ~ different."""
    for name, changes in report.changed.items():
        yield name
        yield from (f"  {change}" for change in changes)
    for name in report.gone:
        yield f"- {name}: no such definition"
    drafts = dict.fromkeys(_api_name(definition) or definition.name for definition in report.new)
    for name in drafts:
        yield f"+ {name}: unknown here; python -m tools.sync {path} --draft {name}"


def _api_name(definition: Definition) -> str | None:
    if definition.kind not in ("request", "response"):
        return None
    return definition.name.removesuffix("Request").removesuffix("Response")


def _drafted(name: str, theirs: dict[str, Definition], folder: Path) -> Iterator[str]:
    """Write an API's file and yield the remaining steps; for a stored message, yield its draft."""
    request, response = theirs.get(f"{name}Request"), theirs.get(f"{name}Response")
    if request is None or response is None:
        if name not in theirs:
            raise UsageError(f"no definition of {name} (an API's name goes without Request and Response)")
        yield layout_draft(theirs[name])
        return
    file = folder / f"{snake_case(name)}.py"
    if file.exists():
        raise UsageError(f"{file} already exists (--into FOLDER writes the draft elsewhere, to compare)")
    file.write_text(api_draft(name, request, response))
    low, high = request.layout.versions.low, request.layout.versions.high
    yield f"wrote {file}; say in its first line what the API is for, and add to {folder / 'index.py'}:"
    yield index_line(name, request.key or 0, Versions(low, high))


if __name__ == "__main__":
    sys.exit(main())
