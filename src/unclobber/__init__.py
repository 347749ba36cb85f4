"""In-place operations under PyTorch autograd: explained, guarded and repaired.

Importing this package imports neither torch nor anything heavy; each public name loads what it
needs at its first use.

Example:
    >>> import torch, unclobber
    >>> w = torch.ones(3, requires_grad=True)
    >>> y = w.exp()
    >>> with unclobber.guard():
    ...     y = w.exp()
    ...     _ = y.mul_(2)
    ...     y.sum().backward()
    >>> bool((w.grad == 2 * w.detach().exp()).all())
    True

PYTEST_DONT_REWRITE: we bring a pytest plugin, so pytest would rewrite our asserts, and warn wherever
this package was imported before pytest, as by ``unclobber run -m pytest``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    __version__: str
    from .derivatives.rules import rules
    from .footprint import memory
    from .integrations.always_on import install, uninstall
    from .model import Finding, InplaceError, Report, SilentWriteWarning, UnclobberError
    from .session import audit, freeze, frozen, guard, watch
    from .vetting import vet, ways

__all__ = [
    "Finding", "InplaceError", "Report", "SilentWriteWarning", "UnclobberError", "audit", "freeze",
    "frozen", "guard", "install", "memory", "rules", "uninstall", "vet", "watch", "ways",
]  # fmt: skip

_HOME = {
    **dict.fromkeys(("Finding", "InplaceError", "Report", "SilentWriteWarning", "UnclobberError"), "model"),
    **dict.fromkeys(("audit", "freeze", "frozen", "guard", "watch"), "session"),
    **dict.fromkeys(("install", "uninstall"), "integrations.always_on"),
    **dict.fromkeys(("vet", "ways"), "vetting"),
    "memory": "footprint",
    "rules": "derivatives.rules",
}
"""Module of each public name; ``__getattr__`` imports it, so that importing the package stays cheap."""


def __getattr__(name: str) -> Any:
    """Load a public name at its first use, and keep it in the package's namespace."""
    home, inside = ("model", "VERSION") if name == "__version__" else (_HOME.get(name), name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    if home != "model":
        from .model import require_installed_torch

        require_installed_torch()
        # First, for the reason in `session.__getattr__`.
        import_module("torch")
    value = getattr(import_module(f"{__name__}.{home}"), inside)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def load_ipython_extension(shell: Any) -> None:
    """Register the magics ``%%unclobber`` and ``%unclobber``, for IPython's ``%load_ext unclobber``."""
    from .model import require_installed_torch

    require_installed_torch()
    from .integrations.notebook import Magics

    Magics.load(shell)


def unload_ipython_extension(shell: Any) -> None:
    """Remove the magics, for IPython's ``%unload_ext unclobber``."""
    from .integrations.notebook import Magics

    Magics.unload(shell)
