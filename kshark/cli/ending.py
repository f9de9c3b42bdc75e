"""How a command ends: every error as one sentence on stderr, and as an exit code.

0 done, nothing wrong; 1 at least one violation; 2 bad usage, unreadable input, or a fault in kshark itself: 1 always
means a violation."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

from kshark.errors import Error, UsageError

#: Python's own traceback is printed where this is set in the environment.
_TRACEBACK: Final = "KSHARK_TRACEBACK"
_CLOSED_PIPE: Final = 141
_INTERRUPTED: Final = 130


class Stopped(Exception):
    """The command has ended in another process, which printed why."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


def ended(program: str, run: Callable[[], int], foreign: Callable[[Exception], str | None] | None = None) -> int:
    """Runs a command and returns its exit code. `foreign` has a sentence for an exception of somebody else's, or
    None."""
    if sys.stdin is None:
        sys.stdin = os.fdopen(
            os.open(os.devnull, os.O_RDONLY)
        )  # as number 0, which the next file opened would take else
    if sys.stderr is None:
        sys.stderr = os.fdopen(os.open(os.devnull, os.O_WRONLY), "w")  # else what is printed there would go to stdout
    try:
        if sys.stdout is None:
            raise UsageError("standard output is closed; let it go to a file, or to /dev/null")
        return run()
    except Stopped as stopped:
        return stopped.code
    except Error as error:
        sentence = str(error)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # what is still buffered goes nowhere, quietly
        return _CLOSED_PIPE
    except KeyboardInterrupt:
        return _INTERRUPTED
    except Exception as error:
        told = None if foreign is None else foreign(error)
        if told is None and os.environ.get(_TRACEBACK):
            raise
        sentence = told or _of_system(error) or _fault(error)
    from kshark.output.units import safe  # with all of datetime: only who has to say something needs it

    print(f"{program}: {safe(sentence)}", file=sys.stderr)
    return 2


def _of_system(error: Exception) -> str | None:
    """What the operating system refused."""
    if not isinstance(error, OSError):
        return None
    return f"{f'{error.filename}: ' if error.filename else ''}{(error.strerror or str(error)).lower()}"


def _fault(error: Exception) -> str:
    """kshark itself is wrong: where, for whoever mends it."""
    from traceback import extract_tb  # 2 ms, and it is needed by nobody, we hope

    frames = extract_tb(error.__traceback__)
    where = f"{Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else "?"
    told = " ".join(str(error).split())
    return (
        f"a fault in kshark, at {where}: {type(error).__name__}: {told}; please report it, with what {_TRACEBACK}=1 "
        f"shows"
    )
