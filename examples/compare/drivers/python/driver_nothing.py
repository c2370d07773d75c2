"""Grants everything at once."""


class Nothing:
    def locker(self, name):
        return self

    def lock(self):
        pass

    unlock = close = lock


def dial(servers):
    return Nothing()
