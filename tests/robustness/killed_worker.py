"""A cluster one of whose workers dies by SIGKILL while it is at work."""

from __future__ import annotations

import os
import signal
import threading
import time
from contextlib import contextmanager


def slowly(block, *, seconds=0.1):
    """A partition that takes its time."""
    time.sleep(seconds)
    return block


@contextmanager
def two_workers():
    """A client of two worker processes of one thread each; one that dies is started again."""
    from distributed import Client, LocalCluster

    options = {"dashboard_address": ":0", "silence_logs": 50, "memory_limit": 0}
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, **options) as cluster,
        Client(cluster) as client,
    ):
        yield client


@contextmanager
def one_is_killed(client):
    """Kill a worker by SIGKILL when it has finished a task and is at another; fails when that never came about."""
    pids = client.run(os.getpid)
    states = client.cluster.scheduler.workers
    ended, killed = threading.Event(), []

    def kill_one_at_work():
        while not ended.is_set() and not killed:
            for address, pid in pids.items():
                state = states.get(address)
                if state is not None and state.processing and state.has_what:
                    os.kill(pid, signal.SIGKILL)
                    killed.append(address)
                    break
            time.sleep(0.005)

    thread = threading.Thread(target=kill_one_at_work)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
    assert killed, "no worker was at work: make partitions slower"
    assert killed[0] not in client.cluster.scheduler.workers, "the worker was not lost while the work went on"
