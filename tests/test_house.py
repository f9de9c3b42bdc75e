"""The structure holds: imports go one way, heavy packages stay in their rooms."""

from __future__ import annotations

import ast
import importlib
import pkgutil
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import MappingProxyType

import msgspec
import pytest

import kshark
from tests.patience import PATIENCE_S
from tests.shared import ROOT
from tools import structure

#: Each package, and its folder.
PACKAGES = {
    "kshark": ROOT / "kshark",
    "kshark_dissectors": ROOT / "dissectors" / "kshark_dissectors",
    "kshark_spark": ROOT / "spark_analysis" / "kshark_spark",
    "tools": ROOT / "tools",
}
SOURCES = sorted(path for folder in PACKAGES.values() for path in folder.rglob("*.py"))

#: Rooms in the order of the way of the data: a room may import from its own row and those above, never from below.
FLOORS: tuple[tuple[str, ...], ...] = (
    (
        "kshark.errors",
        "kshark._version",
        "kshark.limits",
        "kshark.api_keys",
        "kshark.endpoints",
        "kshark.ring",
        "kshark.offset_ranges",
        "kshark.recent",
        "kshark.units",
    ),
    (
        "kshark.schema",
        "kshark.places",
        "kshark.transport",
        "kshark.model",
        "kshark.anomaly",
        "kshark.rate_limit",
        "kshark.facts",
    ),
    ("kshark_dissectors",),
    ("kshark.error_names",),
    ("kshark.link", "kshark.codec", "kshark.records"),
    ("kshark.reassembly",),
    ("kshark.proxy",),
    ("kshark.tls",),
    ("kshark.framing",),
    ("kshark.registry",),
    (
        "kshark.attributes",
        "kshark.bodies",
        "kshark.listed_message",
        "kshark.names",
        "kshark.clusters",
        "kshark.conditions",
        "kshark.produced",
        "kshark.releases",
        "kshark.unread",
    ),
    ("kshark.exchange", "kshark.embedded", "kshark.requests"),
    ("kshark.pipeline", "kshark.capture"),
    ("kshark.segments",),
    ("kshark.analysis",),
    ("kshark.groups",),
    ("kshark.incidents",),
    ("kshark.metrics", "kshark.tables", "kshark.flows"),
    ("kshark.stored_writes",),
    ("kshark.delivery_changes",),
    ("kshark.run",),
    ("kshark.timeline",),
    ("kshark.output", "kshark.face", "kshark.snapshot"),
    ("kshark.report", "kshark.headlines", "kshark.wireshark"),
    ("kshark.diff",),
    ("kshark.anonymous",),
    ("kshark.evidence",),
    ("kshark.live",),
    ("kshark", "kshark.cli", "kshark.__main__", "kshark.testing"),
    ("kshark_spark",),
    ("tools",),
)
#: The stages of a capture, by their rooms, in the order of the way of the data.
STAGES = {
    "link": "Link",
    "reassembly": "Reassembly",
    "proxy": "ProxyStage",
    "tls": "TlsStage",
    "framing": "Framing",
    "exchange": "ExchangeStage",
}
#: dissectors are facts: they know the vocabulary and each other, nothing else of the engine.
DISSECTORS_MAY_IMPORT = ("kshark.schema", "kshark.places", "kshark_dissectors")
#: Whoever is in no row below may be imported anywhere.
ROOMS_OF = {
    "scapy": ("kshark/capture/live/filters.py",),
    "pyspark": ("spark_analysis/",),
    "rich": ("kshark/output/text", "kshark/cli/", "kshark/live/screen/cells.py"),
    "pyarrow": ("kshark/output/parquet", "kshark/capture/stores.py", "spark_analysis/"),
    "deltalake": ("kshark/output/delta.py",),
    "pyiceberg": ("kshark/output/iceberg.py",),
    "jinja2": ("kshark/report/",),
    "altair": (),
    "vl_convert": ("kshark/report/",),
    "pandas": ("spark_analysis/",),
    "crc32c": ("kshark/records/",),
    "cryptography": ("kshark/tls/protection.py",),
    "opentelemetry": ("kshark/embedded/otlp.py",),
    "google": ("kshark/embedded/otlp.py",),
    "re2": ("kshark/conditions/expressions.py",),
    "cramjam": ("kshark/records/", "kshark/capture/", "spark_analysis/kshark_spark/compressed.py"),
    "numpy": ("kshark/", "spark_analysis/"),
    "msgspec": ("kshark/", "spark_analysis/", "tools/"),
    "dpkt": (),
}


