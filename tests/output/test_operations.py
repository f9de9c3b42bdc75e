"""Administrative operations as a person reads them."""

from __future__ import annotations

import pytest

from kshark.analysis.states.operations.listing import Operation, OperationPartition, StateRequest
from kshark.output.operations import operation_lines
from kshark.output.spans import plain


def shown(*operations: Operation, verbose: bool = False) -> list[str]:
    return [plain(line) for line in operation_lines(operations, None, verbose=verbose, indent=2)]


def operation(
    kind: str, *partitions: OperationPartition, packet: int = 1, outcome: str = "done", **more: object
) -> Operation:
    told = {"error_code": 0, "because": None, "in_sight": None, "latency_ns": 4_000_000, **more}
    head = ("g", kind, packet, packet * 1_000_000, packet + 5)
    return Operation(
        *head,
        told["latency_ns"],
        "tool",
        "h:1",
        "b:1",
        outcome,
        told["error_code"],
        told["because"],
        told["in_sight"],
        [*partitions],
    )  # type: ignore[arg-type]


def row(number: int | None, start: int | None = None, *, asked: str = "", lacking: bool = False) -> OperationPartition:
    request = StateRequest(asked, 3, 4, "b:2", 0) if asked else None
    return OperationPartition("id", "orders", number, start, 0, request, lacking)


def test_a_row_for_each_change_and_a_count_of_what_was_read() -> None:
    initialized = "InitializeShareGroupState"
    assert shown(
        operation("list", packet=2),
        operation("assign", row(0), row(1), packet=20, in_sight=False),
        operation(
            "alter_offsets", row(0, 5, asked=initialized), row(1, 7, asked=initialized), packet=30, in_sight=True
        ),
        operation("describe_offsets", row(0, 5), packet=40),
        operation("list", packet=3),
    ) == [
        "  packet  time          operation      by    partitions      share coordinators     took  outcome",
        "      20  00:00:00.020  assign         tool  orders:0,1       not captured       4.00 ms  done",
        "      30  00:00:00.030  alter offsets  tool  orders:0→5,1→7  2 initialized       4.00 ms  done",
        "  listed 2 times, offsets described 1 time",
    ]


def test_what_did_not_end_well_says_why() -> None:
    lines = shown(
        operation(
            "alter_offsets",
            row(0, 5),
            row(1, 7, lacking=True),
            outcome="unfinished",
            because="not_asked",
            in_sight=True,
        ),
        operation("delete_offsets", row(None), packet=2, outcome="refused", error_code=68),
        operation("describe", packet=3, outcome="unfinished", because="not_told"),
        operation("delete_group", packet=4, outcome="unanswered", latency_ns=None),
    )
    assert [line.split("  ")[-1].strip() for line in lines[1:]] == [
        "unfinished: its share coordinator got no request for orders[1]",
        "refused NON_EMPTY_GROUP (68)",
        "unfinished: the response does not name it",
        "unanswered",
    ]


def test_all_of_them() -> None:
    assert [
        line.split()[2:-3]
        for line in shown(operation("describe_offsets", row(0, 5)), operation("list", packet=2), verbose=True)[1:]
    ] == [
        ["describe", "offsets", "tool", "orders:0=5"],
        ["list", "tool"],
    ]


@pytest.mark.parametrize(
    ("epochs", "text"),
    [
        ([(2, 4)], "1 initialized, state epoch 2 → 4"),
        ([(2, 2)] * 3, "3 initialized, state epoch 2"),
        ([(2, 2), (1, 2)], "2 initialized, state epoch 2, 1 → 2"),
        ([(None, 2)], "1 initialized"),
    ],
)
def test_a_state_epoch_that_stays_is_said_once(epochs: list[tuple[int | None, int]], text: str) -> None:
    rows = [row(number, asked="InitializeShareGroupState") for number in range(len(epochs))]
    for made, (before, after) in zip(rows, epochs, strict=True):
        assert made.share_coordinator is not None
        made.share_coordinator.earlier_state_epoch, made.share_coordinator.state_epoch = before, after
    (_, line) = shown(operation("alter_offsets", *rows, in_sight=True))
    assert f"  {text}  " in line
