"""How a finding names its tensors in one sentence, and several names in a row."""

from __future__ import annotations

from collections.abc import Sequence

from ..model import Fix, Frame, Need, Save, Site, shown_name
from ..model.text import shape

_LONGEST_QUOTE = 40


def tensor_name(save: Save) -> str:
    """The best certain name: a parameter's path, the user's expression, else what it is."""
    if save.name:
        return f"`{save.name}`"
    if save.expression:
        return f"`{save.expression}`"
    if not save.shape:
        return f"a {save.dtype} scalar"
    return f"a {save.dtype} tensor of shape {shape(save.shape)}"


def saver(save: Save) -> str:
    """Who saved it: the operation; the user's call where a library's code below it did."""
    site = save.site
    if site is not None and site.below and "\n" not in site.source and 0 < len(site.source) <= _LONGEST_QUOTE:
        return f"`{site.source}`"
    return save.called or save.node or "an operation"


def sentence(save: Save, how: str) -> str:
    """``X was overwritten after Y saved it for …``."""
    purpose = f"for the gradient of `{save.gradient_of}`" if save.gradient_of else "for backward"
    return f"{tensor_name(save)} {how} after {saver(save)} saved it {purpose}"


def after_backward(step: str, *, in_loop: bool = False) -> Fix:
    """The way out for weights that an optimizer's ``step`` wrote.

    Args:
        step: ``opt.step()``.
        in_loop: Whether each backward goes through the graphs of the steps before.
    """
    if in_loop:
        return Fix(
            "compute anew in each step, or detach, what is carried over from the step before, and leave out "
            "`retain_graph=True`: it makes each backward go through earlier steps, too, whose weights "
            f"`{step}` has changed since"
        )
    return Fix(
        f"call `{step}` after the backward that still needs these weights, "
        "or run the forward again after the step"
    )


def place(site: Site, shown: Sequence[Save | Need | None]) -> str:
    """``line 19: `z = h * w```, with the file's name where it isn't the one of the places that are shown; the
    line alone where its text can't be had."""
    where, statement = line(site, shown), " ".join(site.statement.split())
    return f"{where}: `{statement}`" if statement else where


def line(site: Site | Frame, shown: Sequence[Save | Need | None]) -> str:
    """``line 19``, or ``net.py:19`` where that isn't the file of the places that are shown."""
    paths = {one.site.path for one in shown if one is not None and one.site is not None}
    return f"line {site.line}" if paths == {site.path} else f"{shown_name(site.path)}:{site.line}"
