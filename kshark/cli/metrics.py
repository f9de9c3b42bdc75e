"""`kshark live --prometheus`: its options, and the consumer behind them."""

from __future__ import annotations

import argparse
import sys
from argparse import Namespace
from typing import TYPE_CHECKING, Any

from kshark.cli.parser import Parser
from kshark.errors import UsageError

if TYPE_CHECKING:
    from kshark.live.metrics import Metrics
    from kshark.registry import Registry


def add_prometheus(parser: Parser) -> None:
    """Add the options of the metrics."""
    parser.add_argument(
        "--prometheus",
        metavar="[ADDR:]PORT",
        type=_address,
        help="serve metrics at http://ADDR:PORT/metrics; without ADDR on loopback, port 0: any free one",
    )
    parser.add_argument(
        "--prometheus-labels",
        metavar="LABEL,...",
        type=_labels,
        help="count findings and errors also by client, member: many series, at most 1,000 in all",
    )


def serving(args: Namespace, registry: Registry) -> Metrics | None:
    """Return the consumer that serves metrics, and say where; None without --prometheus.

    Raise UsageError if the address cannot be used.
    """
    if args.prometheus is None:
        if args.prometheus_labels:
            raise UsageError("--prometheus-labels needs --prometheus PORT")
        return None
    from kshark.live.metrics import Metrics  # imports an HTTP server, 20 ms

    metrics = Metrics(args.prometheus, registry, args.prometheus_labels or ())
    print(f"kshark: metrics at {metrics.url}", file=sys.stderr)
    return metrics


def _address(text: str) -> Any:
    from kshark.live.metrics import address  # only needed with the option

    try:
        return address(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _labels(text: str) -> list[str]:
    from kshark.live.metrics import OPTIONAL  # only needed with the option

    names = [name.strip() for name in text.split(",")]
    for name in names:
        if name not in OPTIONAL:
            raise argparse.ArgumentTypeError(f'"{name}" is no label; there are {", ".join(OPTIONAL)}')
    return [name for name in OPTIONAL if name in names]
