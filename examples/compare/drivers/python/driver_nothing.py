"""Grants everything at once."""


class Nothing:
    def locker(self, kind, names, permits):
        return self

    def lock(self):
        pass

    unlock = close = lock


def dial(servers):
    return Nothing()
