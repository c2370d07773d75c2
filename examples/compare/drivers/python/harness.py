"""Speaks the line protocol of lock/lock.go, with one thread per worker, or holds a lock as claims/holders.go does.

Usage: harness.py DRIVER SECONDS_TO_LIVE [hold SERVERS LOCK]
"""

import importlib
import json
import sys
import threading
import time


class Late(Exception):
    """The workers have made too few cycles in time."""


class Running:
    """A running load as in lock/lock.go."""

    def __init__(self, driver, words):
        self.driver, self.servers, self.name = driver, words[0], words[1]
        self.sessions, self.workers, locks, self.hold, self.warm, self.limit = map(int, words[2:])
        self.clients, self.threads = [], []
        self.inside = [0] * locks
        self.counting = threading.Lock()  # guards inside and overlaps
        self.mutex = threading.Lock()  # guards the next two lines
        self.cycles, self.errors, self.longest = 0, 0, 0
        self.each, self.since = [0] * self.workers, [0] * self.workers  # by worker: cycles; when its wait began, or 0
        self.overlaps, self.first, self.stopped = 0, "", False

    def start(self):
        try:
            for _ in range(self.sessions):
                self.clients.append(self.driver.dial(self.servers))
            names = ["%s-%d" % (self.name, i % len(self.inside)) for i in range(self.workers)]
            lockers = [self.clients[i % len(self.clients)].locker(name) for i, name in enumerate(names)]
        except Exception:
            self.close()
            raise
        for i, locker in enumerate(lockers):
            self.threads.append(threading.Thread(target=self.run, args=(i, locker, i % len(self.inside)), daemon=True))
        for t in self.threads:
            t.start()
        end = time.monotonic() + self.limit / 1e9
        while self.cycles < self.workers:
            if time.monotonic() > end:
                raise Late("%d cycles of %d workers in time; the first error: %s" % (self.cycles, self.workers, self.first))
            time.sleep(0.001)
        time.sleep(self.warm / 1e9)

    def run(self, i, locker, k):
        while not self.stopped:
            self.since[i] = time.monotonic()
            try:
                locker.lock()
                self.waited(i)
                with self.counting:
                    self.inside[k] += 1
                    self.overlaps += self.inside[k] > 1
                if self.hold > 0:
                    time.sleep(self.hold / 1e9)
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
            return json.dumps({
                "Window": int((now - begin) * 1e9), "Total": self.cycles, "Cycles": self.cycles - cycles, "Errors": self.errors - errors,
                "Overlaps": self.overlaps, "Longest": int(longest * 1e9), "Each": self.each, "First": self.first})

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
        verb, *words = line.split()
        try:
            if verb == "start":
                running = Running(driver, words)
                running.start()
                answer = "ready"
            elif verb == "measure":
                answer = "measured " + running.measure(int(words[0]) / 1e9)
            else:
                running.stop()
                answer = "stopped"
        except Late as e:
            answer = "failed " + str(e)
        except Exception as e:
            answer = "failed " + repr(e)
        print(answer, flush=True)


if __name__ == "__main__":
    driver = importlib.import_module(sys.argv[1])
    if len(sys.argv) > 3:
        hold(driver.dial(sys.argv[4]), sys.argv[5])
    else:
        main(driver)
