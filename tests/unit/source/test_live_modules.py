"""Looking through all objects of the process does no harm to what other threads are making."""

import gc
import threading

import pytest
import torch

from unclobber.source import owners


def test_other_threads_may_build_tuples():
    """``tuple(generator)`` in another thread never meets its own tuple in our hands."""
    ballast = [[i] for i in range(50_000)]  # a long list of objects gives the other thread its turn
    done, errors = threading.Event(), []

    def build():
        while not done.is_set():
            try:
                tuple(i for i in range(200))
            except SystemError as error:
                errors.append(error)

    thread = threading.Thread(target=build)
    thread.start()
    try:
        for _ in range(10):
            owners._live_modules()
    finally:
        done.set()
        thread.join(30)
    assert errors == []
    assert ballast


@pytest.mark.parametrize("collecting", [True, False])
def test_finds_modules_old_and_new(collecting):
    """Modules of every generation of the collector, of any class below; collecting goes on as it did."""

    class Own(torch.nn.Linear):
        pass

    old = Own(1, 1)
    gc.collect()
    new = torch.nn.Sequential(torch.nn.ReLU())
    was = gc.isenabled()
    (gc.enable if collecting else gc.disable)()
    try:
        found = owners._live_modules()
        assert gc.isenabled() is collecting
    finally:
        (gc.enable if was else gc.disable)()
    assert {id(old), id(new), id(new[0])} <= found.keys()
    assert all(isinstance(module, torch.nn.Module) for module in found.values())
