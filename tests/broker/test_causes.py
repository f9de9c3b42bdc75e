"""The causes of refusals, beside those of another walker that knows its brokers by other means (walks of the shared
folder)."""

from __future__ import annotations

import gzip
import json
from typing import Any

import pytest

from tests.broker.causes import causes_of
from tests.broker.diary import REFUSED
from tests.broker.state import SHARE_FETCH, Request, Session, Turn
from tests.broker.table import ABSENT, outcome_of
from tests.shared import shared

WALKS = ("walk-wild-1", "walk-412-1")


def request(port: int, n: int, epoch: int, api: int = SHARE_FETCH) -> Request:
    return Request(n, port, n, api, epoch, 0)


def turn(step: dict[str, Any]) -> Turn:
    """What the other walker saw when it was the step's turn."""
    state = step["state"]
    own = () if state["own_last_epoch"] is None else ((step["api"], state["own_last_epoch"]),)
    opening = request(state["opening"][0], -1, 0) if state["opening"] else None
    before = None if state["expected"] is None else Session(opening, state["expected"], own)
    last = request(state["last"][0], -2, state["last"][2], state["last"][3]) if state["last"] else None
    earlier = state["prev_here"]
    previous = (
        request(earlier["port"], 1 if earlier["effect"] == "untouched" else 2, earlier["epoch"]) if earlier else None
    )
    outcome = outcome_of(step["api"], step["epoch"], before.due if before else ABSENT)
    return Turn(outcome, before, before, state["gone"], previous, last, state["last_after_prev_here"], lost=False)


@pytest.mark.sweep(quick=1)
@pytest.mark.parametrize("name", WALKS)
def test_causes_are_those_of_another_walker(name: str) -> None:
    folder = shared("captures", "walks")
    with gzip.open(folder / f"{name}.walk.json.gz") as file:
        steps = {step["n"]: step for step in json.load(file)["steps"] if "n" in step}
    compared, wrong = 0, []
    for row in json.loads((folder / f"{name}.expected.json").read_text())["steps"]:
        step = steps[row["n"]]
        state = step["state"]
        certain = state is not None and not (
            step["racy"] or step["surprise"] or state["model_unknown"] or state["dying"]
        )
        if (
            row["error_code"] not in REFUSED
            or not certain
            or row["causes"] == ["unknown"]
            or step["effect"] == "advance"
        ):
            continue
        compared += 1
        sent = request(row["client_port"], row["n"], row["epoch"], step["api"])
        causes = causes_of(sent, row["error_code"], [turn(step)], [], frozenset({1}), raced=False)
        if (sorted(causes.every), sorted(causes.first)) != (row["causes"], row["first_cause"]):
            wrong.append((row["n"], sorted(causes.every), row["causes"], sorted(causes.first), row["first_cause"]))
    assert compared > 350
    assert wrong == []
