"""A pytest plugin that runs kazoo's own tests on a server that already runs."""
import faulthandler
import gc
import os
import signal
import sys
import types
import unittest.mock

import pytest

# The tests import two packages; the standard library has what they use of them.
sys.modules["mock"] = unittest.mock
sys.modules["objgraph"] = types.SimpleNamespace(
    count=lambda name: sum(type(o).__name__ == name for o in gc.get_objects()))

from kazoo.testing import harness  # noqa: E402


class Server(object):
    running = True
    address = os.environ["PEER_ADDRESS"]

    def stop(self):
        pytest.skip("takes a restart")

    run = stop


class Cluster(list):
    def start(self):
        pass

    def terminate(self):
        pass


harness.get_global_cluster = lambda cluster=Cluster([Server()]): cluster

LIMIT = 30  # seconds; the longest of the tests takes 17


def hung(signum, frame):
    faulthandler.dump_traceback()
    pytest.fail("hung for %d s" % LIMIT)


signal.signal(signal.SIGALRM, hung)


@pytest.hookimpl(hookwrapper=True)
def limited():
    # The alarm repeats every 5 s, because a test that hangs often hangs at its end, too.
    signal.setitimer(signal.ITIMER_REAL, LIMIT, 5)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)


pytest_runtest_setup = pytest_runtest_call = pytest_runtest_teardown = limited


def pytest_runtest_logreport(report):
    if report.when == "call" or report.outcome != "passed":
        print("\nRESULT %s %s" % (report.outcome, report.nodeid), "%.1f s" % report.duration, flush=True)
        if report.outcome == "failed":
            print(report.longreprtext)


def pytest_unconfigure():
    # A client that a test did not close has a thread that would keep the process alive.
    sys.stdout.flush()
    os._exit(0)
