"""A lock, an election, a watch and a transaction with kazoo. Usage: contend.py host:port"""

import sys
import threading

from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

WAIT = 300  # seconds; only a limit, which no check relies on


def client(address):
    zk = KazooClient(hosts=address, timeout=40)
    zk.start(timeout=WAIT)
    return zk


def check(condition, what):
    if not condition:
        sys.exit("failed: " + what)


def lock(a, b):
    inside = []
    first, second = a.Lock("/locks/l", "a"), b.Lock("/locks/l", "b")
    check(first.acquire(timeout=WAIT), "first lock")
    check(not second.acquire(blocking=False), "second lock while held")
    waiting = threading.Event()
    got = threading.Event()

    def contend():
        waiting.set()
        with second:
            inside.append("b")
            got.set()

    t = threading.Thread(target=contend)
    t.start()
    waiting.wait(WAIT)
    while len(a.get_children("/locks/l")) < 2:
        pass
    check(first.contenders() == ["a", "b"], "contenders %r" % first.contenders())
    check(not got.is_set(), "exclusion")
    inside.append("a")
    first.release()
    t.join(WAIT)
    check(inside == ["a", "b"], "order %r" % inside)


def election(a, b):
    leaders = []
    stop = threading.Event()
    first, second = threading.Event(), threading.Event()

    def lead(name, event, wait):
        def func():
            leaders.append(name)
            event.set()
            wait.wait(WAIT)
        return func

    done = threading.Event()
    done.set()
    ta = threading.Thread(target=a.Election("/election", "a").run, args=(lead("a", first, stop),))
    ta.start()
    check(first.wait(WAIT), "first leader")
    tb = threading.Thread(target=b.Election("/election", "b").run, args=(lead("b", second, done),))
    tb.start()
    while len(a.get_children("/election")) < 2:
        pass
    check(leaders == ["a"], "one leader")
    stop.set()
    check(second.wait(WAIT), "second leader")
    ta.join(WAIT)
    tb.join(WAIT)


def watch(a, b):
    seen = []
    event = threading.Condition()

    @a.DataWatch("/watched")
    def data(value, stat):
        with event:
            seen.append(value)
            event.notify()

    def wait_for(value):
        with event:
            check(event.wait_for(lambda: seen and seen[-1] == value, WAIT), "watch %r in %r" % (value, seen))

    wait_for(None)
    b.create("/watched", b"one")
    wait_for(b"one")
    b.set("/watched", b"two")
    wait_for(b"two")
    b.delete("/watched")
    wait_for(None)


def transaction(a):
    t = a.transaction()
    t.create("/t", b"x")
    t.check("/t", 0)
    t.set_data("/t", b"y")
    check([type(r).__name__ for r in t.commit()] == ["str", "bool", "ZnodeStat"], "transaction")
    t = a.transaction()
    t.set_data("/t", b"z")
    t.delete("/nosuch")
    check(isinstance(t.commit()[1], NoNodeError), "failed transaction")
    check(a.get("/t")[0] == b"y", "rollback")


def main(address):
    a, b = client(address), client(address)
    for step, args in ((lock, (a, b)), (election, (a, b)), (watch, (a, b)), (transaction, (a,))):
        step(*args)
        print("ok", step.__name__)
    for zk in (a, b):
        zk.stop()
        zk.close()


main(sys.argv[1])
