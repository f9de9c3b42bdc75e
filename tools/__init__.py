"""Tools for maintainers, run in a checkout; they are not part of the wheel."""
