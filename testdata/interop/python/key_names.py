"""Finds the node of a key (docs/keyed.md). A Python team copies this file."""
import re
import zlib

MAX_KEY = 512

# Matches each name that looks like a contender of a known library.
_CONTENDER = re.compile(
    r"(?:.*(?:lock-|latch-|lease-|__lock__|__rlock__|__READ__|__WRIT__)|x-[-0-9a-f][0-9a-f]*-)([0-9]{10}|-[0-9]{9,10})", re.DOTALL)


def key_name(key):
    """The name of the node of a key."""
    if not key:
        return "%"
    number, taken = _CONTENDER.fullmatch(key), None
    if number and -2**31 <= int(number.group(1)) < 2**31:
        taken = len(key) - 1
    elif key in (".", "..", "locks", "leases"):
        taken = 0
    name = ""
    for i, c in enumerate(key):
        if i == taken or c in "%/" or _refused(ord(c)):
            c = "".join("%%%02X" % b for b in c.encode("utf-8"))
        name += c
    return name


def _refused(c):
    """The characters that ZooKeeper refuses, and all beyond the basic plane."""
    return c < 0x20 or 0x7F <= c < 0xA0 or 0xD800 <= c <= 0xF8FF or c >= 0xFFF0


def key_path(family, key, fanout=0):
    """The path of the node of a key; fanout is as the family declares it: 0, 16 or 256."""
    utf8 = key.encode("utf-8")
    if len(utf8) > MAX_KEY:
        raise ValueError("the key is %d bytes long: at most %d are allowed" % (len(utf8), MAX_KEY))
    if fanout:
        family += ("/%x" if fanout == 16 else "/%02x") % (zlib.crc32(utf8) % fanout)
    return family + "/" + key_name(key)
