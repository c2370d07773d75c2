"""Takes each lock that the generated module locks has, and says "got" or "held" and its name, and then how many of the vectors of
../keys.tsv it agrees with. Arguments: vectors, server, root, keys.
"""
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


client = KazooClient(sys.argv[2])
client.start()
names = locks.Locks(client, sys.argv[3])
for name, method in sorted(inspect.getmembers(names, inspect.ismethod)):
    if name.startswith("_") or name.endswith(("_path", "_path_of")):
        continue
    params = [p for p in inspect.signature(method).parameters if p != "identifier"]
    for key in sys.argv[4].split(",") if params else [""]:
        print("got" if take(method(*[key] * len(params), identifier="python")) else "held", (name + " " + key).strip())
try:
    names.shop_named_mutex("unheard of")
    print("got an unknown name")
except ValueError as e:
    print("refused", e)
client.stop()

same = 0
with open(sys.argv[1], encoding="utf-8") as lines:
    for line in lines:
        if line.startswith("#"):
            continue
        key, name, one, two, _ = line.rstrip("\n").split("\t")
        key = bytes.fromhex(key.strip("-")).decode("utf-8")
        want = [names.shop_order_keyed_path() + "/" + name, names.shop_wide_keyed_path("a") + "/%s/%s" % (one, name),
                names.shop_wider_keyed_path() + "/%s/%s" % (two, name)] if name else []
        try:
            got = [names.shop_order_keyed_path_of(key), names.shop_wide_keyed_path_of("a", key), names.shop_wider_keyed_path_of(key)]
        except ValueError:
            got = []
        if got != want:
            raise ValueError("%s: %s" % (line, got))
        same += 1
print("keys", same)
