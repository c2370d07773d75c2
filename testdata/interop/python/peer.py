"""A process with many Python clients of locks on one ZooKeeper session. It reads commands line by line, in the language of
../README.md. It runs kazoo's recipes as Debian ships them, and the subclasses of curator_locks.py and keyed.py.
"""
import os
import queue
import sys
import threading
import traceback

from kazoo.client import KazooClient
from kazoo.exceptions import LockTimeout
from kazoo.recipe.election import Election
from kazoo.recipe.lock import Lock, ReadLock, Semaphore, WriteLock

import curator_locks
import keyed
import keys
import soak

LOCKS = {
    "lock": Lock,
    "read": ReadLock,
    "write": WriteLock,
    # Uses kazoo's own names and respects Curator's: for a queue without programs of Curator.
    "patterned": lambda *args: Lock(*args, extra_lock_patterns=["lock-"]),
    "curator-lock": curator_locks.CuratorLock,
    "curator-read": curator_locks.CuratorReadLock,
    "curator-write": curator_locks.CuratorWriteLock,
}
KEYED = {"keyed": keyed.KeyedLock, "keyed-read": keyed.KeyedReadLock, "keyed-write": keyed.KeyedWriteLock}
ELECTIONS = {"election": Election, "curator-election": curator_locks.CuratorElection}


def say(line):
    """Writes each line in one write: a killed process must not leave half an acknowledgement."""
    os.write(1, (line + "\n").encode("utf-8"))


class Locked:
    """A kazoo lock as a handle."""

    def __init__(self, lock):
        self.lock = lock

    def acquire(self, seconds):
        if seconds == 0:
            got = self.lock.acquire(blocking=False)
        else:
            try:
                got = self.lock.acquire(timeout=seconds)
            except LockTimeout:
                got = False
        return self.lock.path + "/" + self.lock.node if got else None

    def release(self):
        if not self.lock.release():
            raise RuntimeError("kazoo says there was nothing to release")

    def participants(self):
        return self.lock.contenders()

    def cancel(self):
        return self.lock.cancel()


class Permitted:
    """A kazoo semaphore as a handle: it takes one permit at a time. Option: how many there are."""

    def __init__(self, semaphore):
        self.semaphore = semaphore

    def acquire(self, seconds):
        try:
            got = self.semaphore.acquire(blocking=seconds != 0, timeout=seconds or None)
        except LockTimeout:
            got = False
        return self.semaphore.create_path if got else None

    def release(self):
        if not self.semaphore.release():
            raise RuntimeError("kazoo says there was nothing to release")

    def participants(self):
        return self.semaphore.lease_holders()

    def cancel(self):
        return self.semaphore.cancel()


class Elected:
    """A kazoo election as a handle: run() holds the leadership for as long as its function runs."""

    def __init__(self, election):
        self.election = election

    def acquire(self, seconds):
        if seconds is not None:
            raise ValueError("kazoo elections wait for ever")
        self.leading, self.resign = threading.Event(), threading.Event()
        self.thread = threading.Thread(target=self.election.run, args=(self._lead,), daemon=True)
        self.thread.start()
        self.leading.wait()
        return self.election.lock.path + "/" + self.election.lock.node

    def _lead(self):
        self.leading.set()
        self.resign.wait()

    def release(self):
        self.resign.set()
        self.thread.join()

    def participants(self):
        return self.election.contenders()

    def cancel(self):
        return self.election.lock.cancel()


class Handle:
    """One way to use one lock, with a thread of its own for calls that may wait."""

    def __init__(self, entry):
        self.entry = entry
        self.work = queue.Queue()
        threading.Thread(target=self._loop, daemon=True).start()

    def _loop(self):
        while True:
            self.work.get()()

    def acquire(self, options):
        seconds = None
        for option in options:
            name, value = option.split("=")
            if name != "timeout":
                raise ValueError(option)
            seconds = int(value) / 1000
        node = self.entry.acquire(seconds)
        return "ok " + node if node else "held"

    def release(self):
        self.entry.release()
        return "ok"


class Peer:
    def __init__(self, connect, session_millis, ident):
        self.ident = ident
        self.handles = {}
        self.client = KazooClient(hosts=connect, timeout=session_millis / 1000)
        self.client.start(timeout=300)

    def obey(self, number, verb, args):
        """Runs commands that may wait in the handle's thread, the others at once."""
        if verb == "hello":
            reply(number, lambda: "ok %x" % self.client.client_id[0])
        elif verb == "auth":
            reply(number, lambda: "ok %s" % self.client.add_auth(*args))
        elif verb == "others":
            reply(number, lambda: self.others(*args))
        elif verb == "names":
            reply(number, lambda: "ok %d" % keys.check(*args))
        elif verb == "open":
            reply(number, lambda: self.open(*args))
        elif not args or args[0] not in self.handles:
            say("%s err no command or no handle: %s %s" % (number, verb, " ".join(args)))
        else:
            self.use(number, verb, self.handles[args[0]], args[1:])

    def open(self, name, recipe, path, *options):
        if recipe in LOCKS:
            entry = Locked(LOCKS[recipe](self.client, path, self.ident))
        elif recipe in KEYED:
            key, fanout = options
            entry = Locked(KEYED[recipe](self.client, path, keys.text(key), self.ident, int(fanout)))
        elif recipe == "semaphore":
            entry = Permitted(Semaphore(self.client, path, self.ident, max_leases=int(options[0])))
        else:
            entry = Elected(ELECTIONS[recipe](self.client, path, self.ident))
        self.handles[name] = Handle(entry)
        return "ok"

    def others(self, path):
        """Creates below one path what kazoo programs keep besides locks."""
        client = self.client
        client.Queue(path + "/queue").put(b"one")
        client.LockingQueue(path + "/locking").put(b"one")
        client.Party(path + "/party", "one").join()
        client.ShallowParty(path + "/shallow", "one").join()
        client.Barrier(path + "/barrier").create()
        counter = client.Counter(path + "/counter", default=0)
        counter += 5
        threading.Thread(target=client.DoubleBarrier(path + "/double", 2).enter, daemon=True).start()
        return "ok"

    def use(self, number, verb, handle, args):
        if verb == "participants":
            reply(number, lambda: " ".join(["ok"] + handle.entry.participants()))
        elif verb == "cancel":
            reply(number, lambda: "ok %s" % handle.entry.cancel())
        elif verb == "acquire":
            handle.work.put(lambda: reply(number, lambda: handle.acquire(args)))
        elif verb == "release":
            handle.work.put(lambda: reply(number, handle.release))
        elif verb == "soak":
            handle.work.put(lambda: reply(number, lambda: soak.run(self, handle.entry, say, *args)))
        else:
            say("%s err unknown command %s" % (number, verb))


def reply(number, action):
    try:
        answer = action()
    except BaseException as e:  # the driver must get an answer, or it waits on
        traceback.print_exc()
        answer = "err %s: %s" % (type(e).__name__, str(e).replace("\n", " "))
    say("%s %s" % (number, answer))


def main():
    peer = Peer(sys.argv[1], int(sys.argv[2]), sys.argv[3])
    for line in sys.stdin:
        number, verb, *args = line.split()
        peer.obey(number, verb, args)
    # The end of the input ends the process and its session: without its driver it has no work.
    peer.client.stop()


if __name__ == "__main__":
    main()
