"""Known findings: a file of findings that a check leaves out. They are recognised by what went wrong and by whom, not
by packet or time.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from kshark.errors import UsageError
from kshark.model import Finding
from kshark.output.jsonlines import json_lines

_VERSION: Final = re.compile(r" [0-9v][\w.+-]*$")
#: Verdicts that may be known. A note accuses nobody and fails nothing.
_VERDICTS: Final = ("violation", "unknown")


class FindingKind(NamedTuple):
    """The properties that findings of one mistake share.

    `client`: the name of the client's software, or else its client id; None if a broker is to blame. `api`: of the
    exchange that the finding is about.
    """

    code: str
    cause: str | None
    blame: str
    client: str | None
    api: str | None

    @property
    def name(self) -> str:
        """The kind in words."""
        return f"{self.code} ({self.client})" if self.client else self.code

    def may_be_of(self, client: str, software: str | None) -> bool:
        """True if it is a mistake of this client."""
        return self.client is None or self.client in (client, software_name(software or client))


def software_name(software: str) -> str:
    """Return the name of a software without its version."""
    return _VERSION.sub("", software)


class Baseline:
    """Kinds of known findings."""

    def __init__(self, kinds: Iterable[FindingKind] = ()) -> None:
        #: In the order of the file.
        self.kinds: Final = dict.fromkeys(kinds)

    @classmethod
    def read(cls, path: Path) -> Baseline:
        """Read the lines of `kshark check -T json`, or of `--write-baseline`. Raises UsageError for other files."""
        try:
            lines = path.read_bytes().splitlines()
        except OSError as error:
            raise UsageError(f"--baseline: {path}: {error.strerror}") from error
        numbered = [(number, line) for number, line in enumerate(lines, 1) if line.strip()]
        return cls(kind for number, line in numbered for kind in _kinds_of(f"{path}, line {number}", line))

    def has(self, finding: Finding) -> bool:
        """True if the finding is known."""
        return bool(self.kinds) and finding.verdict in _VERDICTS and kind_of(finding) in self.kinds


def kind_of(finding: Finding) -> FindingKind:
    """Return the kind of a finding."""
    last = finding.witness[-1].correlation_id if finding.witness else None
    return _kind(
        finding.code,
        finding.cause,
        finding.blame,
        finding.software,
        finding.client_id,
        _api(finding.argument, last),
    )


def count_kinds(findings: Iterable[Finding]) -> Counter[FindingKind]:
    """Count violations and unknown findings by kind."""
    return Counter(kind_of(finding) for finding in findings if finding.verdict in _VERDICTS)


def kinds_written(kinds: Mapping[FindingKind, int]) -> bytes:
    """Return the lines of a file of known findings, in a stable order."""
    ordered = sorted(kinds.items(), key=lambda entry: tuple(value or "" for value in entry[0]))
    return bytes(json_lines([{**kind._asdict(), "count": count} for kind, count in ordered]))


def _kinds_of(place: str, line: bytes) -> Iterator[FindingKind]:
    """Yield the kind of a line; none for a note, a headline or a summary."""
    wrong = f"--baseline: {place} is no finding; use the lines of kshark check -T json, or --write-baseline"
    try:
        row = msgspec.json.decode(line)
    except msgspec.DecodeError:
        raise UsageError(wrong) from None
    if not isinstance(row, dict):
        raise UsageError(wrong)
    if "summary" in row or "headline" in row or row.get("verdict") == "note":
        return
    try:
        kind = _read(row)
        if not all(value is None or isinstance(value, str) for value in kind):
            raise UsageError(wrong)
        yield kind
    except (KeyError, TypeError, AttributeError, IndexError):
        raise UsageError(wrong) from None


def _read(row: Mapping[str, Any]) -> FindingKind:
    if "verdict" not in row:
        return FindingKind(row["code"], row["cause"], row["blame"], row["client"], row["api"])
    last = row["witness"][-1]["correlation_id"] if row["witness"] else None
    return _kind(
        row["code"], row["cause"], row["blame"], row["software"], row["client_id"], _api(row["argument"], last)
    )


def _kind(
    code: str, cause: str | None, blame: str, software: str | None, client_id: str | None, api: str | None
) -> FindingKind:
    name = software_name(software) if software else client_id
    return FindingKind(code, cause, blame, None if blame == "broker" else name, api)


def _api(argument: str, correlation_id: int | None) -> str | None:
    """Return the API of the last exchange of an argument, as its sentence names it: `ShareFetch #17`."""
    named = None if correlation_id is None else re.search(rf"\b([A-Z]\w+) #{correlation_id}\b", argument)
    return None if named is None else named[1]
