"""Installed code that counts as the program's while its user examines it."""

from __future__ import annotations

import os

import click

from unclobber.source import counted_as_program, is_library


def test_a_package_counts_as_the_program_in_the_block_alone():
    """Also after it was looked up; other packages stay libraries, and a file's name is enough."""
    folder = os.path.join(os.path.dirname(click.__file__), "")
    assert is_library(click.Command.__init__.__code__)
    with counted_as_program([folder]), counted_as_program([]):
        assert not is_library(click.Command.__init__.__code__)
        assert not is_library(click.__file__)
        assert is_library(os.path.join.__code__)
    assert is_library(click.__file__)
