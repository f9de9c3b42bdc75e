"""Every relative link of a page leads to a file, and to a heading where it names one."""

from __future__ import annotations

import re
import subprocess
from functools import cache
from pathlib import Path

import pytest

from tests.shared import ROOT
from tools.documentation import REPOSITORY

#: What is no part of the repository, where git cannot tell.
ELSEWHERE = {".venv", "out", "node_modules", "build", "dist", ".git"}


def pages() -> list[Path]:
    try:
        listed = subprocess.run(
            ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md"],
            cwd=ROOT, capture_output=True, text=True, check=True,
        ).stdout.splitlines()  # fmt: skip
    except (OSError, subprocess.CalledProcessError):  # no checkout
        found = (path.relative_to(ROOT) for path in ROOT.rglob("*.md"))
        listed = [str(path) for path in found if not ELSEWHERE & {*path.parts}]
    return sorted(ROOT / name for name in listed if (ROOT / name).exists())


PAGES = pages()


def prose(text: str) -> str:
    """A page without its code, in which brackets are no links."""
    return re.sub(r"`[^`\n]*`", "", re.sub(r"^(```|~~~).*?^\1", "", text, flags=re.S | re.M))


def targets(text: str) -> list[str]:
    """The targets of links and images, inline, by reference or as HTML."""
    bare = prose(re.sub(r"\[`([^`\n]*)`\]", r"[\1]", text))
    inline = re.findall(r"\]\(\s*<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\s*\)", bare)
    by_reference = re.findall(r"^\[[^\]]+\]:\s*<?([^\s>]+)", bare, re.M)
    html = re.findall(r"(?:href|src)=[\"']([^\"']+)[\"']", bare)
    return [*inline, *by_reference, *html]


@cache
def anchors(path: Path) -> frozenset[str]:
    """The anchors that GitHub makes of a page's headings: in lower case, dashes for spaces, no punctuation."""
    found: dict[str, int] = {}
    text = re.sub(r"^(```|~~~).*?^\1", "", path.read_text(), flags=re.S | re.M)
    for heading in re.findall(r"^#+ +(.+?) *#*$", text, re.M):
        shown = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        slug = re.sub(r"[^\w\- ]", "", shown.lower()).replace(" ", "-")
        times = found.get(slug, 0)
        found[slug] = times + 1
        if times:
            found[f"{slug}-{times}"] = 1
    return frozenset(found) | frozenset(re.findall(r"<a (?:id|name)=[\"']([^\"']+)", text))


def dead_links(page: Path) -> list[str]:
    dead = []
    for target in targets(page.read_text()):
        # The README has absolute links, since it also stands where relative ones lead nowhere.
        if re.match(r"[a-z][a-z+.-]*:", target) and not target.startswith(REPOSITORY):
            continue
        file, _, anchor = target.replace(REPOSITORY, "/").partition("#")
        path = page if not file else (ROOT / file.lstrip("/") if file.startswith("/") else page.parent / file)
        if not path.exists() or (anchor and anchor not in anchors(path)):
            dead.append(target)
    return dead


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_somewhere(page: Path) -> None:
    assert dead_links(page) == []


def test_the_pages_have_links() -> None:
    assert ROOT / "README.md" in PAGES
    assert sum(len(targets(page.read_text())) for page in PAGES) > 5


def test_a_dead_link_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    (tmp_path / "there.md").write_text("# A heading, `coded`!\n\n```\n# no heading\n```\n## Twice\n## Twice\n")
    good = "[a](there.md) [`b`](there.md#a-heading-coded) [c](there.md#twice-1) [d](https://x.y/z) [e](#own)\n# Own\n"
    page.write_text(good + "`[code](gone.md)`\n```\n[code](gone.md)\n```\n")
    assert dead_links(page) == []
    page.write_text(good + "[a](gone.md) [b](there.md#no-heading) [c](#nowhere) ![d](gone.png)\n\n[e]: gone.txt\n")
    assert dead_links(page) == ["gone.md", "there.md#no-heading", "#nowhere", "gone.png", "gone.txt"]
    page.write_text(f"[a]({REPOSITORY}README.md) [b]({REPOSITORY}gone.md)")
    assert dead_links(page) == [f"{REPOSITORY}gone.md"]
