"""Rights: a capture needs some to begin, and none while bytes of others are decoded."""

from __future__ import annotations

import os
from typing import Final, NamedTuple

from kshark.capture.live import child
from kshark.errors import UsageError

_NOBODY: Final = "nobody"


class User(NamedTuple):
    """A user of this computer."""

    name: str
    uid: int
    gid: int


def chosen_user(name: str | None) -> User | None:
    """Return the user that a capture started by root becomes; None if this process is not root.

    `name` is that of `-Z`; by default it is the user who called sudo, else nobody. Raises UsageError for an unknown
    name.
    """
    import pwd

    if os.geteuid() != 0:
        if name is not None:
            raise UsageError("only root can become another user: leave out -Z, or use sudo")
        return None
    wanted = name or os.environ.get("SUDO_UID") or _NOBODY
    try:
        found = pwd.getpwuid(int(wanted)) if wanted.isdecimal() else pwd.getpwnam(wanted)
    except KeyError:
        raise UsageError(f"no user {wanted}; name one with -Z (getent passwd lists them)") from None
    return User(found.pw_name, found.pw_uid, found.pw_gid)


def give_up_rights(user: User | None) -> None:
    """Become this user if this process is root, and give up all capabilities for good."""
    child.give_up_rights(None if user is None else [user.uid, user.gid])
