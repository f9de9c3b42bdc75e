"""The answer keys: every refusal that a hostile client provoked is explained as its maker meant it, and nobody
well-behaved is accused."""

from __future__ import annotations

from pathlib import Path

import pytest

import kshark
from kshark.face import pages
from kshark.run import Run
from tests.answers import mark, unmatched
from tests.conformance.controls import UNTOLD
from tests.conversation import registry
from tests.shared import CAPTURES

ADVERSARIAL = sorted(path for path in CAPTURES.glob("adv-*.pcap"))
#: Well-behaved clients and brokers, and the rules that librdkafka's mock broker breaks all the same (trailing bytes,
#: undecodable bodies).
CLEAN = {
    "share-java-explicit": (),
    "share-java-explicit-4.0.0": (),
    "share-java-explicit-4.1.2": (),
    "share-java-implicit-4.2.1": (),
    "share-java-renew": (),
    "share-librdkafka": (),
    "share-restart": (),
    "share-loss": (),
    "seed-messy": (),
    "produce-mix": (),
    "security-sasl": (),
    "tcp-var-base": (),
    "tcp-var-mid": (),
    "tcp-var-missed": (),
    "tcp-var-oneside": (),
    "nano-sll2": (5, 6, 14),
    "small-zstd": (5, 6, 14),
}


@pytest.mark.parametrize("capture", ADVERSARIAL, ids=lambda path: path.stem)
def test_every_refusal_is_explained_as_it_was_meant(capture: Path) -> None:
    marks = mark(capture)
    assert marks.missed == []
    assert marks.crowded == []
    assert marks.uncaused == []


@pytest.mark.parametrize("capture", ADVERSARIAL, ids=lambda path: path.stem)
def test_each_step_is_told_or_it_is_known_why_not(capture: Path) -> None:
    assert unmatched(capture) == [*UNTOLD[capture.stem]]


@pytest.mark.parametrize("capture", ADVERSARIAL, ids=lambda path: path.stem)
def test_no_refusal_is_left_to_be_explained(capture: Path) -> None:
    """Whatever its code."""
    run = Run(registry())
    for page in pages([capture]):
        run.page(page)
    run.close()
    assert run.observed.answered
    assert run.observed.unexplained() == []


@pytest.mark.sweep(quick=5)
@pytest.mark.parametrize("name", sorted(CLEAN))
def test_nobody_well_behaved_is_accused(name: str) -> None:
    accused = [finding for finding in kshark.check(CAPTURES / f"{name}.pcap") if finding.verdict == "violation"]
    assert [finding for finding in accused if finding.rule not in CLEAN[name]] == []
