"""Sessions with what a caller chooses and, for the rest, the settings of the project."""

from __future__ import annotations

from typing import Any

from ..session import Session
from ..settings import ProjectSettings, Suppression


def by_settings(
    settings: ProjectSettings,
    *,
    guard: bool | None = None,
    strict: bool | None = None,
    fingerprint: float | None = None,
    **options: Any,
) -> Session:
    """Return a session that is not entered yet; the settings decide what is None.

    Args:
        settings: The settings of the project.
        guard: Whether backward is given the values that were saved.
        strict: Whether silent writes raise.
        fingerprint: Share of saved tensors whose content is compared.
        options: Further arguments of ``Session``.
    """
    return Session(
        "guard" if (settings.guard if guard is None else guard) else "watch",
        strict=settings.strict if strict is None else strict,
        fingerprint=settings.fingerprint if fingerprint is None else fingerprint,
        suppression=Suppression(settings),
        **options,
    )
