"""Rules of machines that have none in the catalogue yet: what lies in one bucket is told by whole groups, or by nothing
at all."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from kshark.analysis.facts.argument import EXCHANGE, Argument
from kshark.analysis.rules.rule import NOTES, Check, Rule
from kshark.analysis.states.tables import CONNECTION, PERSISTER, Machine
from kshark.api_keys import API_VERSIONS, METADATA

if TYPE_CHECKING:
    from kshark.analysis.runners.stateless import Exchanged


def by_another(now: Exchanged) -> Argument | None:
    """Another member, or another connection, was there before."""
    call, before = now.call, now.before
    if before is None or (before.member_id, before.connection) == (call.member_id, call.connection):
        return None
    return Argument(f"{before.here} ({before.packets}), then {call.here} ({call.packets})", (before, call), EXCHANGE)


def answered(now: Exchanged) -> Argument | None:
    """What only the whole answer holds."""
    list_, field = ("api_keys", "min_version") if now.call.api_key == API_VERSIONS else ("topics", "name")
    told = [getattr(one, field) for one in getattr(now.response, list_, None) or ()]
    return Argument(f"{now.call.here} was answered with {told}", (now.call,), EXCHANGE)


def _row(code: str, look: Callable[[Exchanged], Argument | None], machine: Machine, *apis: int) -> Rule:
    checks = (Check(look),)
    return Rule(
        number=None,
        code=code,
        text="It was seen.",
        source="",
        blame=(),
        verdicts=NOTES,
        machine=machine,
        checks=checks,
        apis=apis,
    )


#: Their keys have the group in common.
OF_GROUPS: Final = (_row("STATE_BY_ANOTHER", by_another, replace(PERSISTER, name="visits to stored state", states=())),)
#: Has nothing in common with a session, and reads what every bucket is told anyhow.
OF_CONNECTIONS: Final = (_row("ANSWERED", answered, CONNECTION, API_VERSIONS, METADATA),)
ROWS: Final = OF_GROUPS
