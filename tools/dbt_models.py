"""The dbt models, made from the SQL for DuckDB: `python -m tools.dbt_models` writes them again.

A view of spark_analysis/sql is a model; a table that it reads is a source, a view that it reads another model.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

FOLDER: Final = Path(__file__).resolve().parent.parent / "spark_analysis"
_VIEW: Final = re.compile(r"^CREATE OR REPLACE TEMP VIEW (\w+) AS\n(.+?);$", re.S | re.M)
_TABLE: Final = re.compile(r"read_parquet\('(\w+)/\*\*/\*\.parquet'\)")


def models(name: str, script: str) -> dict[str, str]:
    """Return the model of each view in a script of SQL, by the view's name. `name`: the script's file."""
    found: dict[str, str] = {}
    for view, query in _VIEW.findall(script):
        for other in found:
            query = re.sub(rf"\bFROM {other}\b", f"FROM {{{{ ref('{other}') }}}}", query)
        query = _TABLE.sub(r"{{ source('kshark', '\1') }}", query)
        found[view] = f"-- Made from ../../sql/{name} by tools/dbt_models.py.\n{query}\n"
    return found


def all_models() -> dict[str, str]:
    """Return the models of all scripts, by name."""
    scripts = sorted(FOLDER.glob("sql/*.sql"))
    return {view: model for path in scripts for view, model in models(path.name, path.read_text()).items()}


if __name__ == "__main__":
    for view, model in all_models().items():
        (FOLDER / "dbt" / "models" / f"{view}.sql").write_text(model)