def module_of(path: Path) -> str:
    (root,) = (folder.parent for folder in PACKAGES.values() if path.is_relative_to(folder))
    parts = path.relative_to(root).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_of(path) for path in SOURCES}


@cache
def statements_of(path: Path) -> tuple[tuple[ast.AST, bool], ...]:
    """Every statement of a file, and whether only type checkers see it."""
    return tuple(_statements(ast.parse(path.read_text(), str(path))))


def _statements(block: ast.AST, for_types: bool = False) -> Iterator[tuple[ast.AST, bool]]:
    for part in ("body", "handlers", "orelse", "finalbody", "cases"):
        for node in getattr(block, part, ()):
            yield node, for_types
            is_guard = isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
            yield from _statements(node, for_types or is_guard)


@cache
def imports_of(path: Path, *, for_types: bool = False) -> tuple[tuple[int, str], ...]:
    """Line and full name of everything a file imports; `for_types`: with what only type checkers see."""
    return tuple(_imports(path, for_types))


def _imports(path: Path, for_types: bool) -> Iterator[tuple[int, str]]:
    for node, unseen in statements_of(path):
        if unseen and not for_types:
            continue
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            if node.module not in PACKAGES:  # `from kshark import limits` imports kshark.limits
                yield node.lineno, node.module
            yield from ((node.lineno, f"{node.module}.{alias.name}") for alias in node.names)


@cache
def floor_of(module: str) -> int | None:
    rooms = [
        (room, index)
        for index, row in enumerate(FLOORS)
        for room in row
        if module == room or module.startswith(room + ".")
    ]
    return max(rooms, key=lambda pair: len(pair[0]))[1] if rooms else None


def test_every_file_stands_on_a_floor() -> None:
    known = {room for row in FLOORS for room in row}
    homeless = [
        module_of(path)
        for path in SOURCES
        if not any(
            module_of(path) == room or (module_of(path).startswith(room + ".") and room != "kshark") for room in known
        )
    ]
    assert homeless == []


def test_imports_go_one_way() -> None:
    """Also for types only."""
    wrong = []
    for path in SOURCES:
        own = module_of(path)
        for line, name in imports_of(path, for_types=True):
            if not name.startswith(tuple(PACKAGES)) or name == "kshark.__version__":
                continue
            own_floor, their_floor = floor_of(own), floor_of(name)
            if own_floor is not None and their_floor is not None and their_floor > own_floor and own != "kshark":
                wrong.append(f"{path.relative_to(ROOT)}:{line} imports {name}, which is above it")
    assert wrong == []


def test_stages_do_not_call_each_other() -> None:
    """Only kshark.pipeline joins them."""
    wrong = [
        f"{path.relative_to(ROOT)}:{line} imports {name}"
        for path in SOURCES
        if (room := path.relative_to(ROOT).parts[1]) in STAGES
        for line, name in imports_of(path, for_types=True)
        if any(name in (f"kshark.{other}.stage", f"kshark.{other}.{STAGES[other]}") for other in STAGES.keys() - {room})
    ]
    assert wrong == []


def test_no_files_import_each_other_in_a_circle() -> None:
    """Not even for types only, and not inside functions."""
    graph = {module_of(path): files_imported(path) for path in SOURCES}
    reached = {module: reachable(graph, module) for module in graph}
    circles = {
        tuple(sorted(other for other in seen if module in reached[other]))
        for module, seen in reached.items()
        if module in seen
    }
    assert circles == set()


