"""Proposals: what each brought is in the field tables, in the versions and releases that it says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kshark.codec.paths import paths_of_versions
from kshark.output.catalogue import EVERY_RULE
from kshark.registry import kafka_registry
from kshark.schema import OPEN, versions_of
from kshark_dissectors.enums import ErrorCode
from kshark_dissectors.kips import KIPS, Kip
from kshark_dissectors.releases import RELEASES, SPOKEN
from tests.dissectors.schema_rows import WRITTEN, dissector
from tests.shared import PRODUCT, ROOT, shared


def named_in(*files: Path) -> set[int]:
    return {int(number) for path in files for number in re.findall(r"KIP-(\d+)", path.read_text("utf-8"))}


def test_every_proposal_that_the_product_names_is_known() -> None:
    sources = [path for folder in PRODUCT for path in (ROOT / folder).rglob("*.py")]
    assert named_in(*sources) - set(KIPS) == set()
    assert {int(dissector(key).kip.removeprefix("KIP-")) for key in WRITTEN if dissector(key).kip} <= set(KIPS)


def test_every_proposal_that_kafkas_definitions_name_is_known() -> None:
    assert named_in(*shared("kafka-messages").rglob("*.json")) - set(KIPS) == set()


@pytest.mark.parametrize("number", KIPS)
def test_what_a_proposal_changed_is_in_the_field_tables(number: int) -> None:
    for key, (text, names) in KIPS[number].changes.items():
        api, versions = dissector(key), versions_of(text)
        assert versions.low in api.versions
        assert versions.high in (api.versions.high, OPEN), f"{api.name}: write {versions.low}+ or the last version"
        assert (versions.high == OPEN) == (versions.low < api.versions.high), api.name
        paths = [
            (path.names[-1], path.field, since)
            for layout in (api.request, api.response)
            for path, since in paths_of_versions(layout.root, layout.versions)
        ]
        for name in names.split():
            first = [min(since.low, field.tagged.low or since.low) for last, field, since in paths if last == name]
            assert any(low in versions for low in first), f"{api.name}: {name} came in {first}"


@pytest.mark.parametrize("number", KIPS)
def test_releases_are_in_order_and_speak_what_was_new(number: int) -> None:
    kip = KIPS[number]
    releases = [tuple(map(int, release.split("."))) for release, _ in kip.releases]
    assert releases == sorted(releases)
    assert kip.title[-1] != "."
    last = kip.releases[-1][0]
    if last in RELEASES[1:] and not any("removed" in stage or "unstable" in stage for _, stage in kip.releases):
        for key, (text, _) in kip.changes.items():
            spoken = SPOKEN[key][RELEASES.index(last)]
            assert versions_of(text).low in versions_of(spoken.rstrip("*")), (
                f"{dissector(key).name} of {last}: {spoken}"
            )


def test_an_error_has_one_proposal_and_structures_exist() -> None:
    structures = kafka_registry().structures()
    for kip in KIPS.values():
        assert set(kip.structures) <= set(structures)
        assert set(kip.see) <= set(KIPS)
    for error in ErrorCode:
        assert sum(error in kip.errors for kip in KIPS.values()) <= 1, error


def test_every_error_of_the_newer_families_has_its_proposal() -> None:
    brought = {error for kip in KIPS.values() for error in kip.errors}
    #: Kafka's own notes name no proposal for these.
    assert {error for error in ErrorCode if error.value >= 45} - brought == {
        ErrorCode.OPERATION_NOT_ATTEMPTED,
        ErrorCode.UNKNOWN_PRODUCER_ID,
        ErrorCode.LISTENER_NOT_FOUND,
        ErrorCode.INVALID_REGISTRATION,
        ErrorCode.CONTROLLER_ID_NOT_REGISTERED,
    }


def test_rules_of_share_groups_name_their_proposal() -> None:
    assert sum("KIP-932" in rule.source for rule in EVERY_RULE) > 20
    assert isinstance(KIPS[932], Kip)
