"""``unclobber doctor``: facts about this installation, for an issue."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version

import click

from ..model import VERSION, UnclobberError
from ..settings import ProjectSettings, shown_path
from ._terminal import COMMAND
from ._torch import require_torch

_PACKAGES = ("click", "rich", "jinja2", "PyYAML", "platformdirs")
_BESIDES = ("numpy", "pytest", "ipython", "lightning", "transformers", "accelerate")
_VARIABLES = ("UNCLOBBER_", "PYTORCH_", "TORCH_", "CUDA_VISIBLE_DEVICES", "OMP_NUM_THREADS")


@click.command(context_settings=COMMAND)
def command() -> int:
    """Print versions, the core and why it runs, the self-tests, and what can't be seen here.

    It is what an issue needs, and names no folder of yours but that of pyproject.toml.

    Exit code: 0; 1 if a self-test fails.
    """
    click.echo(f"unclobber {VERSION}, Python {platform.python_version()}, {platform.platform()}")
    click.echo(f"needs: {', '.join(_versions(_PACKAGES))}")
    click.echo(f"besides: {', '.join(_versions(_BESIDES)) or 'none'}")
    click.echo(f"settings: {_settings()}")
    click.echo(f"environment: {', '.join(_environment()) or 'nothing is set'}")
    try:
        require_torch()
    except UnclobberError as error:
        click.echo(f"torch: {error}")
        return 0
    return 0 if _torch() else 1


def _torch() -> bool:
    """Print what torch, the core and the self-tests are like; return whether all of them pass."""
    import torch

    from ..observe.native.core import choose
    from ..session import Session

    devices = torch.cuda.device_count() if torch.cuda.is_available() else 0
    click.echo(f"torch: {torch.__version__}, {devices} CUDA devices")
    saves, why = choose()
    click.echo(f"core: saves are seen by the {saves}{f', because {why}' if why else ''}")
    # A session runs the self-tests, and a refused backward shows that all parts of it work together.
    session = Session("watch", warn=False)
    with session:
        leaf = torch.ones(3, requires_grad=True)
        written = leaf.exp()
        written.add_(1)
        try:
            written.sum().backward()
            problems = ["an overwritten tensor was not seen"]
        except RuntimeError as error:
            problems = [] if session.finding_for(error) else [f"no finding explains {error}"]
    problems += session.report().notices
    click.echo(f"self-tests: {'one or more fail' if problems else 'all pass'}")
    for problem in problems:
        click.echo(f"  can't be seen here: {problem}")
    return not problems


def _versions(names: tuple[str, ...]) -> Iterator[str]:
    for name in names:
        try:
            yield f"{name} {version(name)}"
        except PackageNotFoundError:
            if name in _PACKAGES:
                yield f"{name} is missing"


def _settings() -> str:
    try:
        project = ProjectSettings.of(os.getcwd())
    except UnclobberError as error:
        return str(error)
    return shown_path(project.file) if project.given else "the defaults"


def _environment() -> Iterator[str]:
    # Sorted, so that two reports can be compared.
    for name, value in sorted(os.environ.items()):
        if name.startswith(_VARIABLES):
            yield f"{name}={value}"
