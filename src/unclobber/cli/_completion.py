"""What a shell offers for a word of a command."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import click
from click.shell_completion import CompletionItem

Offer = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]


def one_of(words: Iterable[str]) -> Offer:
    """Those of the words that begin as what is there."""

    def offer(context: click.Context, parameter: click.Parameter, begun: str) -> list[CompletionItem]:
        return [CompletionItem(word) for word in words if word.startswith(begun)]

    return offer


def a_file(context: click.Context, parameter: click.Parameter, begun: str) -> list[CompletionItem]:
    """Whatever files the shell finds."""
    return [CompletionItem(begun, type="file")]
