"""Format results as a table for the terminal and as RESULTS.md."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.results import Compared, Figure, Results


def table(results: Results) -> str:
    """Return the table for the terminal."""
    lines = [f"{name:9} {value}" for name, value in results.machine.items()]
    lines += ["", f"{'':56}{'own':>9}{'peer':>9}{'ratio':>8}{'at least':>9}{'rounds':>15}{'MB':>6}{'peer MB':>8}"]
    for one in results.compared:
        what = f"{one.row.input}: {one.row.what}"
        spread = f"{one.lowest:.2f}..{one.highest:.2f}"
        lines.append(
            f"{what:56}{one.own:7.2f} s{one.peer:7.2f} s{one.ratio:7.2f}x{one.row.at_least:8.2f}x{spread:>15}"
            f"{one.own_mb:6.0f}{one.peer_mb:8.0f}  {'' if results.quick else _verdict(one)}"
        )
    lines.append("small inputs: start-up weighs in, the targets are those of make bench\n" if results.quick else "")
    for figure in results.figures:
        limit = "" if figure.limit is None else f"limit {figure.limit:g}  {_verdict(figure)}"
        lines.append(f"{figure.what:72}{figure.shown:>12}  {limit}")
    lines += [f"left out: {reason}" for reason in results.left_out]
    for title, text in results.texts.items():
        lines += ["", title, text]
    return "\n".join(lines)


def _cells(one: Compared) -> tuple[str, ...]:
    row = one.row
    return (
        row.input,
        row.what,
        row.own,
        row.peer,
        f"{one.own:.2f}",
        f"{one.peer:.2f}",
        f"**{one.ratio:.2f}x**",
        f"{one.lowest:.2f} to {one.highest:.2f}",
        f"{row.at_least:.2f}x",
        "" if row.hoped is None else f"{row.hoped:g}x",
        _verdict(one).lower(),
        f"{one.own_mb:.0f}",
        f"{one.peer_mb:.0f}",
    )


def _verdict(one: Compared | Figure) -> str:
    return "met" if one.met else "MISSED"


def markdown(results: Results) -> str:
    """Return RESULTS.md, which `make bench` generates."""
    return "\n".join(_markdown(results)) + "\n"


def _markdown(results: Results) -> Iterator[str]:
    yield "# Results\n"
    yield (
        f"Made by `make bench` ({results.rounds} rounds, the peers in turn); what is measured and how: README.md "
        f"beside this file.\n"
    )
    yield "| | |\n|---|---|"
    yield from (f"| {name} | {value} |" for name, value in results.machine.items())
    missed = sum(not one.met for one in results.compared) + sum(not one.met for one in results.figures)
    rows = len(results.compared) + sum(figure.limit is not None for figure in results.figures)
    yield f"\n**{rows - missed} of {rows} targets met.**\n\n## Beside the peers\n"
    yield (
        "Seconds are the least of the rounds: CPU time, user and system, or wall time where it says so. The ratio is "
        "peer over own of"
    )
    yield "these, the spread that of the single rounds.\n"
    yield "| traffic | what | own | peer | own s | peer s | ratio | spread | at least | moonshot | | MB | peer MB |"
    yield "|---|---|---|---|---:|---:|---:|---|---:|---:|---|---:|---:|"
    yield from (f"| {' | '.join(_cells(one))} |" for one in results.compared)
    yield "\n## Figures\n\n| what | value | limit | |\n|---|---:|---:|---|"
    for figure in results.figures:
        limit = ("", "") if figure.limit is None else (f"{figure.limit:g} {figure.unit}", _verdict(figure).lower())
        yield f"| {figure.what} | {figure.shown} | {limit[0]} | {limit[1]} |"
    if results.left_out:
        yield "\n## Left out\n"
        yield from (f"- {reason}" for reason in results.left_out)
    yield "\n## Inputs\n\n| file | what |\n|---|---|"
    yield from (f"| {name} | {what} |" for name, what in results.inputs.items())
    yield "\n## Commands\n\n```"
    yield from (line for lines in results.commands.values() for line in lines)
    yield "```"
    for title, text in results.texts.items():
        yield f"\n## {title}\n\n```\n{text}\n```"
    for title, values in results.series.items():
        yield f"\n## {title}\n\n{', '.join(f'{value:.0f}' for value in values)}"
