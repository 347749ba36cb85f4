"""``unclobber build-native``: compile what runs at every saved tensor and every write."""

from __future__ import annotations

import click

from ._progress import said
from ._terminal import COMMAND
from ._torch import require_torch


@click.command(context_settings=COMMAND)
@click.option("--force", is_flag=True, help="Compile it although it is there.")
def command(*, force: bool) -> int:
    """Compile the native core for the torch and the Python that run this.

    It is kept in the virtual environment, or in the user's cache without one (UNCLOBBER_NATIVE_FOLDER names
    another folder). Watched programs of this torch and Python run it unless UNCLOBBER_NATIVE=0 is set. Needs
    a C++ compiler and Python's headers, and takes about half a minute of one processor.

    Exit code: 0; 2 where it can't be compiled here, which the message explains.
    """
    from ..observe.native.build import build

    require_torch()
    with said() as progress:
        file = build(progress, again=force)
    print(f"the native core is built, and runs unless UNCLOBBER_NATIVE=0 is set: {file}")
    return 0
