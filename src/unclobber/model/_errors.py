"""What we raise and warn with; every exception carries its data."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ._finding import Finding


class UnclobberError(Exception):
    """Something about the use of unclobber itself is wrong; ``str()`` says what to do.

    ``exit_code`` is what the command exits with: 2, usage or internal error.

    Example:
        >>> try:
        ...     unclobber.install(strict=True, guard=True)
        ... except unclobber.UnclobberError as error:
        ...     print(error)
        strict stops at what guard repairs: ask install() for one of them
    """

    __module__ = "unclobber"
    exit_code = 2


class InplaceError(RuntimeError):
    """An in-place operation that autograd can't allow.

    ``str()`` starts with torch's own sentence, so that handlers and searches written for it still
    match, and goes on with the story. It survives pickling, so that a process can hand it to another.

    The sentences are torch's own: of a saved tensor that was overwritten that of
    ``SavedVariable::unpack`` (torch/csrc/autograd/saved_variable.cpp), of a write that is refused that of
    ``check_inplace`` (torch/csrc/autograd/VariableTypeUtils.h).

    Args:
        message: torch's sentence, a blank line and the story.
        finding: The same as data, kept in the attribute ``finding``.
    Example:
        >>> w = torch.ones(3, requires_grad=True)
        >>> try:
        ...     with unclobber.watch():
        ...         y = w.exp()
        ...         y += 1
        ...         y.sum().backward()
        ... except unclobber.InplaceError as error:
        ...     print(error.finding.code, [write.operation for write in error.finding.writes])
        UC101 ['add_']
    """

    __module__ = "unclobber"  # the name that a user sees is the name that a user can import

    def __init__(self, message: str, finding: Finding) -> None:
        super().__init__(message, finding)  # both in ``args``: survives pickling between processes
        self.finding = finding

    def __str__(self) -> str:
        return str(self.args[0])


class SilentWriteWarning(UserWarning):
    """A saved tensor was overwritten in a way that torch doesn't see: gradients are wrong.

    The fault is in the program that is watched. ``watch(strict=True)`` raises instead. torch sees a write by
    the version counter of the tensor's storage, and ``.data`` gives a tensor with a counter of its own (see
    "In-place correctness checks" in torch's notes on autograd mechanics).

    Example:
        >>> import warnings
        >>> w = torch.ones(3, requires_grad=True)
        >>> with warnings.catch_warnings(record=True) as caught, unclobber.watch():
        ...     warnings.simplefilter("always")
        ...     y = w.exp()
        ...     _ = y.data.zero_()
        ...     y.sum().backward()
        >>> [one.category.__name__ for one in caught], w.grad
        (['SilentWriteWarning'], tensor([0., 0., 0.]))
    """

    __module__ = "unclobber"
