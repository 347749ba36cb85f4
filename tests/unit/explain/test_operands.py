"""Which instructions a node is found for, and which parameter each argument of a call goes to."""

import ast
import dis
import sys

import pytest
import torch

from unclobber.explain.operands import bind, bind_code, is_torch
from unclobber.source import Instruction


@pytest.mark.parametrize(
    ("line", "operation", "text"),
    [
        ("a, b = x", "UNPACK_SEQUENCE", "a, b"),
        ("a, *b = x", "UNPACK_EX", "a, *b"),
        ("a = [*x]", "LIST_EXTEND", "[*x]"),
        ("while x: pass", "POP_JUMP", "while x: pass" if sys.version_info < (3, 12) else "x"),
        ("for a in x: pass", "GET_ITER", "for a in x: pass" if sys.version_info < (3, 13) else "x"),
        ("a[0] = x", "STORE_SUBSCR", "a[0]"),
        ("a @= x", "BINARY_OP", "a @= x"),
        ("@x.y\ndef f(): pass", "CALL", "x.y"),
        ("a = x\\\n .f(\n1)", "CALL", "x\\\n .f(\n1)"),
    ],
)
def test_whatever_may_run_torch_has_its_node(tmp_path, line, operation, text):
    """Taking a tensor apart, asking for its truth and decorating call torch, too."""
    path = tmp_path / "program.py"
    path.write_text(line + "\n")
    code = compile(path.read_text(), str(path), "exec")
    lasti = next(one.offset for one in dis.get_instructions(code) if one.opname.startswith(operation))
    found = Instruction(code, lasti).located()
    assert ast.get_source_segment(path.read_text(), found.node) == text


def call(text):
    return ast.parse(text, mode="eval").body


def texts(bound):
    return bound and {name: ast.unparse(node) for name, node in bound.items()}


@pytest.mark.parametrize(
    ("text", "bound"),
    [
        ("f(x, 2)", {"self": "x", "from": "2"}),
        ("f(x, to=3, out=y)", {"self": "x", "to": "3", "out": "y"}),
        ("f(x, self=y)", None),
        ("f(x, *y)", None),
        ("f(x, **y)", None),
        ("f(1, 2, 3, 4)", None),
    ],
)
def test_bound(text, bound):
    """A name that is Python's own word is a parameter of torch's all the same."""
    node = call(text)
    assert texts(bind(node.args, node.keywords, ("self", "from", "to"))) == bound


def forward(self, x, scale=1):
    return x, scale


def scale_(x, by):
    return x, by


@pytest.mark.parametrize(
    ("function", "text", "bound"),
    [
        (forward, "self.net(h, scale=2)", {"self": "self.net", "x": "h", "scale": "2"}),
        (forward, "net.forward(h)", {"self": "net", "x": "h"}),
        (scale_, "tools.scale(h, 2)", {"x": "h", "by": "2"}),
        (scale_, "other(h, 2)", None),
    ],
)
def test_bound_to_the_function_that_ran(function, text, bound):
    """One that is called by another name is not certain to be the one that is meant; a module is."""
    assert texts(bind_code(call(text), function.__code__)) == bound


@pytest.mark.parametrize(("package", "expected"), [("torch", True), ("torch_geometric", False)])
def test_whose_code_is_torchs(package, expected):
    """A package whose name begins with torch's has operations of its own."""
    path = f"{torch.__path__[0].removesuffix('torch')}{package}/act.py"
    assert is_torch(compile("", path, "exec")) is expected
