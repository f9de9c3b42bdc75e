"""Two layouts of one message: every way in which they can differ is told in one line, and nothing else is."""

from __future__ import annotations

import pytest

from kshark.schema import Field, Layout, array, boolean, int16, int32, int64, layout, string, struct
from tools.sync.compare import differences


def made(*fields: Field, versions: str = "0-2", flexible: str = "1+") -> Layout:
    return layout("PauseGroup", versions=versions, flexible=flexible, fields=struct(*fields))


def told(ours: Layout, theirs: Layout, **more) -> list[str]:
    return [str(each) for each in differences(ours, theirs, **more)]


@pytest.mark.parametrize(
    ("ours", "theirs", "lines"),
    [
        (
            (int32("a"),),
            (int32("a"), string("b", versions="2+", nullable="2+")),
            ["+ b: string, versions 2+, nullable 2+"],
        ),
        ((int32("a"), int16("b", default=-1)), (int32("a"),), ["- b: int16, versions 0+, default -1"]),
        ((int32("a"),), (int64("a"),), ["~ a: int64, versions 0+; here int32, versions 0+"]),
        (
            (int32("a", versions="1+"),),
            (int32("a", versions="2+"),),
            ["~ a: int32, versions 2+; here int32, versions 1+"],
        ),
        (
            (string("a", nullable="1+"),),
            (string("a"),),
            ["~ a: string, versions 0+; here string, versions 0+, nullable 1+"],
        ),
        (
            (boolean("a", versions="1+", tag=0),),
            (boolean("a", versions="1+", tag=1, default=True),),
            ["~ a: bool, versions 1+, tag 1 in 1+, default True; here bool, versions 1+, tag 0 in 1+"],
        ),
        (
            (array("a", struct(int32("b"))),),
            (array("a", struct(int32("b"), int32("c"))),),
            ["+ a.c: int32, versions 0+"],
        ),
        ((int32("a"), int32("b")), (int32("b"), int32("a")), ["~ PauseGroup: fields in another order in version 0"]),
    ],
)
def test_a_difference_is_a_line(ours, theirs, lines) -> None:
    assert told(made(*ours), made(*theirs)) == lines


def test_the_same_said_otherwise_is_no_difference() -> None:
    ours = made(array("a", struct(int32("b", versions="0+", default=0))), string("c", versions="1+", nullable="0+"))
    theirs = made(array("a", struct(int32("b", versions="0-2"))), string("c", versions="1-2", nullable="1+"))
    assert told(ours, theirs) == []


def test_a_release_may_drop_old_versions_and_know_fewer_new_ones() -> None:
    ours = made(int32("a", versions="0"), int32("b", versions="1+"), int32("c", versions="4+"), versions="0-5")
    assert told(ours, made(int32("b"), versions="1-3")) == []


def test_new_versions_are_told_with_what_they_bring() -> None:
    ours, theirs = made(int32("a")), made(int32("a", versions="0-2"), string("b", versions="3+"), versions="0-3")
    assert told(ours, theirs) == [
        "+ PauseGroup: versions 3 to 3",
        "~ a: int32, versions 0-2; here int32, versions 0+",
        "+ b: string, versions 3+",
    ]
    assert told(made(int32("a"), versions="1-2"), made(int32("a"))) == ["+ PauseGroup: versions 0 to 0"]


def test_flexible_versions_count() -> None:
    assert told(made(flexible="1+"), made(flexible="2+")) == ["~ PauseGroup: flexible versions 2+, here 1+"]


def test_a_field_may_have_had_another_name() -> None:
    ours, theirs = made(array("a", struct(int32("voter_id")))), made(array("a", struct(int32("candidate_id"))))
    assert told(ours, theirs, renames={"a.voter_id": ("candidate_id",)}) == []
    assert len(told(ours, theirs)) == 2
