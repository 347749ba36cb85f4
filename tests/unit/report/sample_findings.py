"""Findings made by hand from the little programs in ``tests/golden/sources``, one for each kind of story.

The programs run, and fail as their findings say; other tests of reports may import ``examples()``.
"""

from __future__ import annotations

import ast
import textwrap
from pathlib import Path

from unclobber.model import Finding, Fix, Frame, Need, Save, Site, Write

SOURCES = Path(__file__).parents[2] / "golden" / "sources"

TORCH = "/venv/lib/python3.11/site-packages/torch"
CODE_OF_FUNCTIONAL = Frame(f"{TORCH}/nn/functional.py", 1440, "dropout", "", library=True)


def site(
    file: str, text: str, *, nth: int = 1, below: tuple[Frame, ...] = (), function: str = "<module>"
) -> Site:
    """The place of the ``nth`` occurrence of an expression in one of the sources."""
    path = SOURCES / file
    source = path.read_text(encoding="utf-8")
    at = -1
    for _ in range(nth):
        at = source.index(text, at + 1)
    line, column = _position(source, at)
    end_line, end_column = _position(source, at + len(text))
    statement = _statement(source, line, column, end_line)
    lines = source.split("\n")[statement.lineno - 1 : statement.end_lineno]
    if len(lines) == 1:
        lines = [ast.get_source_segment(source, statement) or ""]
    return Site(
        path=str(path),
        line=line,
        column=column,
        end_line=end_line,
        end_column=end_column,
        function=function,
        source=text,
        statement_line=statement.lineno,
        statement_end_line=statement.end_lineno or statement.lineno,
        statement=textwrap.dedent("\n".join(lines)),
        below=below,
        stack=(*below[::-1], Frame(str(path), line, function)),
    )


def _position(source: str, offset: int) -> tuple[int, int]:
    line = source.count("\n", 0, offset) + 1
    return line, offset - (source.rfind("\n", 0, offset) + 1) + 1


def _statement(source: str, line: int, column: int, end_line: int) -> ast.stmt:
    """The innermost statement around a place."""
    inside = [
        node
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.stmt)
        and node.lineno <= line
        and end_line <= (node.end_lineno or 0)
        and (node.lineno < line or _column(source, node) <= column)
    ]
    return max(inside, key=lambda node: (node.lineno, node.col_offset))


def _column(source: str, node: ast.stmt) -> int:
    text = source.split("\n")[node.lineno - 1]
    return len(text.encode()[: node.col_offset].decode()) + 1


NEW_TENSOR = "write into a new tensor"


