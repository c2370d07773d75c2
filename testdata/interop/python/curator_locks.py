"""kazoo's locks under Apache Curator's names: what a Python team copies to share a lock with Java and Go programs.

kazoo looks for contenders by the text right before the number; these classes change that text, and nothing else. The
first two lines of each are the whole of it.
"""
from kazoo.recipe.election import Election
from kazoo.recipe.lock import Lock, ReadLock, WriteLock


class CuratorLock(Lock):
    _NODE_NAME = "-lock-"
    _EXCLUDE_NAMES = ["lock-"]


class CuratorWriteLock(WriteLock):
    _NODE_NAME = "__WRIT__"
    _EXCLUDE_NAMES = ["__WRIT__", "__READ__"]


class CuratorReadLock(ReadLock):
    _NODE_NAME = "__READ__"
    _EXCLUDE_NAMES = ["__WRIT__"]


class CuratorLatch(Lock):
    _NODE_NAME = "-latch-"
    _EXCLUDE_NAMES = ["latch-"]


class CuratorElection(Election):
    """A candidate among Curator's LeaderLatches; the identifier is what their getParticipants shows."""

    def __init__(self, client, path, identifier=None):
        self.lock = CuratorLatch(client, path, identifier)
