"""Errors and exit codes of a command: every error is one sentence on stderr.

Exit code 0: done, no violation; 1: at least one violation; 2: bad usage, unreadable input, or a bug in kshark; 3:
nothing could be judged; 130: interrupted by Ctrl-C, and no violation up to there. 1 always means a violation.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

from kshark.errors import Error, UsageError

#: Environment variable: if set, Python prints its own traceback.
_TRACEBACK: Final = "KSHARK_TRACEBACK"
_CLOSED_PIPE: Final = 141
INTERRUPTED: Final = 130


class Stopped(Exception):
    """The command ended in another process, which printed the reason."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


def ended(program: str, run: Callable[[], int], foreign: Callable[[Exception], str | None] | None = None) -> int:
    """Run a command and return its exit code.

    `foreign` returns a sentence for an exception of another library, or None.
    """
    if sys.stdin is None:
        # else the next file that is opened gets number 0
        sys.stdin = os.fdopen(os.open(os.devnull, os.O_RDONLY))
    if sys.stderr is None:
        sys.stderr = os.fdopen(os.open(os.devnull, os.O_WRONLY), "w")  # else its output would go to stdout
    code = 2
    try:
        if sys.stdout is None:
            raise UsageError("standard output is closed; redirect it to a file, or to /dev/null")
        return run()
    except Stopped as stopped:
        return stopped.code
    except Error as error:
        sentence, code = str(error), error.exit_code
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # drop what is still buffered, without a message
        return _CLOSED_PIPE
    except KeyboardInterrupt:
        return INTERRUPTED
    except Exception as error:
        explained = None if foreign is None else foreign(error)
        if explained is None and os.environ.get(_TRACEBACK):
            raise
        sentence = explained or _of_system(error) or fault(error)
    from kshark.units import safe  # imports datetime: only needed for an error

    print(f"{program}: {safe(sentence)}", file=sys.stderr)
    return code


def _of_system(error: Exception) -> str | None:
    """Return the error of the operating system, or None for another error."""
    if not isinstance(error, OSError):
        return None
    return f"{f'{error.filename}: ' if error.filename else ''}{(error.strerror or str(error)).lower()}"


def fault(error: Exception) -> str:
    """Return the sentence for a bug in kshark, with its place in the code."""
    from traceback import extract_tb  # 2 ms, rarely needed

    frames = extract_tb(error.__traceback__)
    where = f"{Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else "?"
    message = " ".join(str(error).split())
    return (
        f"a bug in kshark, at {where}: {type(error).__name__}: {message}; please report it, with the output of "
        f"{_TRACEBACK}=1"
    )
