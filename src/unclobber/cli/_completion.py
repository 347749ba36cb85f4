"""Shell completion of option values and file arguments."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import click
from click.shell_completion import CompletionItem

Offer = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]


def choices(words: Iterable[str]) -> Offer:
    def offer(context: click.Context, parameter: click.Parameter, typed: str) -> list[CompletionItem]:
        return [CompletionItem(word) for word in words if word.startswith(typed)]

    return offer


def a_file(context: click.Context, parameter: click.Parameter, typed: str) -> list[CompletionItem]:
    return [CompletionItem(typed, type="file")]  # the shell itself finds the files
