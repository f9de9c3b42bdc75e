"""The incident that the tests of commands share."""

from __future__ import annotations

from tests.cli.conftest import trace as trace
