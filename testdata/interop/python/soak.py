"""The soak of ../README.md in Python; Soak.java does the same in Java."""
import threading

from kazoo.exceptions import BadVersionError


def run(peer, entry, say, owner, counter, grants, stop="stop=0"):
    """Takes the lock grants times, and each time adds one to the counter, by a read and an unversioned write. Only the
    lock makes them one step. The owner node is empty while the lock is free. With stop=N it halts for ever in grant N,
    after the write and before the acknowledgement: the worst moment for a kill."""
    stop = int(stop.split("=")[1])
    for i in range(1, int(grants) + 1):
        node = entry.acquire(None)
        hold(peer, say, node, owner, counter, i == stop)
        entry.release()
    return "ok"


def hold(peer, say, node, owner, counter, stop_here):
    zk = peer.client
    contender = zk.exists(node)
    if contender is None:
        raise RuntimeError("granted without a contender: " + node)
    before = zk.get(owner)[0].decode("utf-8")
    heir = inherit(zk, before) if before else "-"
    mine = zk.set(owner, ("%s %s" % (peer.ident, node)).encode("utf-8"))

    value = int(zk.get(counter)[0]) + 1
    zk.set(counter, b"%d" % value)
    if stop_here:
        say("- stopped %d" % value)
        threading.Event().wait()
    say("- grant %d %d %s %s" % (value, contender.czxid, node, heir))
    try:
        zk.set(owner, b"", version=mine.version)
    except BadVersionError:
        raise RuntimeError("overlap: %s entered while %s held" % (zk.get(owner)[0].decode("utf-8"), node))


def inherit(zk, before):
    """A name in the owner node is that of a holder that died. If its contender still exists, two hold the lock."""
    ident, node = before.split(" ")
    if zk.exists(node) is not None:
        raise RuntimeError("overlap: %s still holds" % before)
    return ident
