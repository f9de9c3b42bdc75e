"""A check as JUnit XML: a test suite for each client or capture, a test case for each rule.

A broken rule is a failure. A rule that was never tested, or that is not decided, is skipped, with its reason: CI shows
it, and goes on.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from xml.sax.saxutils import escape, quoteattr

from kshark.output.checked_capture import Case, CheckedCapture, Group, groups
from kshark.units import safe


def suites(capture: CheckedCapture) -> str:
    """Return the test suites of a capture."""
    return "".join(line for group in groups(capture) for line in _suite(group, capture.name))


def document(parts: Iterable[str]) -> str:
    """Return the document of all captures."""
    return '<?xml version="1.0" encoding="UTF-8"?>\n<testsuites name="kshark">\n' + "".join(parts) + "</testsuites>\n"


def _suite(group: Group, capture: str) -> Iterator[str]:
    name = capture if group.name == "capture" else f"{capture}: {group.name}"
    failed, skipped = (sum(case.result == result for case in group.cases) for result in ("failed", "skipped"))
    yield (
        f"  <testsuite name={_attribute(name)} tests={_attribute(len(group.cases))} failures={_attribute(failed)} "
        f'errors="0" skipped={_attribute(skipped)} time="0">\n'
    )
    properties = [("capture", capture), *([("software", group.software)] if group.software else [])]
    yield "    <properties>\n"
    for key, value in properties:
        yield f"      <property name={_attribute(key)} value={_attribute(value)}/>\n"
    yield "    </properties>\n"
    for case in group.cases:
        yield from _case(case, group.name)
    yield "  </testsuite>\n"


def _case(case: Case, group: str) -> Iterator[str]:
    group = group.replace(".", "_")  # reporters cut a class name at its dots
    head = f'    <testcase classname={_attribute("kshark." + group)} name="{case.code}" time="0"'
    if case.result == "passed":
        yield f"{head}/>\n"
        return
    yield f"{head}>\n"
    if case.result == "failed":
        yield f'      <failure type="{case.kind}" message={_attribute(case.message)}>{_text(case.details)}</failure>\n'
    else:
        yield f"      <skipped message={_attribute(case.message)}/>\n"
        if case.details:
            yield f"      <system-out>{_text(case.details)}</system-out>\n"
    yield "    </testcase>\n"


def _attribute(value: object) -> str:
    return quoteattr(safe(str(value)))


def _text(text: str) -> str:
    """Escape text of several lines."""
    return escape("\n".join(map(safe, text.splitlines())))
