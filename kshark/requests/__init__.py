"""Turn rows of a broker's request log into the time line that packets would give: connections and frames."""

from kshark.requests.stage import LoggedRequests

__all__ = ["LoggedRequests"]
