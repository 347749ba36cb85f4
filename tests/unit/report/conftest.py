"""The ``golden`` fixture, with the option that rewrites its texts."""

from __future__ import annotations

from pathlib import Path

import pytest
from golden_texts import Golden

FOLDER = Path(__file__).parents[2] / "golden" / "report"


def pytest_addoption(parser: pytest.Parser) -> None:
    """``pytest tests/unit/report --update-golden``; then read the diff before you commit it."""
    parser.addoption("--update-golden", action="store_true", help="rewrite the golden texts")


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Golden:
    """Golden texts of reports."""
    return Golden(FOLDER, update=request.config.getoption("--update-golden", default=False))
