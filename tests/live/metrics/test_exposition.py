"""What is written is what Prometheus reads: with its own parser for Python where that is installed, and with a strict
reading of every line."""

from __future__ import annotations

import pytest

from kshark.live.metrics.exposition import OPEN_METRICS, TEXT, Format, exposition, negotiated
from kshark.live.metrics.families import FAMILIES, Family, Series
from tests.live.metrics.scraped import Watched, parsed, samples
from tests.live.metrics.test_counts import wrong_epoch
from tests.shared import CAPTURES

FORMATS = [pytest.param(TEXT, id="text"), pytest.param(OPEN_METRICS, id="openmetrics")]
HOSTILE = [
    'a"b',
    "back\\slash\\",
    "line\nfeed",
    '"} 1\nkshark_findings_total{code="FAKE"} 99\n#',
    "\x1b[31mred\x1b[0m",
    "nul\0 and \x85 and \u2028",
    "Überfluss · 東京",
    "\ud800 alone",
    "x" * 40_000,
    "other",
    "",
]


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("name", ["share-java-explicit", "adv-epochs", "produce-mix"])
def test_real_captures_are_read_by_prometheus(name: str, form: Format) -> None:
    text = Watched(("client", "member")).file(CAPTURES / f"{name}.pcap").text(form)
    assert parsed(text, form) == samples(text)
    assert len(samples(text)) > 30
    assert text.endswith("# EOF\n") is (form is OPEN_METRICS)


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("hostile", HOSTILE, ids=range(len(HOSTILE)))
def test_names_of_a_capture_cannot_write_samples(hostile: str, form: Format) -> None:
    series: Series = {"kshark_share_fetches": {(hostile, "records"): (3,)}}
    text = exposition(FAMILIES, series, form).decode()
    found = samples(text)
    assert [*found.values()] == [3]
    ((name, labels),) = found
    assert name == "kshark_share_fetches_total"
    assert [key for key, _ in labels] == ["group", "outcome"]


@pytest.mark.parametrize("hostile", [name for name in HOSTILE if "\ud800" not in name and len(name) < 200])
def test_hostile_groups_clients_and_members_of_a_conversation(hostile: str) -> None:
    """On the way from the packets to the answer control characters are escaped, and long names cut."""
    watch = Watched(("client", "member"))
    watch.talk(wrong_epoch(group=hostile, client=hostile.replace("\0", ""), member=hostile[:30]))
    for form in (TEXT, OPEN_METRICS):
        text = watch.text(form)
        found = samples(text)
        assert parsed(text, form) == found
        assert all(value.isprintable() and len(value) < 250 for _, labels in found for _, value in labels)
        assert [value for (name, labels), value in found.items() if dict(labels).get("code") == "EPOCH_SKIP_AHEAD"] == [
            1
        ]


def test_counters_and_infos_are_named_as_each_format_wants_it() -> None:
    families = (Family("k_x", "counter", 'a "quoted" \\ text'), Family("k_build", "info", "", ("v",)))
    series: Series = {"k_x": {(): (1.5,)}, "k_build": {("1",): (1,)}}
    assert exposition(families, series, TEXT).decode().split("\n") == [
        '# HELP k_x_total a "quoted" \\\\ text',
        "# TYPE k_x_total counter",
        "k_x_total 1.5",
        "# HELP k_build_info ",
        "# TYPE k_build_info gauge",
        'k_build_info{v="1"} 1',
        "",
    ]
    assert exposition(families, series, OPEN_METRICS).decode().split("\n") == [
        '# HELP k_x a \\"quoted\\" \\\\ text',
        "# TYPE k_x counter",
        "k_x_total 1.5",
        "# HELP k_build ",
        "# TYPE k_build info",
        'k_build_info{v="1"} 1',
        "# EOF",
        "",
    ]


def test_buckets_are_cumulative() -> None:
    series: Series = {"h": {("Fetch",): (6, 4.25, 1, 2, 0, 0, 0, 0, 0, 3)}}
    text = exposition((Family("h", "histogram", "", ("api",)),), series, TEXT).decode()
    assert [line for line in text.splitlines() if not line.startswith("#")] == [
        'h_bucket{api="Fetch",le="0.001"} 1',
        'h_bucket{api="Fetch",le="0.005"} 3',
        'h_bucket{api="Fetch",le="0.025"} 3',
        'h_bucket{api="Fetch",le="0.1"} 3',
        'h_bucket{api="Fetch",le="0.5"} 3',
        'h_bucket{api="Fetch",le="2.5"} 3',
        'h_bucket{api="Fetch",le="10.0"} 3',
        'h_bucket{api="Fetch",le="+Inf"} 6',
        'h_count{api="Fetch"} 6',
        'h_sum{api="Fetch"} 4.25',
    ]


#: Prometheus 2.x and 3.x send such headers.
PROMETHEUS_2 = (
    "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,"
    "text/plain;version=0.0.4;q=0.5,*/*;q=0.1"
)
PROMETHEUS_3 = (
    "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,"
    "application/openmetrics-text;version=0.0.1;q=0.5,text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,"
    "text/plain;version=0.0.4;q=0.3,*/*;q=0.2"
)


@pytest.mark.parametrize(
    ("accept", "form"),
    [
        (PROMETHEUS_2, OPEN_METRICS),
        (PROMETHEUS_3, OPEN_METRICS),
        ("", TEXT),
        ("*/*", TEXT),
        ("text/html,application/xhtml+xml,*/*;q=0.8", TEXT),
        ("application/openmetrics-text", OPEN_METRICS),
        ("application/openmetrics-text;version=2.0.0", TEXT),
        ("application/openmetrics-text;q=0.1, text/plain", TEXT),
        ("application/openmetrics-text;q=no", TEXT),
        (";;,,;q=", TEXT),
    ],
)
def test_the_format_is_negotiated(accept: str, form: Format) -> None:
    assert negotiated(accept) is form


def test_names_follow_the_conventions() -> None:
    for family in FAMILIES:
        assert family.name.startswith("kshark_")
        assert not family.name.endswith(("_total", "_info", "_count", "_sum", "_bucket"))
        assert family.help.endswith(".")
        assert not {"le", "quantile"} & {*family.labels}
    assert len({family.name for family in FAMILIES}) == len(FAMILIES)
