"""Speaks lock/protocol.go, with a thread a worker, or holds a lock as claims/roles.go does.

Usage: harness.py DRIVER SECONDS_TO_LIVE [hold SERVERS LOCK]
"""

import importlib
import sys
import threading
import time
from urllib.parse import quote_plus, unquote_plus


class Late(Exception):
    """Not every worker had a turn."""


class Running:
    """lock/load.go in Python."""

    def __init__(self, driver, words):
        self.driver, self.words = driver, words
        self.workers = self.number("workers")
        self.clients, self.threads = [], []
        self.inside = [0] * self.number("locks")
        self.counting = threading.Lock()  # of inside
        self.mutex = threading.Lock()  # of the next two lines
        self.cycles, self.errors, self.longest = 0, 0, 0
        self.each, self.since = [0] * self.workers, [0] * self.workers  # by worker: cycles; when its wait began, or 0
        self.overlaps, self.first, self.stopped = 0, "", False

    def number(self, name):
        return int(self.words.get(name, 0))

    def start(self):
        try:
            for _ in range(self.number("clients")):
                self.clients.append(self.driver.dial(self.words["servers"]))
            names = ["%s-%d" % (self.words["name"], i % len(self.inside)) for i in range(self.workers)]
            lockers = [self.clients[i % len(self.clients)].locker(name) for i, name in enumerate(names)]
        except Exception:
            self.close()
            raise
        for i, locker in enumerate(lockers):
            self.threads.append(threading.Thread(target=self.run, args=(i, locker, i % len(self.inside)), daemon=True))
        for t in self.threads:
            t.start()
        end = time.monotonic() + self.number("limit") / 1e6
        while self.cycles < self.workers:
            if time.monotonic() > end:
                raise Late("%d cycles of %d workers in time%s" % (self.cycles, self.workers, self.first and "; the first error: " + self.first))
            time.sleep(0.001)
        time.sleep(self.number("warm") / 1e6)

    def run(self, i, locker, k):
        hold = self.number("hold") / 1e6
        while not self.stopped:
            self.since[i] = time.monotonic()
            try:
                locker.lock()
                self.waited(i)
                with self.counting:
                    self.inside[k] += 1
                    self.overlaps += self.inside[k] > 1
                if hold > 0:
                    time.sleep(hold)
                with self.counting:
                    self.inside[k] -= 1
                locker.unlock()
            except Exception as e:
                self.waited(i)
                with self.mutex:
                    self.first = self.first or repr(e)
                    self.errors += 1
                time.sleep(0.01)
                continue
            with self.mutex:
                self.cycles += 1
                self.each[i] += 1

    def waited(self, i):
        with self.mutex:
            if self.since[i]:
                self.longest = max(self.longest, time.monotonic() - self.since[i])
            self.since[i] = 0

    def measure(self, seconds):
        with self.mutex:
            self.longest, cycles, errors, begin = 0, self.cycles, self.errors, time.monotonic()
            self.each = [0] * self.workers
        time.sleep(seconds)
        with self.mutex:
            now = time.monotonic()
            longest = max(self.longest, *(now - since for since in self.since if since), 0)
            return "us=%d total=%d cycles=%d errors=%d overlaps=%d longest=%d each=%s first=%s" % (
                (now - begin) * 1e6, self.cycles, self.cycles - cycles, self.errors - errors, self.overlaps,
                longest * 1e6, ",".join(map(str, self.each)), quote_plus(self.first))

    def stop(self):
        self.stopped = True
        for t in self.threads:
            t.join()
        self.close()

    def close(self):
        for c in self.clients:
            c.close()


def hold(client, name):
    print("waiting", flush=True)
    client.locker(name).lock()
    print("granted token=0", flush=True)
    held = client.held()
    while held is not False:
        if held:
            print("write token=0", flush=True)
        time.sleep(0.005)
        held = client.held()
    print("lost", flush=True)


def main(driver):
    running = None
    for line in sys.stdin:
        verb, *rest = line.split()
        words = {k: unquote_plus(v) for k, v in (word.split("=", 1) for word in rest)}
        try:
            if verb == "start":
                running = Running(driver, words)
                running.start()
                answer = "ready"
            elif verb == "measure":
                answer = "measured " + running.measure(int(words["us"]) / 1e6)
            else:
                running.stop()
                answer = "stopped"
        except Late as e:
            answer = "failed " + quote_plus(str(e))
        except Exception as e:
            answer = "failed " + quote_plus(repr(e))
        print(answer, flush=True)


if __name__ == "__main__":
    driver = importlib.import_module(sys.argv[1])
    if len(sys.argv) > 3:
        hold(driver.dial(sys.argv[4]), sys.argv[5])
    else:
        main(driver)
