"""Cases run as processes, the next one while the present one is judged."""

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest
from running import Run


@pytest.fixture(scope="module")
def ahead() -> Iterator[Callable[[Callable[[Path], Run], list[Path], Path], Run]]:
    """``ahead(runner, programs, program)``: the run of one program, with all others started too.

    A run takes two seconds, most of them to import torch; two at a time is what any machine has.
    """
    started: dict[tuple[Callable[[Path], Run], Path], Future[Run]] = {}
    pool = ThreadPoolExecutor(2)

    def run(runner: Callable[[Path], Run], programs: list[Path], program: Path) -> Run:
        for each in programs:
            if (runner, each) not in started:
                started[runner, each] = pool.submit(runner, each)
        return started[runner, program].result()

    yield run
    pool.shutdown(cancel_futures=True)
