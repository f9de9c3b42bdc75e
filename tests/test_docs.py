"""The pages in docs/ are true: their metrics are served, their options exist, their files can be read."""

from __future__ import annotations

import argparse
import json
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from kshark.cli import live
from kshark.cli.parser import Parser
from kshark.live.metrics.families import FAMILIES
from tests.live.metrics.scraped import Watched, samples
from tests.shared import CAPTURES, ROOT

DOCS = ROOT / "docs"
DASHBOARD = DOCS / "grafana-dashboard.json"
ALERTS = DOCS / "alerts.yml"
_STAYS = frozenset({"instance", "le", "job"})


@cache
def served() -> dict[str, frozenset[str]]:
    """The samples of a real exposition by name, with the labels of each."""
    text = Watched().file(CAPTURES / "share-java-explicit.pcap").text()
    found = {name: frozenset(key for key, _ in labels) for name, labels in samples(text)}
    labels = {family.name: frozenset(family.labels) for family in FAMILIES}
    types = re.findall(r"^# TYPE (\S+) (\S+)$", text, re.M)
    for name, kind in types:  # those without series in this capture
        of = next(
            family for family in (name, name.removesuffix("_total"), name.removesuffix("_info")) if family in labels
        )
        for sample in (f"{name}_bucket", f"{name}_count", f"{name}_sum") if kind == "histogram" else (name,):
            found.setdefault(sample, labels[of])
    return found


def yaml_of(path: Path) -> Any:
    yaml = pytest.importorskip("yaml", reason="it needs a parser of YAML (pip install pyyaml)")
    return [*yaml.safe_load_all(path.read_text())]


def expressions() -> list[str]:
    panels = json.loads(DASHBOARD.read_text())["panels"]
    asked = [target["expr"] for panel in panels for target in panel.get("targets", ())]
    (rules,) = re.findall(r"^    rules:\n(.*)", ALERTS.read_text(), re.M | re.S)
    texts = re.findall(r"expr: (?:>\n((?: {10}.*\n)+)|(.*)\n)", rules)
    return asked + [folded or line for folded, line in texts]


@pytest.mark.parametrize("expression", expressions(), ids=range(len(expressions())))
def test_expressions_name_metrics_and_labels_that_are_served(expression: str) -> None:
    names = re.findall(r"\bkshark_[a-z_]+", expression)
    assert names
    assert {*names} <= served().keys()
    for name, inner in re.findall(r"\b(kshark_[a-z_]+)\{([^}]*)\}", expression):
        used = {*re.findall(r"(\w+)\s*[=!]~?", re.sub(r'"[^"]*"', "", inner))}
        assert used <= served()[name] | _STAYS, name
    known = frozenset[str]().union(*(served()[name] for name in names)) | _STAYS
    for grouped in re.findall(r"\b(?:by|without|on) \(([^)]*)\)", expression):
        assert {label.strip() for label in grouped.split(",")} <= known | {""}
    assert expression.count("(") == expression.count(")")


def test_there_are_expressions_to_check() -> None:
    assert len(expressions()) > 30


def test_label_values_in_the_dashboard_are_those_of_the_metrics() -> None:
    everything = DASHBOARD.read_text() + ALERTS.read_text()
    assert {*re.findall(r'verdict=\\?"(\w+)', everything)} <= {"violation", "unknown", "note"}
    assert {*re.findall(r'result=\\?"(\w+)', everything)} <= {"answered", "unanswered", "one_way", "body_cut"}