def files_imported(path: Path) -> set[str]:
    """The modules that a file names: of `from room import file` the file, not the room."""
    named = [(line, name) for line, name in imports_of(path, for_types=True) if name in MODULES]
    return {
        name
        for line, name in named
        if not any(line == other and inner.startswith(f"{name}.") for other, inner in named)
    }


def reachable(graph: dict[str, set[str]], module: str) -> set[str]:
    """What a file imports, and what that imports in turn."""
    seen: set[str] = set()
    ahead = list(graph[module])
    while ahead:
        name = ahead.pop()
        if name not in seen:
            seen.add(name)
            ahead += graph[name]
    return seen


def test_dissectors_know_only_the_vocabulary() -> None:
    wrong = [
        f"{path.relative_to(ROOT)}:{line} imports {name}"
        for path in SOURCES
        if path.is_relative_to(PACKAGES["kshark_dissectors"])
        for line, name in imports_of(path)
        if name.startswith("kshark") and not name.startswith(DISSECTORS_MAY_IMPORT)
    ]
    assert wrong == []


@pytest.mark.parametrize("package", sorted(ROOMS_OF))
def test_heavy_packages_stay_in_their_rooms(package: str) -> None:
    wrong = [
        f"{path.relative_to(ROOT)}:{line} imports {name}"
        for path in SOURCES
        for line, name in imports_of(path)
        if name.split(".")[0] == package and not str(path.relative_to(ROOT)).startswith(ROOMS_OF[package])
    ]
    assert wrong == []


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys, kshark.cli\ntry:\n    kshark.cli.main(['--help'])\nexcept SystemExit:\n    pass\nprint(' "
        "'.join(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=PATIENCE_S, check=True)
    loaded = set(done.stdout.splitlines()[-1].split())
    assert loaded & {"pyspark", "scapy", "pyarrow", "pandas", "numpy", "rich", "re2", "kshark_dissectors"} == set()


#: Modules that few captures need, and dataclasses, each of which takes longer to define than a module to import.
RARELY_NEEDED = frozenset({"_hashlib", "difflib", "threading", "traceback", "kshark.requests"})
DATACLASSES = {"Options", "PacketBatch"}
STARTED = """
import sys, kshark.cli
kshark.cli.main([sys.argv[1], "-q", sys.argv[2]])
found = [it for name, module in [*sys.modules.items()] if name.startswith("kshark") for it in vars(module).values()]
print(*sys.modules)
print(*{it.__name__ for it in found if isinstance(it, type) and "__dataclass_fields__" in vars(it)})
"""


@pytest.mark.parametrize("command", ["check", "read"])
def test_a_command_starts_with_little(command: str) -> None:
    arguments = [sys.executable, "-c", STARTED, command, str(ROOT / "captures/adv-epochs.pcap")]
    done = subprocess.run(arguments, capture_output=True, text=True, timeout=PATIENCE_S, check=True)
    modules, classes = done.stdout.splitlines()[-2:]
    assert set(modules.split()) & RARELY_NEEDED == set()
    assert set(classes.split()) <= DATACLASSES


def test_export_does_without_pandas(tmp_path: Path) -> None:
    command = ["export", "-q", "-o", str(tmp_path), str(ROOT / "captures/adv-epochs.pcap")]
    code = (
        f"import sys, kshark.cli\ntry:\n    kshark.cli.main({command})\nexcept SystemExit:\n    pass\nprint(' "
        f"'.join(sys.modules))"
    )
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert "pyarrow" in loaded
    assert "pandas" not in loaded


def test_the_layers_of_the_analysis_import_downwards() -> None:
    """Facts, states, rules, runners, results, each a layer; imports for type checkers count."""
    arrows = structure.edges()
    assert structure.upwards(arrows) == []
    assert structure.knots(arrows) == []
    known = {structure.room_of(module) for module in structure.modules()}
    assert known - {None} == set(structure.ROOMS)


#: What makes a fact that is uncertain; and the file of rules whose object is what the others call a situation.
FACT_MAKERS = tuple(f"kshark.analysis.facts.known.{name}" for name in ("Known", "known_if", "never"))
FACTS_OF_RULES = "kshark/analysis/rules/byte_fault.py"


def test_only_the_judge_judges() -> None:
    """A rule names the facts that it needs. It makes none, sets no reason, and asks no judge."""
    wrong = []
    for path in SOURCES:
        where = str(path.relative_to(ROOT))
        is_rule = where.startswith("kshark/analysis/rules/") and where != FACTS_OF_RULES
        forbidden = (*FACT_MAKERS, "kshark.analysis.facts.judge") if is_rule else ()
        wrong += [f"{where}:{line} imports {name}" for line, name in imports_of(path) if name.startswith(forbidden)]
        for node in ast.walk(ast.parse(path.read_text(), str(path))):
            if not isinstance(node, ast.Call):
                continue
            called = getattr(node.func, "id", getattr(node.func, "attr", ""))
            if called == "Judgement" and where != "kshark/analysis/facts/judge.py":
                wrong.append(f"{where}:{node.lineno} makes a judgement")
            if is_rule and any(keyword.arg == "because" for keyword in node.keywords):
                wrong.append(f"{where}:{node.lineno} sets a reason")
    assert wrong == []


#: Words that are no names: each has a plainer one (CONTRIBUTING.md, "Plain English").
NO_NAMES = frozenset(
    (
        "told",
        "tell",
        "tells",
        "said",
        "say",
        "says",
        "behind",
        "worn",
        "stranded",
        "astray",
        "handed",
        "taken",
        "goes",
        "comes",
        "whom",
        "whose",
    )
)
#: Names of Python and of libraries: the position in a file.
KEPT = frozenset({"tell"})
#: How no docstring begins: it begins with an imperative verb or a noun.
NO_BEGINNINGS = ("What ", "Whoever ", "Who ", "Whom ", "Whose ", "Whether ", "Of ", "Those ", "That which ")


def definitions() -> Iterator[tuple[str, ast.AST, str]]:
    """Every module, public class, function, field and constant of the product: where, the node, its name."""
    for path in SOURCES:
        tree = ast.parse(path.read_text(), str(path))
        where = str(path.relative_to(ROOT))
        yield where, tree, path.stem
        blocks: list[ast.AST] = [tree]
        while blocks:
            for node in ast.iter_child_nodes(blocks.pop()):
                if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                    yield where, node, node.name
                if isinstance(node, ast.ClassDef):
                    blocks.append(node)
                elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                    yield where, node, node.target.id
                elif isinstance(node, ast.Assign):
                    yield from ((where, node, target.id) for target in node.targets if isinstance(target, ast.Name))


def test_public_names_are_plain() -> None:
    wrong = [
        f"{where}:{getattr(node, 'lineno', 1)} {name}"
        for where, node, name in definitions()
        if not name.startswith("_") and name not in KEPT
        if NO_NAMES & {part.lower() for part in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", name)}
    ]
    assert wrong == []


def test_docstrings_begin_with_a_verb_or_a_noun() -> None:
    wrong = [
        f"{where}:{getattr(node, 'lineno', 1)} {name}"
        for where, node, name in definitions()
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        if (ast.get_docstring(node) or "").startswith(NO_BEGINNINGS)
    ]
    assert wrong == []


def test_defaults_of_structs_can_be_sent_to_another_process() -> None:
    """A snapshot, or the result of a process, fails with a read-only mapping in it."""
    for module in pkgutil.walk_packages(kshark.__path__, "kshark."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    classes, found = [msgspec.Struct], []
    while classes:
        subclasses = classes.pop().__subclasses__()
        classes += subclasses
        found += [one.__qualname__ for one in subclasses if MappingProxyType in map(type, one.__struct_defaults__)]
    assert found == []