def examples() -> dict[str, Finding]:
    """One finding for each kind of story, by the name of its golden text."""
    return {
        "plain": Finding(
            "UC101",
            "`d` was overwritten after matmul saved it for the gradient of `w2`",
            saved=Save(
                site("train.py", "torch.matmul(d, w2)", function="Tower.forward"),
                (1, 1),
                "float32",
                4,
                0,
                operation="mm",
                node="MmBackward0",
                role="self",
                expression="d",
                gradient_of="w2",
                why="grad of mat2 = self.T @ grad",
                why_words="grad of `w2` is dᵀ @ grad",
            ),
            writes=(
                Write(site("train.py", "d[:]", function="Tower.forward"), "fill_", True, True, 0, 1, "d[:]"),
            ),
            needed=Need(site("train.py", "loss.backward()"), node="MmBackward0"),
            fixes=(Fix(NEW_TENSOR, code="d = torch.zeros_like(d)", verified="whole-run"),),
            torch_message="one of the variables needed for gradient computation has been modified",
            kept_bytes=4,
        ),
        "one-line": Finding(
            "UC101",
            "the result of `exp` was overwritten after exp saved it",
            saved=Save(
                site("one_line.py", "(2 * t).exp()"),
                (3,),
                "float32",
                12,
                0,
                operation="exp",
                role="result",
                why_words="grad of its input is grad * result",
            ),
            writes=(Write(site("one_line.py", "(2 * t).exp().mul_(3)"), "mul_", True, True, 0, 1),),
            needed=Need(site("one_line.py", "y.sum().backward()")),
            fixes=(Fix("multiply into a new tensor", code="y = (2 * t).exp() * 3", verified="whole-run"),),
            kept_bytes=12,
        ),
        "several-files": Finding(
            "UC101",
            "the result of `torch.sigmoid(x)` was overwritten after sigmoid saved it",
            saved=Save(
                site("layers.py", "torch.sigmoid(x)", function="Gate.forward"),
                (2, 4),
                "float32",
                32,
                0,
                operation="sigmoid",
                role="result",
                why_words="grad of `x` is grad * (1 - result) * result",
            ),
            writes=(
                Write(
                    site(
                        "model.py",
                        "F.dropout(h, 0.5, self.training, inplace=True)",
                        below=(CODE_OF_FUNCTIONAL,),
                        function="Net.forward",
                    ),
                    "mul_",
                    True,
                    True,
                    0,
                    1,
                ),
            ),
            needed=Need(site("main.py", "net(x).sum().backward()")),
            fixes=(
                Fix(
                    "take dropout out of place",
                    diff="--- model.py\n+++ model.py\n@@ -16,3 +16,3 @@\n         h = self.gate(x)\n"
                    "-        h = F.dropout(h, 0.5, self.training, inplace=True)\n"
                    "+        h = F.dropout(h, 0.5, self.training)\n         return h\n",
                    verified="whole-run",
                ),
            ),
            kept_bytes=32,
        ),
        "library": Finding(
            "UC101",
            "the result of `trunk.1` (Sigmoid) was overwritten after sigmoid saved it",
            saved=Save(
                site(
                    "model.py",
                    "self.trunk(x)",
                    below=(
                        Frame(f"{TORCH}/nn/modules/module.py", 1779, "Module._wrapped_call_impl"),
                        Frame(f"{TORCH}/nn/modules/container.py", 253, "Sequential.forward"),
                        Frame(f"{TORCH}/nn/modules/activation.py", 350, "Sigmoid.forward"),
                    ),
                    function="Net.deep",
                ),
                (2, 4),
                "float32",
                32,
                0,
                operation="sigmoid",
                role="result",
                why_words="grad of its input is grad * (1 - result) * result",
            ),
            writes=(
                Write(
                    site(
                        "model.py",
                        "self.trunk(x)",
                        below=(
                            Frame(f"{TORCH}/nn/modules/module.py", 1779, "Module._wrapped_call_impl"),
                            Frame(f"{TORCH}/nn/modules/dropout.py", 73, "Dropout.forward"),
                            CODE_OF_FUNCTIONAL,
                        ),
                        function="Net.deep",
                    ),
                    "mul_",
                    True,
                    True,
                    0,
                    1,
                    module="trunk.2 (Dropout)",
                ),
            ),
            needed=Need(site("main.py", "net.deep(x).sum().backward()"), nth=2),
            kept_bytes=32,
        ),
        "optimizer": Finding(
            "UC101",
            "`opt_d.step()` updated `critic.2.weight` after addmm saved it for the gradient of its input",
            saved=Save(
                site("gan.py", "critic(actor(noise))"),
                (1, 16),
                "float32",
                64,
                0,
                operation="addmm",
                role="mat2",
                name="critic.2.weight",
                why_words="grad of its input is grad @ weight",
            ),
            writes=(
                Write(
                    site(
                        "gan.py",
                        "opt_d.step()",
                        below=(
                            Frame(
                                f"{TORCH}/optim/optimizer.py",
                                526,
                                "Optimizer.profile_hook_step.<locals>.wrapper",
                            ),
                            Frame(f"{TORCH}/optim/sgd.py", 384, "_multi_tensor_sgd"),
                        ),
                    ),
                    "_foreach_add_",
                    True,
                    True,
                    0,
                    1,
                    optimizer="opt_d.step()",
                    parameters=("critic.0.weight", "critic.2.weight"),
                ),
            ),
            needed=Need(site("gan.py", "loss_a.backward()"), nth=2),
            fixes=(Fix("step the optimizer after the last backward that goes through the critic"),),
            kept_bytes=576,
        ),
        "loop": Finding(
            "UC101",
            "`state` was overwritten after mul saved it for the gradient of `w`",
            saved=Save(
                site("loop.py", "state * w"),
                (4,),
                "float32",
                16,
                11,
                operation="mul",
                role="self",
                expression="state",
                gradient_of="w",
                why_words="grad of `w` is grad * state",
                nth=12,
                of=12,
            ),
            writes=(Write(site("loop.py", "state += 1"), "add_", True, True, 11, 12, "state"),),
            needed=Need(site("loop.py", "total.backward()")),
            fixes=(Fix("make a new tensor in each step", code="state = state + 1", verified="whole-run"),),
            kept_bytes=192,
        ),
        "loop-many-writes": Finding(
            "UC101",
            "`state` was overwritten after mul saved it for the gradient of `w`",
            saved=Save(
                site("loop.py", "state * w"),
                (4,),
                "float32",
                16,
                2,
                operation="mul",
                role="self",
                expression="state",
                why_words="grad of `w` is grad * state",
                nth=3,
                of=12,
            ),
            writes=(Write(site("loop.py", "state += 1"), "add_", True, True, 2, 12, "state", count=10),),
            needed=Need(site("loop.py", "total.backward()")),
            kept_bytes=192,
        ),
        "harmless": Finding(
            "UC101",
            "the storage of `a[0]` was written after pow saved it; torch refuses the backward",
            saved=Save(
                site("harmless.py", "a[0] ** 2"),
                (3,),
                "float32",
                12,
                0,
                operation="pow",
                role="self",
                expression="a[0]",
                why_words="grad of `a[0]` is grad * 2 * a[0]",
            ),
            writes=(Write(site("harmless.py", "a[1]"), "fill_", True, False, 0, 1, "a[1]"),),
            needed=Need(site("harmless.py", "s.backward()")),
            harmless=True,
        ),
        "silent": Finding(
            "UC102",
            "`out` was overwritten after sigmoid saved it, and torch does not see it",
            saved=Save(
                site("silent.py", "x.sigmoid()"),
                (3,),
                "float32",
                12,
                0,
                operation="sigmoid",
                role="result",
                expression="out",
                why_words="grad of `x` is grad * (1 - out) * out",
            ),
            writes=(
                Write(
                    site("silent.py", "out.data.zero_()"),
                    "zero_",
                    False,
                    True,
                    0,
                    0,
                    "out.data",
                    through=".data",
                ),
            ),
            needed=Need(site("silent.py", "out.sum().backward()")),
            fixes=(Fix("write into a new tensor", code="out = torch.zeros_like(out)"),),
        ),
        "repaired": Finding(
            "UC101",
            "`d` was overwritten after matmul saved it for the gradient of `w2`",
            severity="warning",
            saved=Save(
                site("train.py", "torch.matmul(d, w2)", function="Tower.forward"),
                (1, 1),
                "float32",
                4,
                0,
                operation="mm",
                role="self",
                expression="d",
                why_words="grad of `w2` is dᵀ @ grad",
            ),
            writes=(Write(site("train.py", "d[:]"), "fill_", True, True, 0, 1, "d[:]"),),
            needed=Need(site("train.py", "loss.backward()")),
            kept_bytes=4,
            repaired=True,
        ),
        "leaf": Finding(
            "UC201",
            "`w` is a leaf that requires grad, and normal_ writes to it in place",
            saved=Save(
                site("leaf.py", "torch.empty(3, 3, requires_grad=True)"),
                (3, 3),
                "float32",
                36,
                0,
                expression="w",
            ),
            writes=(Write(site("leaf.py", "w.normal_()"), "normal_", True, True, expression="w"),),
            fixes=(
                Fix("write under no_grad", code="with torch.no_grad(): w.normal_()", verified="whole-run"),
                Fix("or ask for the gradient afterwards", code="w.requires_grad_()"),
            ),
        ),
        "multi-view": Finding(
            "UC203",
            "`first` is one of several views that unbind returned, and add_ writes to it in place",
            saved=Save(
                site("views.py", "(x * 2).unbind(0)"),
                (3,),
                "float32",
                12,
                0,
                operation="unbind",
                expression="first",
            ),
            writes=(Write(site("views.py", "first.add_(1)"), "add_", True, True, expression="first"),),
            fixes=(Fix("write into a new tensor", code="first = first + 1", verified="whole-run"),),
        ),
        "freed": Finding(
            "UC301",
            "the graph of `shared` was freed by the first backward and is needed by the second",
            saved=Save(
                site("twice.py", "w.exp()"),
                (3,),
                "float32",
                12,
                0,
                operation="exp",
                role="result",
                expression="shared",
                why_words="grad of `w` is grad * shared",
            ),
            freed=Need(site("twice.py", "loss.backward()"), nth=1),
            needed=Need(site("twice.py", "loss.backward()"), nth=2),
            notes=("both losses go through `shared`, computed once before the loop",),
            fixes=(
                Fix("compute it anew in each step: move line 4 into the loop", verified="whole-run"),
                Fix("or one backward of the sum of the losses", verified="whole-run"),
            ),
        ),
        "unknown": Finding(
            "UC101",
            "a tensor was overwritten after exp saved it",
            saved=Save(None, (3,), "float32", 12, 0, operation="exp", role="result"),
            writes=(Write(None, "add_", True, True, 0, 1),),
            needed=Need(site("train.py", "loss.backward()")),
        ),
        "nothing-known": Finding(
            "UC101",
            "a tensor was overwritten after it was saved",
            saved=Save(None, (3,), "float32", 12, 0),
            writes=(Write(None, "add_", True, True),),
            needed=Need(None),
        ),
        "wide": Finding(
            "UC101",
            "`结果` was overwritten after exp saved it",
            saved=Save(
                site("wide.py", "权重.exp()", function="前向"),
                (3,),
                "float32",
                12,
                0,
                operation="exp",
                role="result",
                expression="结果",
                why_words="grad of `权重` is grad * 结果",
            ),
            writes=(
                Write(site("wide.py", "结果[0]", function="前向"), "fill_", True, True, 0, 1, "结果[0]"),
            ),
            needed=Need(site("wide.py", "前向().backward()")),
            kept_bytes=12,
        ),
        "tall": Finding(
            "UC101",
            "the result of `tanh` was overwritten after mse_loss saved it",
            saved=Save(
                site(
                    "tall.py",
                    "torch.nn.functional.mse_loss(\n            y.tanh(),\n"
                    "            torch.zeros(3),\n        )",
                ),
                (3,),
                "float32",
                12,
                0,
                operation="mse_loss",
                role="self",
                why_words="grad of its input is 2 * (input - target) * grad / 3",
            ),
            writes=(Write(site("tall.py", "y[\n    0\n]"), "fill_", True, True, 0, 1, "y[0]"),),
            needed=Need(site("tall.py", "loss.backward()")),
            kept_bytes=12,
        ),
        "long": Finding(
            "UC101",
            "`second_intermediate_result_of_the_decoder` was overwritten after pow saved it",
            saved=Save(
                site("long.py", "second_intermediate_result_of_the_decoder ** 2"),
                (3,),
                "float32",
                12,
                0,
                operation="pow",
                role="self",
                expression="second_intermediate_result_of_the_decoder",
                why_words="grad of its input is grad * 2 * input",
            ),
            writes=(
                Write(
                    site("long.py", "second_intermediate_result_of_the_decoder[0]"), "copy_", True, True, 0, 1
                ),
            ),
            needed=Need(site("long.py", "loss.backward()")),
            kept_bytes=12,
        ),
        "gone": Finding(
            "UC101",
            "`h` was overwritten after tanh saved it",
            saved=Save(
                Site("/gone/net.py", 8, 9, 8, 17, "forward", "x.tanh()", 8, 8, "h = x.tanh()"),
                (3,),
                "float32",
                12,
                0,
                operation="tanh",
                role="result",
                expression="h",
            ),
            writes=(
                Write(
                    Site("/gone/net.py", 10, 1, 10, 1, "forward", "", 10, 10, ""), "add_", True, True, 0, 1
                ),
            ),
            needed=Need(site("train.py", "loss.backward()")),
        ),
    }