def test_the_dashboard_is_one_for_grafana_10() -> None:
    board = json.loads(DASHBOARD.read_text())
    assert board["schemaVersion"] >= 38
    assert (board["title"], board["uid"]) == ("kshark: Kafka on the wire", "kshark-live")
    panels = board["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    cells: set[tuple[int, int]] = set()
    for panel in panels:
        place = panel["gridPos"]
        own = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not own & cells, panel["title"]
        assert place["x"] + place["w"] <= 24
        cells |= own
    variables = {variable["name"] for variable in board["templating"]["list"]}
    named = {*re.findall(r"\$\{?([a-z_]+)\}?", DASHBOARD.read_text())} - {"__range", "__rate_interval", "__all"}
    assert named <= variables
    titles = " ".join(panel["title"] for panel in panels)
    for subject in ("What hurts", "Who", "Lag", "Redeliveries", "Refusals", "Packets lost"):
        assert subject in titles


def test_each_alert_says_what_is_wrong() -> None:
    ((group,),) = [document["groups"] for document in yaml_of(ALERTS)]
    names = [rule["alert"] for rule in group["rules"]]
    assert len({*names}) == len(names) > 5
    for rule in group["rules"]:
        assert rule["expr"].strip()
        assert rule["labels"]["severity"] in ("warning", "critical")
        by = {*re.findall(r"\$labels\.(\w+)", rule["annotations"]["summary"])}
        grouped = [label.strip() for text in re.findall(r"by \(([^)]*)\)", rule["expr"]) for label in text.split(",")]
        assert by <= ({*grouped} if grouped else {"instance", "interface"}), rule["alert"]


def test_the_table_has_all_metrics_with_their_labels() -> None:
    rows = re.findall(r"^\| (`kshark_[^|]*) \|([^|]*)\|", (DOCS / "metrics.md").read_text(), re.M)
    found = {}
    for cell, labels in rows:
        names, each = re.findall(r"`(\w+)`", cell), labels.split(";")
        for name, own in zip(names, each * len(names) if len(each) == 1 else each, strict=True):
            found[name] = {label.strip() for label in own.split(",")} - {"", "none"}
    suffix = {"counter": "_total", "info": "_info"}
    assert found == {family.name + suffix.get(family.kind, ""): {*family.labels} for family in FAMILIES}


# -- the manifest and options


@cache
def options_of_live() -> frozenset[str]:
    parser = Parser("live", "capture", ())
    live.arguments(parser)
    return frozenset(option for action in parser._actions for option in action.option_strings)


def test_the_manifest_can_be_read_and_holds_what_the_page_says() -> None:
    (pod,) = yaml_of(DOCS / "sidecar.yaml")
    assert (pod["apiVersion"], pod["kind"]) == ("v1", "Pod")
    spec = pod["spec"]
    volumes = {volume["name"]: volume["emptyDir"] for volume in spec["volumes"]}
    for container in [*spec["initContainers"], *spec["containers"]]:
        assert {mount["name"] for mount in container.get("volumeMounts", ())} <= volumes.keys()
    (kshark,) = [one for one in spec["initContainers"] if one["name"] == "kshark"]
    security = kshark["securityContext"]
    assert security["capabilities"] == {"drop": ["ALL"], "add": ["NET_RAW", "SETUID", "SETGID"]}
    assert security["readOnlyRootFilesystem"] is True
    assert security["allowPrivilegeEscalation"] is False
    mounts = {mount["name"]: mount["mountPath"] for mount in kshark["volumeMounts"]}
    assert {"name": "TMPDIR", "value": mounts["spool"]} in kshark["env"]
    assert "sizeLimit" in volumes["spool"]
    assert all(isinstance(argument, str) for argument in kshark["args"])


def test_kshark_takes_the_arguments_of_the_manifest() -> None:
    (pod,) = yaml_of(DOCS / "sidecar.yaml")
    (kshark,) = [one for one in pod["spec"]["initContainers"] if one["name"] == "kshark"]
    command, *arguments = kshark["args"]
    assert command == "live"
    assert accepted(arguments).prometheus == ("0.0.0.0", 9464)


def accepted(arguments: list[str]) -> argparse.Namespace:
    """Parse the arguments; a key log of the page is none of this machine."""
    parser = Parser("live", "capture", ())
    live.arguments(parser)
    for action in parser._actions:
        if action.dest == "tls_keys":
            action.type = str
    return parser.parse_args(arguments)


@pytest.mark.parametrize("page", ["live.md", "metrics.md", "sidecar.md"])
def test_options_of_kshark_in_the_pages_exist(page: str) -> None:
    text = (DOCS / page).read_text()
    commands = re.findall(r"kshark live ((?:[^\n`\\]|\\\n)*)", text)
    named = {option for command in commands for option in re.findall(r"(?<![\w-])--?[a-zA-Z][\w-]*", command)}
    alone = re.findall(r"`(-{1,2}[a-zA-Z][\w-]*)[^`]*`", text)
    others = {"--network", "--reuid", "-k", "-G", "-W"}  # those of docker, setpriv, wireshark, tcpdump
    assert named | {*alone} - others
    assert (named | {*alone}) - others <= options_of_live()
