"""What runs against brokers showed, as a table: outcomes by release, places of the product's table that were met,
surprises."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from tests.broker.diary import Step, results_of
from tests.broker.run import Done
from tests.broker.table import SessionOutcome, cells

OUTCOMES: Final = (
    *(outcome.value for outcome in SessionOutcome),
    "untouched",
    "failed half-way",
    "overtaken",
    "no room",
)
#: A long run has met each outcome so often.
LEAST: Final = 100


def by_release(runs: Iterable[Done]) -> dict[str, list[Done]]:
    out: dict[str, list[Done]] = defaultdict(list)
    for done in runs:
        out[done.plan.release].append(done)
    return out


def outcomes(runs: Sequence[Done]) -> Counter[str]:
    """How often a broker did what."""
    total: Counter[str] = Counter()
    for done in runs:
        total.update(done.diary.outcomes)
    return total


def rare(runs: Iterable[Done]) -> list[str]:
    """Outcomes that a release has not shown often enough, and places of the product's table that it never was asked
    about."""
    out = []
    for release, mine in by_release(runs).items():
        total = outcomes(mine)
        out += [f"{release}: {outcome} only {total[outcome]} times" for outcome in OUTCOMES if total[outcome] < LEAST]
        met = {cell for done in mine for cell in done.diary.cells}
        out += [f"{release}: never met: API {api}, {kind}, {state}" for api, kind, state in sorted(cells() - met)]
    return out


def surprises(done: Done) -> list[str]:
    """Each answer that the model had not foretold, and each scenario that was answered otherwise than written."""
    where = f"{done.plan.release}, seed {done.plan.seed}"
    told = [
        f"{where}, step {step['n']} ({step['action']}): epoch {step['epoch']} on port {step['port']} was answered "
        f"{step['answer']}, "
        f"foretold was {step['predicted'] or 'nothing'}"
        for step in done.diary.surprises
    ]
    return [*told, *(f"{where}, {failure}" for failure in (*done.failures, *done.records.surprises))]


def table(runs: Sequence[Done]) -> str:
    """Outcomes by release; what was handed out and acknowledged, by how well the in-flight machine foretold it;
    acknowledgements by what was tried."""
    columns = by_release(runs)
    totals = {release: outcomes(mine) for release, mine in columns.items()}
    shared = {
        release: [step for done in mine for step in done.diary.steps if step.get("api") in (78, 79)]
        for release, mine in columns.items()
    }
    rows = [("steps", *(str(len(steps)) for steps in shared.values()))]
    rows += [(outcome, *(str(total[outcome]) for total in totals.values())) for outcome in OUTCOMES]
    rows += [
        ("unanswered", *(str(sum(step["answer"] is None for step in steps)) for steps in shared.values())),
        (
            "one answer possible",
            *(str(sum(len(step["predicted"]) == 1 for step in steps)) for steps in shared.values()),
        ),
        (
            "table's places met",
            *(
                f"{len({cell for done in mine for cell in done.diary.cells})} of {len(cells())}"
                for mine in columns.values()
            ),
        ),
        *_counted("handed out", [sum((done.records.handed for done in mine), Counter()) for mine in columns.values()]),
        *_counted(
            "acknowledged", [sum((done.records.results for done in mine), Counter()) for mine in columns.values()]
        ),
        *_counted("tried", [Counter(acknowledged(steps)) for steps in shared.values()]),
        ("surprises", *(str(sum(len(surprises(done)) for done in mine)) for mine in columns.values())),
    ]
    return "\n".join(
        f"{name:<60}" + "".join(f"{value:>12}" for value in values) for name, *values in [("", *columns), *rows]
    )


def _counted(what: str, columns: Sequence[Counter[str]]) -> list[tuple[str, ...]]:
    """A row for each thing that was counted in any column."""
    return [(f"{what}: {name}", *(str(column[name]) for column in columns)) for name in sorted(set().union(*columns))]


def acknowledged(steps: Iterable[Step]) -> Iterator[str]:
    """What each acknowledgement of a partition was meant to be, and the error code that it got."""
    return (f"{step['mistake'] or 'right'}, {error}" for step in steps for _, _, error in results_of(step))
