"""Print the structure of kshark.analysis: its rooms, the imports between them, upward imports, and import cycles.

    python -m tools.structure [--edges]

A room is a folder with Python files, named relative to kshark.analysis; `analyzer` is the files of the top folder.
Imports for type checkers count. tests/test_house.py checks the rooms and their order.
"""

from __future__ import annotations

import ast
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
ANALYSIS: Final = ROOT / "kshark" / "analysis"
#: The five layers and their rooms, lowest first. A room imports from rooms above it in this list, and from itself.
LAYERS: Final[dict[str, tuple[str, ...]]] = {
    "facts": ("facts",),
    "states": (
        "states.tables",
        "states.member",
        "states.generation",
        "states.stored",
        "states.session",
        "states.partition",
        "states.operations",
    ),
    "rules": ("rules",),
    "runners": ("runners",),
    "results": ("results",),
    "analyzer": ("analyzer",),
}
ROOMS: Final = tuple(room for rooms in LAYERS.values() for room in rooms)


def room_of(module: str) -> str | None:
    """Return the room of a module, by its name relative to kshark.analysis; None for a package that only has rooms."""
    parts = module.split(".")
    if parts[0] not in LAYERS:
        return "analyzer"
    if parts[0] == "states":
        return ".".join(parts[:2]) if len(parts) > 1 else None
    return parts[0]


def modules() -> dict[str, Path]:
    """Return the files of the modules by their names relative to kshark.analysis."""
    files = {}
    for path in sorted(ANALYSIS.rglob("*.py")):
        parts = path.relative_to(ANALYSIS).with_suffix("").parts
        files[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return files


def imports() -> Iterator[tuple[str, str]]:
    """Yield each module with a module of kshark.analysis that it imports."""
    files = modules()
    for module, path in files.items():
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("kshark.analysis"):
                target = node.module.removeprefix("kshark.analysis").lstrip(".")
                for alias in node.names:
                    inner = f"{target}.{alias.name}".lstrip(".")
                    yield module, inner if inner in files else target


def edges() -> dict[tuple[str, str], list[tuple[str, str]]]:
    """Return the arrows between rooms, each with its imports."""
    arrows = defaultdict(list)
    for module, target in imports():
        here, there = room_of(module), room_of(target)
        if here is not None and there is not None and here != there:
            arrows[here, there].append((module, target))
    return dict(arrows)


def upwards(arrows: dict[tuple[str, str], list[tuple[str, str]]]) -> list[tuple[str, str]]:
    """Return the imports from a lower room to a higher one."""
    order = {room: index for index, room in enumerate(ROOMS)}
    return [pair for (here, there), pairs in arrows.items() if order[there] > order[here] for pair in pairs]


def knots(arrows: dict[tuple[str, str], list[tuple[str, str]]]) -> list[list[str]]:
    """Return the sets of rooms that import each other in a cycle."""
    reached: dict[str, set[str]] = {}
    for room in ROOMS:
        ahead, seen = [room], set[str]()
        while ahead:
            here = ahead.pop()
            new = {there for before, there in arrows if before == here} - seen
            seen |= new
            ahead += new
        reached[room] = seen
    circles = {
        tuple(other for other in ROOMS if other in reached[room] and room in reached[other])
        for room in ROOMS
        if room in reached[room]
    }
    return [list(circle) for circle in sorted(circles)]


def main() -> None:
    arrows = edges()
    up = upwards(arrows)
    print(f"{len(ROOMS)} rooms, {len(arrows)} arrows, {len(up)} imports go up, {len(knots(arrows))} knots")
    for module, target in up:
        print(f"up: {module} imports {target}")
    for circle in knots(arrows):
        print(f"knot: {', '.join(circle)}")
    if "--edges" in sys.argv[1:]:
        for (here, there), pairs in sorted(arrows.items()):
            print(f"{here} -> {there}: {len(pairs)}")


if __name__ == "__main__":
    main()
