"""Real brokers of each release answer the scenarios as written and a short walk as foretold, and kshark accuses no
clean step of it.

The long form is `make test-broker`. Needs Java 17, and Maven until the releases' jars are in the cache folder.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.broker.moves import run as moves
from tests.broker.releases import RELEASES
from tests.broker.report import surprises
from tests.broker.run import Plan, run
from tests.broker.server import NoBroker, jars
from tests.broker.verdicts import verdicts

pytestmark = [pytest.mark.broker, pytest.mark.xdist_group("broker")]
STEPS = 300


@pytest.fixture(scope="module", autouse=True)
def fetched() -> None:
    """Fetch all releases once: where one cannot be fetched, every test is skipped, and none waits for Maven again."""
    try:
        for release in RELEASES.values():
            jars(release)
    except NoBroker as reason:
        pytest.skip(str(reason))


@pytest.mark.parametrize(
    "plan",
    [
        *(
            pytest.param(
                Plan(release, 1, STEPS, scenarios=True),
                id=release,
                # the others: python -m tests.broker
                marks=() if release == max(RELEASES) else pytest.mark.slow,
            )
            for release in RELEASES
        ),
        pytest.param(Plan("4.3.1", 2, 60, room=1, scenarios=True), id="4.3.1 with room for 1", marks=pytest.mark.slow),
    ],
)
def test_brokers_answer_as_foretold(plan: Plan, tmp_path: Path) -> None:
    try:
        done = run(plan, tmp_path)
    except NoBroker as reason:
        pytest.skip(str(reason))
    counts, accused = verdicts(done.capture, done.expected)
    print(f"{plan.name}: {len(done.expected['steps'])} steps; refusals: {dict(counts)}")
    assert surprises(done) == []
    assert accused == []
    assert counts["right"] > counts["wrong"]


@pytest.mark.slow
def test_what_members_get_of_the_next_leader_is_foretold(tmp_path: Path) -> None:
    try:
        assert moves("4.3.1", seed=1, times=3, rounds=4, folder=tmp_path) == 0
    except NoBroker as reason:
        pytest.skip(str(reason))
