"""A compiled condition says what walking over its values says: random schemas, bodies and conditions, whole bodies and
damaged ones."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kshark.codec import compile_writer, interpret
from kshark.codec.shapes import shape_of
from kshark.conditions import compiled_together
from kshark.schema import Layout
from tests.conditions.reference import holds
from tests.conditions.strategies import conditions
from tests.examples import as_many
from tests.property.schemas import VERSIONS, damaged, layouts, values

FEW = settings(max_examples=as_many(12), suppress_health_check=list(HealthCheck))
MANY = settings(max_examples=400, suppress_health_check=list(HealthCheck))


@FEW
@given(st.data(), layouts(), st.sampled_from(VERSIONS))
def test_compiled_is_walked(data: st.DataObject, layout: Layout, version: int) -> None:
    same_truth(data, layout, version)


@pytest.mark.slow
@MANY
@given(st.data(), layouts(), st.sampled_from(VERSIONS))
def test_many_compiled_are_walked(data: st.DataObject, layout: Layout, version: int) -> None:
    same_truth(data, layout, version)


def same_truth(data: st.DataObject, layout: Layout, version: int) -> None:
    some = data.draw(st.lists(conditions(layout.root), min_size=1, max_size=6))
    tests = [condition.compiled(version) for condition in some]
    together = compiled_together(some, version)
    for condition in some:
        condition.check(layout.root)
        assert condition.description
    for _ in range(3):
        written = compile_writer(layout, version)(data.draw(values(shape_of(layout, version))))
        if data.draw(st.booleans()):
            written = data.draw(damaged(written))
        body = interpret(layout, version, written, 0, len(written)).body
        truth = [holds(condition, body, version) for condition in some]
        assert [test(body) for test in tests] == truth
        assert [test(body) is one for test, one in zip(tests, truth, strict=True)] == [True] * len(truth)
        assert together(body) == tuple(number for number, one in enumerate(truth) if one)
