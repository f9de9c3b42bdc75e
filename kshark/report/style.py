"""The style of the page and of single pictures: files of this package."""

from __future__ import annotations

import re
from functools import cache
from importlib import resources


@cache
def text_of(name: str) -> str:
    """Return the text of a file of this package."""
    return resources.files("kshark.report").joinpath(name).read_text("utf-8")


def page_style() -> str:
    """Return the style of the page."""
    return text_of("style.css") + text_of("drawing.css")


def drawing_style(more: str = "") -> str:
    """Return the style of drawings and `more`, in light mode and without variables, which few programs know."""
    light = text_of("style.css").partition("}")[0]
    values = dict(re.findall(r"(--[\w-]+): ([^;]+);", light))
    return re.sub(r"var\((--[\w-]+)\)", lambda match: values[match[1]], text_of("drawing.css") + more)
