"""Paths relative to a repository, for code scanning and pull requests."""

from __future__ import annotations

import os


def root() -> str:
    """Return the root of the repository that holds the working directory, even if that is a folder below it.

    The root is the checkout of a GitHub workflow, ``GITHUB_WORKSPACE``, else the nearest folder with a
    ``.git``. If there is neither, it is the working directory itself.
    """
    here = os.getcwd()
    workspace = os.environ.get("GITHUB_WORKSPACE")
    # A job may run in a folder outside of its checkout; paths in it are no repository's then.
    if workspace and below(here, workspace) is not None:
        return os.path.abspath(workspace)
    folder = here
    while not os.path.exists(os.path.join(folder, ".git")):
        folder, last = os.path.dirname(folder), folder
        if folder == last:
            return here
    return folder


def below(path: str, folder: str) -> str | None:
    """Return a path relative to a folder, with forward slashes; None if it is not below it.

    Example:
        >>> below("/repo/src/a.py", "/repo"), below("/other/a.py", "/repo")
        ('src/a.py', None)
    """
    # A link in either path may hide that one is below the other, so the real paths are tried, too.
    for inner, outer in ((path, folder), (os.path.realpath(path), os.path.realpath(folder))):
        try:
            relative = os.path.relpath(inner, outer)
        except ValueError:  # Windows: on another drive
            return None
        if relative.split(os.sep)[0] != os.pardir:
            return relative.replace(os.sep, "/")
    return None
