"""kazoo's locks for the keys of a locktree family of mutexes or read-write locks (docs/keyed.md), declared with foreign = true.

The first contender creates the key's node, a container, in the transaction that creates the contender. The last contender deletes the
key's node, even if another program created it. A Python team copies this file beside curator_locks.py and key_names.py. As with any
lock, kazoo's programs do not read declarations, so they do not notice when a family is drained.
"""
from kazoo.exceptions import EXCEPTIONS, NodeExistsError, NoNodeError, NotEmptyError
from kazoo.protocol.serialization import Create, MultiHeader, Transaction, int_struct, read_string, stat_struct

from curator_locks import CuratorLock, CuratorReadLock, CuratorWriteLock
from key_names import key_path


class _Container(Create):
    """Creates a container; kazoo has no such operation."""
    type = 19


class _Transaction(Transaction):
    """A transaction that can also create containers; their results have a stat."""

    @classmethod
    def deserialize(cls, data, offset):
        results = []
        while True:
            header, offset = MultiHeader.deserialize(data, offset)
            if header.done:
                return results
            if header.type == -1:
                results.append(EXCEPTIONS[int_struct.unpack_from(data, offset)[0]]())
                offset += int_struct.size
                continue
            path, offset = read_string(data, offset)
            results.append(path)
            if header.type != Create.type:
                offset += stat_struct.size


class _Client:
    """A client that creates a contender together with the key's node."""

    def __init__(self, client, node):
        self._client, self._node = client, node

    def __getattr__(self, name):
        return getattr(self._client, name)

    def create(self, path, value=b"", ephemeral=True, sequence=True):
        while True:
            own = self._client.transaction()
            own.create(path, value, ephemeral=ephemeral, sequence=sequence)
            contender = own.operations[0]
            results = self.together([_Container(contender.path.rpartition("/")[0], b"", contender.acl, 4), contender])
            if not any(isinstance(r, Exception) for r in results):
                return self._client.unchroot(results[1])
            if not isinstance(results[0], NodeExistsError):
                raise results[0]
            try:
                return self._client.create(path, value, ephemeral=ephemeral, sequence=sequence)
            except NoNodeError:
                pass  # the last contender has left; the loop ends, because each retry means that another one came and went

    def together(self, operations):
        """Commits the operations as a kazoo transaction does."""
        result = self._client.handler.async_result()
        self._client._call(_Transaction(operations), result)
        return result.get()


class _Keyed:
    """The differences of a lock whose node is a key's node."""

    def __init__(self, client, family, key, identifier=None, fanout=0):
        path = key_path(family, key, fanout)
        super().__init__(_Client(client, path), path, identifier)

    def _ensure_path(self):
        self.assured_path = True  # create makes the path together with the contender

    def _find_node(self):
        try:
            return super()._find_node()
        except NoNodeError:
            return None  # without the node there is no contender

    def _delete_node(self, node):
        transaction = self.client.transaction()
        transaction.delete(self.path + "/" + node)
        transaction.delete(self.path)
        if not any(isinstance(r, Exception) for r in transaction.commit()):
            return
        try:  # mostly, another contender has queued
            super()._delete_node(node)
        finally:
            try:
                self.client.delete(self.path)
            except (NotEmptyError, NoNodeError):
                pass  # another contender is the last


class KeyedLock(_Keyed, CuratorLock):
    """The lock of a key in a family of mutexes."""


class KeyedReadLock(_Keyed, CuratorReadLock):
    """The read lock of a key in a family of read-write locks."""


class KeyedWriteLock(_Keyed, CuratorWriteLock):
    """The write lock of a key in a family of read-write locks."""
