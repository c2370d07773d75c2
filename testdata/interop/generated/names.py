"""Takes each lock that the generated module locks has, and says "got" or "held" and its name. Arguments: server, root, keys."""
import inspect
import sys

from kazoo.client import KazooClient

import locks


def take(lock):
    lock = getattr(lock, "lock", lock)  # of an Election
    held = lock.acquire(blocking=False)
    if held:
        lock.release()
    return held


client = KazooClient(sys.argv[1])
client.start()
names = locks.Locks(client, sys.argv[2])
for name, method in sorted(inspect.getmembers(names, inspect.ismethod)):
    if name.startswith("_") or name.endswith("_path"):
        continue
    params = [p for p in inspect.signature(method).parameters if p != "identifier"]
    for key in sys.argv[3].split(",") if params else [""]:
        print("got" if take(method(*[key] * len(params), identifier="python")) else "held", (name + " " + key).strip())
try:
    names.shop_named_mutex("unheard of")
    print("got an unknown name")
except ValueError as e:
    print("refused", e)
client.stop()
