"""The table: a line for each capture, and below it every difference with its reason."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.witness.compare import compare


def main(paths: list[str]) -> None:
    print(f"{'capture':<32}{'logged':>8}{'equal':>8}{'differ':>8}{'log only':>9}{'wire only':>10}")
    for path in map(Path, paths):
        result = compare(path)
        print(
            f"{path.stem:<32}{result.logged:>8}{result.equal:>8}{len(result.different):>8}"
            f"{result.only_logged.total():>9}{result.only_wire.total():>10}"
        )
        for line in result.different[:5]:
            print("   differs:", line[:200])
        for where, counts in (
            ("log only", result.only_logged),
            ("wire only", result.only_wire),
            ("equal, but odd", result.weird),
        ):
            for (api, reason), count in sorted(counts.items()):
                print(f"   {where}: {count} {api}: {reason}")


if __name__ == "__main__":
    main(sys.argv[1:])
