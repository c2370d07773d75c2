"""kazoo's recipes. Its lock objects serve one thread at a time, so every worker has its own."""

import sys

import kazoo
from harness import Absent
from kazoo.client import KazooClient, KazooState


def dial(servers):
    zk = KazooClient(hosts=servers, timeout=float(sys.argv[2]))
    zk.start(timeout=60)
    return Client(zk)


class Client:
    def __init__(self, zk):
        self.zk, self.lost = zk, False
        zk.add_listener(self.changed)

    def changed(self, state):
        self.lost = self.lost or state == KazooState.LOST

    def held(self):
        """Whether nothing says otherwise; None where nobody knows."""
        return False if self.lost else self.zk.connected or None

    def locker(self, kind, names, permits):
        path = "/kazoo/" + names[0]
        if kind in ("read", "write") and tuple(map(int, kazoo.__version__.split(".")[:2])) < (2, 9):
            raise Absent("in kazoo %s a reader and a younger writer wait for each other, for ever (python-zk/kazoo#649)" % kazoo.__version__)
        if kind == "mutex":
            return Locker(self.zk.Lock(path))
        if kind == "read":
            return Locker(self.zk.ReadLock(path))
        if kind == "write":
            return Locker(self.zk.WriteLock(path))
        if kind == "semaphore":
            return Locker(self.zk.Semaphore(path, max_leases=permits))
        raise Absent("kazoo has no lock of several locks")

    def close(self):
        self.zk.stop()
        self.zk.close()


class Locker:
    def __init__(self, recipe):
        self.lock, self.unlock = recipe.acquire, recipe.release
