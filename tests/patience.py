"""The time after which a test gives up waiting for another process: only one that never ends takes so long, however
busy the machine."""

from typing import Final

PATIENCE_S: Final = 600
