"""May an operation's operand be overwritten after it, and its result?"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from verdicts import SHORT, Program, run, saved_by


@dataclass(frozen=True, slots=True)
class Operation:
    """One row: an expression of ``u``, the operand whose overwriting is in question."""

    expression: str
    asked: str
    """Its name for ``unclobber.rules``, whose answer the tests compare."""
    node: str
    """The backward node that the expression makes."""


OPERATIONS = [
    Operation("u + c", "add", "AddBackward0"),
    Operation("u * 3", "mul", "MulBackward0"),
    Operation("u * c", "mul", "MulBackward0"),
    Operation("u * v", "mul", "MulBackward0"),
    Operation("u / c", "div", "DivBackward0"),
    Operation("c / u", "div", "DivBackward0"),
    Operation("u @ c", "dot", "DotBackward0"),
    Operation("u @ v", "dot", "DotBackward0"),
    Operation("u ** 2", "pow", "PowBackward0"),
    Operation("u.exp()", "exp", "ExpBackward0"),
    Operation("u.sqrt()", "sqrt", "SqrtBackward0"),
    Operation("u.log()", "log", "LogBackward0"),
    Operation("u.sin()", "sin", "SinBackward0"),
    Operation("u.abs()", "abs", "AbsBackward0"),
    Operation("u.clamp(0, 2)", "clamp", "ClampBackward1"),
    Operation("u.sigmoid()", "sigmoid", "SigmoidBackward0"),
    Operation("u.tanh()", "tanh", "TanhBackward0"),
    Operation("u.relu()", "relu", "ReluBackward0"),
    Operation("F.gelu(u)", "gelu", "GeluBackward0"),
    Operation("F.silu(u)", "silu", "SiluBackward0"),
    Operation("u.softmax(0)", "softmax", "SoftmaxBackward0"),
    Operation("u.log_softmax(0)", "log_softmax", "LogSoftmaxBackward0"),
    Operation("F.dropout(u)", "dropout", "MulBackward0"),
    Operation("F.layer_norm(u, (3,))", "layer_norm", "NativeLayerNormBackward0"),
    Operation("u.sum()", "sum", "SumBackward0"),
    Operation("u.mean()", "mean", "MeanBackward0"),
    Operation("u.prod()", "prod", "ProdBackward0"),
    Operation("u.cumsum(0)", "cumsum", "CumsumBackward0"),
    Operation("u[u > 2]", "index", "IndexBackward0"),
    Operation("torch.cat([u, c])", "cat", "CatBackward0"),
    Operation("torch.where(c > 1, u, c)", "where", "WhereBackward0"),
]


def operand_program(operation: Operation) -> Program:
    """Overwrite the operand after the operation; the result stays, and so does the right gradient."""
    before = f"u = w * 1\ny = {operation.expression}"
    return Program(f"{before}\nu.mul_(2)\ny.sum()", f"{before}\ny.sum()")


def result_program(operation: Operation) -> Program:
    """Double the result in place."""
    before = f"u = w * 1\ny = {operation.expression}"
    return Program(f"{before}\ny.mul_(2)\ny.sum()", f"{before}\n(y * 2).sum()")


def table() -> Iterator[str]:
    """The table, as Markdown."""
    yield "| `y = …` | saves | write `u` | write `y` |"
    yield "|---|---|---|---|"
    for operation in OPERATIONS:
        operand, result = (run(make(operation)).verdict for make in (operand_program, result_program))
        saved = ", ".join(name if " " in name else f"`{name}`" for name in saved_by(operation.expression))
        yield f"| `{operation.expression}` | {saved or 'nothing'} | {SHORT[operand]} | {SHORT[result]} |"
