"""``unclobber rules``: says what operations save, and what may be overwritten after them."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from ..model import UnclobberError
from ..report import options_for
from . import _meant
from ._delivery import Delivery
from ._errors import UsageError
from ._options import OUTPUT_OPTION, format_of
from ._output import OutputFile, json_text, write_text
from ._progress import said
from ._terminal import COMMAND
from ._torch import require_torch

if TYPE_CHECKING:
    from ..derivatives.card import OperationRules


@click.command(context_settings=COMMAND)
@click.option("--all", "all_operations", is_flag=True, help="Every differentiable operation of this torch.")
@click.option(
    "--check",
    is_flag=True,
    help="Run torch's own operation database and compare what autograd really keeps with the rules. "
    "Takes about a minute; needs the package expecttest.",
)
@format_of(("text", "json", "markdown"))
@OUTPUT_OPTION
@click.argument("names", nargs=-1, metavar="OP...")
def command(
    *, all_operations: bool, check: bool, format_: str, output: OutputFile | None, names: tuple[str, ...]
) -> int:
    """Say what an operation saves for backward and what may be overwritten after it.

    OP is any spelling: exp, exp_, torch.exp, F.softmax, nn.ReLU, nn.LSTM, +=, 'x[i] = v', aten::mm,
    ExpBackward0. What has no derivative of its own is run on small tensors.

    Exit code: 0; with --check 1 where fewer than 97 % of the operations agree; 2 for an unknown operation
    or wrong use.
    """
    if not (names or all_operations or check):
        raise UsageError("no operation named", "Name some: `unclobber rules exp mul`; or give --all.")
    if all_operations and names:
        raise UsageError("--all and names exclude each other", "Give one of the two.")
    if check and all_operations:
        raise UsageError("--check checks all operations", "Leave --all out.")
    for name in filter(_meant.for_argument, names):
        raise UsageError(f"{name!r} is no operation", _meant.sentence([name], ()))
    require_torch()
    if check:
        return _check(names, format_, output)
    from ..derivatives.rules import all_names, rules

    operations: list[OperationRules] = []
    unknown: list[UnclobberError] = []
    for name in all_names() if all_operations else names:
        try:
            operations.append(rules(name))
        except UnclobberError as error:
            unknown.append(error)
    # Next to known names, an unknown one is only named on stderr (test_cli_rules.py).
    if not operations:
        raise unknown[0]
    text = _rendered(operations, format_, coloured=output is None)
    Delivery(format_, output, of_program=False).send(lambda _: text)
    for problem in unknown:
        write_text(sys.stderr, f"unclobber: {problem}\n")
    return 2 if unknown else 0


def _rendered(operations: list[OperationRules], format_: str, *, coloured: bool) -> str:
    """Return the operations' rules as text, JSON or Markdown."""
    if format_ == "json":
        import torch

        document = {
            "schema": 1,
            "torch": str(torch.__version__),
            "operations": [operation.to_dict() for operation in operations],
        }
        return json_text(document)
    if format_ == "markdown":
        from ..derivatives.card import OperationRules

        return f"{OperationRules.to_markdown(operations)}\n"
    return "\n\n".join(_card(operation, coloured) for operation in operations) + "\n"


def _card(operation: OperationRules, coloured: bool) -> str:
    """Return one operation's card, coloured by rich if the terminal has colours."""
    options = options_for(sys.stdout if coloured else None)
    # Wider than a hundred columns, a card is no easier to read.
    lines = operation.lines(min(options.width, 100))
    if not options.colour:
        return "\n".join(line.plain for line in lines)
    from rich.console import Console

    console = Console(width=options.width, force_terminal=True, highlight=False, soft_wrap=True)
    with console.capture() as captured:
        for line in lines:
            console.print(line)
    return captured.get().rstrip("\n")


def _check(names: tuple[str, ...], format_: str, file: OutputFile | None) -> int:
    """Run torch's operation database against the rules; return 0 if enough operations agree."""
    from ..derivatives.check import TableCheck

    try:
        with said() as progress:
            compared = TableCheck.of(names, progress)
    except ImportError as error:
        raise UsageError(
            f"torch's operation database can't be loaded: {error}",
            "It needs the package expecttest: `pip install expecttest`.",
        ) from None
    if names and not compared.results:
        raise UnclobberError(f"torch's operation database has none of {', '.join(names)}.")
    if format_ == "json":
        text = json_text(compared.to_dict())
    else:
        text = f"{compared.to_text(markdown=format_ == 'markdown')}\n"
    Delivery(format_, file, of_program=False).send(lambda _: text)
    return 0 if compared.agrees else 1
