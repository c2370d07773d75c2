"""kazoo's lock. Its objects serve one thread at a time, so every worker has its own."""

import sys

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
        """True while the session is connected, False once it was lost, None while that is unknown."""
        return False if self.lost else self.zk.connected or None

    def locker(self, name):
        return Locker(self.zk.Lock("/kazoo/" + name))

    def close(self):
        self.zk.stop()
        self.zk.close()


class Locker:
    def __init__(self, recipe):
        self.lock, self.unlock = recipe.acquire, recipe.release
