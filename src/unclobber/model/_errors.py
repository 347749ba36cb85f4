"""unclobber's exceptions and warning; every exception carries its data."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ._finding import Finding


class UnclobberError(Exception):
    """An error in the use of unclobber itself; ``str()`` says what to do.

    ``exit_code`` is the command's exit code: 2, usage or internal error.

    Example:
        >>> try:
        ...     unclobber.install(strict=True, guard=True)
        ... except unclobber.UnclobberError as error:
        ...     print(error)
        strict stops at what guard repairs: give install() one of them
    """

    __module__ = "unclobber"
    exit_code = 2


class InplaceError(RuntimeError):
    """An in-place operation that autograd can't allow.

    ``str()`` starts with torch's own sentence, so that handlers and searches written for it still match. The
    explanation follows. The error survives pickling, so that one process can send it to another.

    The sentences are torch's own. For an overwritten saved tensor it is that of ``SavedVariable::unpack``
    (torch/csrc/autograd/saved_variable.cpp), for a refused write that of ``check_inplace``
    (torch/csrc/autograd/VariableTypeUtils.h).

    Args:
        message: torch's sentence, a blank line and the explanation.
        finding: The finding as data, kept in the attribute ``finding``.
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

    __module__ = "unclobber"  # users see the name from which they can import it

    def __init__(self, message: str, finding: Finding) -> None:
        super().__init__(message, finding)  # both in ``args``: survives pickling between processes
        self.finding = finding

    def __str__(self) -> str:
        return str(self.args[0])


class SilentWriteWarning(UserWarning):
    """A saved tensor was overwritten in a way that torch doesn't see: gradients are wrong.

    The bug is in the watched program. ``watch(strict=True)`` raises instead. torch sees a write by the
    version counter of the tensor's storage, and ``.data`` gives a tensor with a counter of its own (see
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
