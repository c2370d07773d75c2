"""kazoo's locks with Apache Curator's names. A Python team copies this file to share a lock with Java and Go programs.

kazoo recognises contenders by the text right before the number. These classes change that text, in their first two lines. Only
CuratorReadLock changes more.
"""
from kazoo.retry import ForceRetryError
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

    def _get_predecessor(self, node):
        """Needed by kazoo 2.8 and older, and harmless later. In those versions a reader also waits for writers behind it,
        which wait for the reader (python-zk/kazoo#649)."""
        children = self.client.get_children(self.path)
        if node not in children:
            raise ForceRetryError()
        writers = [m for m in map(self._contenders_re.search, children) if m and m.group(1) < node[-10:]]
        return max(writers, key=lambda m: m.group(1)).string if writers else None


class CuratorLatch(Lock):
    _NODE_NAME = "-latch-"
    _EXCLUDE_NAMES = ["latch-"]


class CuratorElection(Election):
    """A candidate among Curator's LeaderLatches; their getParticipants shows the identifier."""

    def __init__(self, client, path, identifier=None):
        self.lock = CuratorLatch(client, path, identifier)
