"""Speaks lock/protocol.go, with a thread a worker, or holds a lock as claims/roles.go does.

Usage: harness.py DRIVER SECONDS_TO_LIVE [hold SERVERS LOCK]
"""

import importlib
import sys
import threading
import time
from urllib.parse import quote_plus, unquote_plus


class Absent(Exception):
    """There is no such lock."""


class Late(Exception):
    """Not every worker had a turn."""


class Running:
    """lock/load.go in Python."""

    def __init__(self, driver, words):
        self.driver, self.words = driver, words
        self.workers, self.rate, self.reads = self.number("workers"), self.number("rate"), self.number("reads")
        self.clients, self.threads = [], []
        self.inside = [0] * self.number("locks")
        self.counting = threading.Lock()  # of inside
        self.mutex = threading.Lock()  # of the next two lines
        self.cycles, self.errors, self.waits = 0, 0, {}
        self.each, self.since = [0] * self.workers, [0] * self.workers  # by worker: cycles; when its wait began, or 0
        self.overlaps, self.first, self.stopped = 0, "", False

    def number(self, name):
        return int(self.words.get(name, 0))

    def start(self):
        try:
            for _ in range(self.number("clients")):
                self.clients.append(self.driver.dial(self.words["servers"]))
            turns = [[self.turns(i, n) for n in range(max(1, self.number("stream")))] for i in range(self.workers)]
        except Exception:
            self.close()
            raise
        begin = time.monotonic()
        for i, stations in enumerate(turns):
            self.threads.append(threading.Thread(target=self.run, args=(i, stations, begin), daemon=True))
        for t in self.threads:
            t.start()
        end = time.monotonic() + self.number("limit") / 1e6
        while self.cycles < self.workers:
            if time.monotonic() > end:
                raise Late("%d cycles of %d workers in time%s" % (self.cycles, self.workers, self.first and "; the first error: " + self.first))
            time.sleep(0.001)
        time.sleep(self.number("warm") / 1e6)

    def turns(self, i, n):
        """The nth locks of worker i, and for each way to take them: locker, weight, limit. Of a read-write lock the writer's first."""
        locks = sorted((i + n * self.workers + k) % len(self.inside) for k in range(max(1, self.number("set"))))
        names = ["%s-%d" % (self.words["name"], k) for k in locks]
        client, kind, permits = self.clients[i % len(self.clients)], self.words["kind"], self.number("permits")
        kinds = {"rw": [("write", self.workers, self.workers), ("read", 1, self.workers)], "semaphore": [(kind, 1, permits)]}
        return locks, [(client.locker(k, names, permits), weight, limit) for k, weight, limit in kinds.get(kind, [(kind, 1, 1)])]

    def run(self, i, stations, begin):
        hold = self.number("hold") / 1e6
        n = -1
        while not self.stopped:
            n += 1
            locks, ways = stations[n % len(stations)]
            intended = time.monotonic()
            if self.rate > 0:
                intended = begin + (n * self.workers + i) / self.rate
                time.sleep(max(0, intended - time.monotonic()))
            locker, weight, limit = ways[1 if len(ways) > 1 and (n + i) % self.reads else 0]
            self.since[i] = intended
            try:
                locker.lock()
                self.since[i] = 0
                wait = int((time.monotonic() - intended) * 1e6)
                with self.counting:
                    for k in locks:
                        self.inside[k] += weight
                        self.overlaps += self.inside[k] > limit
                if hold > 0:
                    time.sleep(hold)
                with self.counting:
                    for k in locks:
                        self.inside[k] -= weight
                locker.unlock()
            except Exception as e:
                self.since[i] = 0
                with self.mutex:
                    self.first = self.first or repr(e)
                    self.errors += 1
                time.sleep(0.01)
                continue
            shift = max(0, wait.bit_length() - 11)  # three digits, as the histogram that reads it has
            wait = wait >> shift << shift
            with self.mutex:
                self.waits[wait] = self.waits.get(wait, 0) + 1
                self.cycles += 1
                self.each[i] += 1

    def measure(self, seconds):
        with self.mutex:
            self.waits, cycles, errors, begin = {}, self.cycles, self.errors, time.monotonic()
            self.each = [0] * self.workers
        time.sleep(seconds)
        with self.mutex:
            longest = max([*self.waits, 0, *((time.monotonic() - since) * 1e6 for since in self.since if since)])
            return "us=%d total=%d cycles=%d errors=%d overlaps=%d longest=%d each=%s first=%s waits=%s" % (
                (time.monotonic() - begin) * 1e6, self.cycles, self.cycles - cycles, self.errors - errors, self.overlaps,
                longest, ",".join(map(str, self.each)), quote_plus(self.first), ",".join("%d:%d" % bucket for bucket in sorted(self.waits.items())))

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
    client.locker("mutex", [name], 0).lock()
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
        except Absent as e:
            answer = "absent " + quote_plus(str(e))
        except Late as e:
            answer = "failed " + quote_plus(str(e))
        except Exception as e:
            answer = "failed " + quote_plus(repr(e))
        print(answer, flush=True)


if __name__ == "__main__":
    sys.modules["harness"] = sys.modules["__main__"]  # so that a driver's Absent is this one
    driver = importlib.import_module(sys.argv[1])
    if len(sys.argv) > 3:
        hold(driver.dial(sys.argv[4]), sys.argv[5])
    else:
        main(driver)
