"""Promises of kshark.analysis.rules.group_requests: requests that a coordinator refuses for what they say."""

from __future__ import annotations

from dataclasses import replace

from tests.analysis.rules.promises.promise import Said, promise
from tests.analysis.talks import UNKNOWN_MEMBER_ID
from tests.conversation import Conversation, note

UNSUPPORTED_ASSIGNOR = 112


@promise
def a_member_names_an_assignor_that_there_is_not() -> Said:
    talk = Conversation()
    wrong = talk.consumer("a", joined=False).heartbeat(0, ["t"]).answered(UNSUPPORTED_ASSIGNOR)
    return talk, [note("ASSIGNOR_UNKNOWN", wrong)]


@promise
def a_heartbeat_names_no_member() -> Said:
    talk = Conversation()
    a = talk.member("a", joined=False)
    a.join_group(1)
    wrong = replace(a, member_id="").classic_heartbeat(1).answered(UNKNOWN_MEMBER_ID)
    return talk, [note("MEMBER_UNNAMED", wrong)]


@promise
def a_client_commits_offsets_of_a_group_that_has_members() -> Said:
    talk = Conversation()
    a = talk.consumer("a")
    wrong = replace(a, member_id="").commit(-1).committed(UNKNOWN_MEMBER_ID)
    return talk, [note("COMMIT_FROM_OUTSIDE", wrong)]
