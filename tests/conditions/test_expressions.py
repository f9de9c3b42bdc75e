"""Regular expressions that users type: none can hang on a text, those that need backtracking are refused, plain ones
mean what they did."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kshark.conditions.expressions import in_java, searching
from kshark.errors import UsageError
from tests.examples import as_many

_LETTERS = "aBkÉ-_0 "
_ATOMS = st.one_of(
    st.sampled_from([*"aBkÉ0_", ".", r"\-", r"\.", r"[0-9]", r"[a-kÉ]", r"[^aB\]]", r"\x61", "^", "$", ""])
)


def _longer(parts: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.one_of(
        st.lists(parts, max_size=4).map("".join),
        st.tuples(parts, parts).map(lambda both: f"({both[0]}|{both[1]})"),
        st.tuples(parts, st.sampled_from(["*", "+", "?", "*?", "{2}", "{1,3}", "{0,}"])).map(
            lambda both: f"(?:{both[0]}){both[1]}"
        ),
    )


#: What the plain part of every syntax says.
PLAIN = st.recursive(_ATOMS, _longer, max_leaves=8)


@settings(max_examples=as_many(600))
@given(PLAIN, st.text(_LETTERS, max_size=12))
def test_plain_ones_find_what_pythons_find(pattern: str, text: str) -> None:
    assert searching(pattern)(text) is (re.search(pattern, text, re.IGNORECASE) is not None)
    data, raw = pattern.encode("latin-1"), text.encode("latin-1")
    assert searching(data)(raw) is (re.search(data, raw, re.IGNORECASE) is not None)


@pytest.mark.parametrize(
    "evil", ["(a+)+$", "^(a|a)*$", "(.*)*!", "(a?){500}a{500}$", "^(([a-z])+.)+[A-Z]{9}$", r"(a|aa)+\z"]
)
def test_none_hangs(evil: str) -> None:
    """Python's re would take longer than the universe has existed."""
    text = "a" * 100_000 + "\n"
    assert searching(evil)(text) is False
    assert searching(evil.encode())(text.encode()) is False


@pytest.mark.parametrize(
    ("pattern", "wrong"),
    [
        ("(", "missing ): ("),
        ("a(?=b)", "invalid perl operator: (?="),
        ("(?<!b)a", "invalid perl operator: (?<!"),
        (r"(a)\1", r"invalid escape sequence: \1"),
        (r"a\Z", r"invalid escape sequence: \Z"),
        ("a{1001}", "invalid repetition size: {1001}"),
        ("(a{1000}){1000}", "invalid repetition size: {1000}"),
        ("a{1000}{1000}", "bad repetition operator: {1000}{1000}"),
        (r"\pL{1000}" * 20, "pattern too large - compile failed"),
    ],
)
def test_what_is_none_is_refused(pattern: str, wrong: str, capfd: pytest.CaptureFixture[str]) -> None:
    for read in (searching, in_java):
        with pytest.raises(UsageError, match=f"^invalid regular expression: {re.escape(wrong)}$"):
            read(pattern)
    assert capfd.readouterr() == ("", "")


def test_text_that_is_no_unicode_is_searched_too() -> None:
    assert searching("b$")("\ud800b")
    assert searching("\ud800")("a\ud800")


def test_of_bytes_letters_of_ascii_are_alike() -> None:
    assert searching(b"k\\xe9\x00")(b"-K\xe9\x00")
    assert not searching(b"\\xe9")(b"\xc9")
    assert not searching("É".encode())("é".encode())


@pytest.mark.parametrize(
    ("pattern", "java"),
    [
        ("a.b", "(?diu)a.b"),
        (b"\xe9", "(?di)é"),
        (r"^x$|\$[$]", r"(?diu)^x\z|\$[$]"),
        ("(?m)^x$", "(?diu)(?m)^x$"),
        (r"(?P<a>x)\Q$[\E$", r"(?diu)(?<a>x)\Q$[\E\z"),
        (r"[]a[&&\[]", r"(?diu)[]a\[&\&\[]"),
        (r"[^:]\B", r"(?diu)[^:](?:(?<=\w)(?=\w)|(?<!\w)(?!\w))"),
    ],
)
def test_java_is_told_the_same(pattern: str | bytes, java: str) -> None:
    """Spark itself reads some of these in tests/spark."""
    assert in_java(pattern) == java


def test_what_java_has_no_short_word_for_is_refused() -> None:
    with pytest.raises(UsageError, match=r"^Spark gives \[:alpha:\] another meaning"):
        in_java("^[[:alpha:]]")
