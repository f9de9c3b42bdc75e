"""Runs a notebook's code as Jupyter does, without Jupyter, which is 70 MB.

`python -m tests.spark.notebook NOTEBOOK [TARGET]` writes it with its outputs. The format is nbformat 4: what is printed
is a stream, the value of a cell's last expression a result in each form that it offers."""

from __future__ import annotations

import ast
import base64
import io
import json
import os
import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

Output = dict[str, Any]


def executed(path: Path) -> dict[str, Any]:
    """The notebook with the outputs of its code cells, run in order in its folder."""
    notebook: dict[str, Any] = json.loads(path.read_text())
    os.chdir(path.parent)
    names: dict[str, Any] = {"__name__": "__main__"}
    code = (cell for cell in notebook["cells"] if cell["cell_type"] == "code")
    for number, cell in enumerate(code, 1):
        cell["execution_count"], cell["outputs"] = number, outputs("".join(cell["source"]), number, names)
    return notebook


def outputs(source: str, number: int, names: dict[str, Any]) -> list[Output]:
    """What a cell prints, and what its last expression is."""
    body = ast.parse(source)
    last = body.body.pop() if isinstance(body.body[-1], ast.Expr) else None
    value, printed = None, io.StringIO()
    with redirect_stdout(printed):
        exec(compile(body, f"cell {number}", "exec"), names)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), f"cell {number}", "eval"), names)
    found: list[Output] = []
    if printed.getvalue():
        found.append({"name": "stdout", "output_type": "stream", "text": printed.getvalue().splitlines(keepends=True)})
    if value is not None:
        found.append({"data": forms(value), "execution_count": number, "metadata": {}, "output_type": "execute_result"})
    return found


def forms(value: Any) -> dict[str, str]:
    """A value by its MIME types; bytes as base64."""
    if not hasattr(value, "_repr_mimebundle_"):
        return {"text/plain": repr(value)}
    bundle = value._repr_mimebundle_()
    kinds = bundle[0] if isinstance(bundle, tuple) else bundle
    return {kind: base64.b64encode(form).decode() if isinstance(form, bytes) else form for kind, form in kinds.items()}


if __name__ == "__main__":
    source, target = Path(sys.argv[1]), Path(sys.argv[-1]).absolute()
    target.write_text(json.dumps(executed(source.absolute()), indent=1, ensure_ascii=False) + "\n")
