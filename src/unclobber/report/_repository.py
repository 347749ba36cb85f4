"""Where paths are told from for those who look at a repository: code scanning, pull requests."""

from __future__ import annotations

import os


def root() -> str:
    """The root of the repository that holds the working directory, also where that is a folder below.

    It is the checkout of a workflow of GitHub's, ``GITHUB_WORKSPACE``, else the nearest folder with a
    ``.git``; the working directory itself where there is neither.
    """
    here = os.getcwd()
    workspace = os.environ.get("GITHUB_WORKSPACE")
    if workspace and below(here, workspace) is not None:
        return os.path.abspath(workspace)
    folder = here
    while not os.path.exists(os.path.join(folder, ".git")):
        folder, last = os.path.dirname(folder), folder
        if folder == last:
            return here
    return folder


def below(path: str, folder: str) -> str | None:
    """A path from a folder, with forward slashes; None where it is not below it.

    Example:
        >>> below("/repo/src/a.py", "/repo"), below("/other/a.py", "/repo")
        ('src/a.py', None)
    """
    for one, other in ((path, folder), (os.path.realpath(path), os.path.realpath(folder))):
        try:
            relative = os.path.relpath(one, other)
        except ValueError:  # on another drive
            return None
        if relative.split(os.sep)[0] != os.pardir:
            return relative.replace(os.sep, "/")
    return None
