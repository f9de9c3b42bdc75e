"""Small bugs, put into kshark one at a time by mutmut, to see which the quick tests do not notice: `make test-mutants`.

A mutant is killed when a test fails; one that no test reaches has survived. Of each folder's mutants a sample is tried,
by chance and the same for the same seed; only functions are mutated, not the tables of facts at a module's level. What
is left for a look stays in out/mutants: `cd out/mutants/tables; mutmut show NAME`."""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from tests.shared import ROOT, SHARED

#: Folders whose mutants are tried, and the tests that hold their code.
TESTS = {
    "kshark/analysis": ("tests/analysis",),
    "kshark/tables": ("tests/tables", "tests/output/test_parquet.py"),
}
#: It copies the code and adds rules to the copy, which mutmut does not know.
WITHOUT = "tests/analysis/test_rules_readme.py"
#: What those tests read beside the code.
BESIDE = ("dissectors", "spark_analysis", "tools", "captures", "README.md", "Makefile")
WORK = ROOT / "out" / "mutants"
KILLED = ("killed", "timeout", "segfault")


def main() -> int:
    asked = arguments()
    rates = [tried(folder, asked) for folder in asked.folders or TESTS]
    return 1 if min(rates) < asked.least else 0


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.mutants", description="Tries mutants of kshark on its quick tests."
    )
    parser.add_argument(
        "folders", metavar="FOLDER", nargs="*", choices=[*TESTS, []], help=f"{' or '.join(TESTS)}; both by default"
    )
    parser.add_argument(
        "--sample", type=int, default=200, help="mutants of each folder that are tried (default %(default)s)"
    )
    parser.add_argument("--seed", type=int, default=1, help="which ones (default %(default)s)")
    parser.add_argument(
        "--minutes", type=float, default=30, help="for each folder, then the rest is left out (default %(default)s)"
    )
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes (default: one for each core)")
    parser.add_argument(
        "--least", type=float, default=90, help="per cent that must be killed, else exit code 1 (default %(default)s)"
    )
    return parser.parse_args()


def tried(folder: str, asked: argparse.Namespace) -> float:
    """Tries a sample of a folder's mutants and prints what became of them; per cent that were killed."""
    work = prepared(folder)
    os.chdir(work)  # mutmut reads its settings there
    names = mutants(folder)
    whole = [name for of_file in names.values() for name in of_file]
    sample = random.Random(asked.seed).sample(whole, min(asked.sample, len(whole)))
    run(sample, asked.jobs, asked.minutes)
    found = {path: outcomes(path, set(sample)) for path in names}
    report({path: len(of_file) for path, of_file in names.items()}, found)
    return rate(outcome for of_file in found.values() for outcome in of_file.values())


def prepared(folder: str) -> Path:
    """An empty place with links to the code and its tests, and mutmut's settings."""
    work = WORK / Path(folder).name
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    for name in ("kshark", "tests", *BESIDE):
        (work / name).symlink_to(ROOT / name)
    settings = {
        "source_paths": ["kshark"],
        "only_mutate": [f"{folder}/*"],
        "also_copy": list(BESIDE),
        "pytest_add_cli_args_test_selection": list(TESTS[folder]),
        "pytest_add_cli_args": [
            "-p",
            "no:cacheprovider",
            "-m",
            "not slow and not live and not spark",
            f"--ignore={WITHOUT}",
        ],
    }
    lines = [f"{name} = {json.dumps(value)}" for name, value in settings.items()]
    (work / "pyproject.toml").write_text(
        "\n".join(["[tool.mutmut]", *lines, "track_dependencies = false", "use_git_change_detection = false"])
    )
    return work


def mutants(folder: str) -> dict[Path, list[str]]:
    """By file, the names of all its mutants."""
    from mutmut.mutation.file_mutation import mutate_file_contents
    from mutmut.utils.format_utils import get_mutant_name

    found = {}
    for path in sorted(Path(folder).rglob("*.py")):
        made = mutate_file_contents(str(path), path.read_text())
        if made.mutant_names:
            found[path] = [get_mutant_name(path, name) for name in made.mutant_names]
    return found


def run(sample: Iterable[str], jobs: int, minutes: float) -> None:
    """Has mutmut try these; tests drawn by chance are the same for each, and have no deadline (CI: Hypothesis's profile
    of that name)."""
    settings = {**os.environ, "CI": "1", "KSHARK_SHARED": str(SHARED), "PYTHONPATH": ""}
    command = [str(Path(sys.executable).with_name("mutmut")), "run", "--max-children", str(jobs), *sample]
    with Path("mutmut.log").open("w") as log:
        process = subprocess.Popen(command, env=settings, stdout=log, stderr=subprocess.STDOUT, start_new_session=True)
        try:
            code = process.wait(minutes * 60)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGINT)
            code = process.wait() and 0
    if code:
        sys.exit(f"mutmut could not begin: the end of {Path('mutmut.log').resolve()} says why")


def outcomes(path: Path, sample: set[str]) -> dict[str, str]:
    """What became of those mutants of a file that were tried."""
    from mutmut.stats import status_by_exit_code

    codes = json.loads((Path("mutants") / f"{path}.meta").read_text())["exit_code_by_key"]
    return {name: status_by_exit_code[code] for name, code in codes.items() if name in sample and code is not None}


def rate(outcomes: Iterable[str]) -> float:
    """Per cent that were killed."""
    all_ = list(outcomes)
    return 100 * sum(outcome in KILLED for outcome in all_) / max(len(all_), 1)


def report(mutants: dict[Path, int], found: dict[Path, dict[str, str]]) -> None:
    """A row for each file, and each survivor with what was changed."""
    from mutmut.mutation.diff_apply import get_diff_for_mutant

    print(f"{'file':40} {'mutants':>8} {'tried':>6} {'killed':>7} {'survived':>9} {'rate':>6}")
    rows = [(str(path), mutants[path], list(found[path].values())) for path in mutants]
    rows.append(("all", sum(mutants.values()), [outcome for _, _, outcomes in rows for outcome in outcomes]))
    for name, count, tried in rows:
        killed = sum(outcome in KILLED for outcome in tried)
        print(
            f"{name:40} {count:8} {len(tried):6} {killed:7} {len(tried) - killed:9} "
            + (f"{rate(tried):5.1f}%" if tried else f"{'-':>6}")
        )
    for path, outcomes in found.items():
        for name, outcome in outcomes.items():
            if outcome not in KILLED:
                changed = [
                    line
                    for line in get_diff_for_mutant(name, path=path).splitlines()
                    if line[:1] in "+-" and line[:3] not in ("---", "+++")
                ]
                print(f"\n{name}: {outcome}", *changed, sep="\n")


if __name__ == "__main__":
    sys.exit(main())
