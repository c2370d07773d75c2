"""Checks key_names.py with the vectors of ../keys.tsv."""
import key_names


def text(key):
    """The text whose UTF-8 is given in hexadecimal; "-" is the empty text."""
    return bytes.fromhex(key.strip("-")).decode("utf-8")


def check(name):
    """Checks each line of the file, and returns the number of vectors."""
    n = 0
    with open(name, encoding="utf-8") as lines:
        for line in lines:
            if line.startswith("#"):
                continue
            key, want, one, two, _ = line.rstrip("\n").split("\t")
            n += 1
            try:
                got = [key_names.key_path("/f", text(key), fanout) for fanout in (0, 16, 256)]
            except ValueError:
                got = []
            if got != (["/f/" + want, "/f/%s/%s" % (one, want), "/f/%s/%s" % (two, want)] if want else []):
                raise ValueError("%s: %s" % (line, got))
    return n
