"""The user's line, its exact expression, and silence where the source can't be trusted."""

from __future__ import annotations

import doctest
import importlib.util
import linecache
import os
import subprocess
import sys
import sysconfig
import textwrap

import pytest
import torch

from run_and_recorded import define, run, stack_here
from unclobber.source import Instruction
from unclobber.source import sites as _sites
from unclobber.source.sites import is_library, resolve

LEAVES = "x = torch.rand(2, 2, requires_grad=True)\nw = torch.rand(2, 2, requires_grad=True)\n"


def sites(program: str):
    """The site of each save of a program, with lines counted from the program's third."""
    done = run(LEAVES + program)
    found = [resolve(one.stack) for one in done.kept]
    offset = done.first_line + 1
    return [(site, site.line - offset) for site in found]


@pytest.mark.parametrize(
    ("program", "line", "column", "source", "statement"),
    [
        ("loss = x.exp()", 1, 8, "x.exp()", "loss = x.exp()"),
        ("a = 1; loss = x.exp(); b = 2", 1, 15, "x.exp()", "loss = x.exp()"),
        ("éé = x; loss = éé.exp()", 1, 16, "éé.exp()", "loss = éé.exp()"),
        (
            "loss = (x\n        .exp()\n        .sum())",
            2,
            10,
            "exp()",
            "loss = (x\n        .exp()\n        .sum())",
        ),
        ("f = lambda t: t.exp()\nloss = f(x)", 1, 15, "t.exp()", "f = lambda t: t.exp()"),
        ("loss = sum([t.exp() for t in [x]])", 1, 13, "t.exp()", "loss = sum([t.exp() for t in [x]])"),
        ("s = f'{x.exp().sum():.1f}'; loss = x", 1, 8, "x.exp()", "s = f'{x.exp().sum():.1f}'"),
        (
            "loss = x\nif (x.exp().sum() > 0\n        and True):\n    pass",
            2,
            5,
            "x.exp()",
            "if (x.exp().sum() > 0\n        and True):",
        ),
        ("loss = x\nif x.exp().sum() > 0: pass", 2, 4, "x.exp()", "if x.exp().sum() > 0:"),
        ("loss = x\nfor r in x.exp(): pass", 2, 10, "x.exp()", "for r in x.exp():"),
        ("def f(t):\n    u = t.exp()\n    return u\nloss = f(x)", 2, 9, "t.exp()", "u = t.exp()"),
        (
            "def deco(v):\n    return lambda g: g\n@deco(x.exp())\ndef f(): pass\nloss = x",
            3,
            7,
            "x.exp()",
            "@deco(x.exp())\ndef f():",
        ),
        ("loss = torch.exp(\n    x,\n)", 1, 8, "torch.exp(\n    x,\n)", "loss = torch.exp(\n    x,\n)"),
        ("class A:\n    h = x.exp()\nloss = A.h", 2, 9, "x.exp()", "h = x.exp()"),
        ("try:\n    loss = x.exp()\nfinally:\n    pass", 2, 12, "x.exp()", "loss = x.exp()"),
        ("match 1:\n    case 1:\n        loss = x.exp()", 3, 16, "x.exp()", "loss = x.exp()"),
    ],
)
def test_exact_expression(program, line, column, source, statement):
    """Lines and columns count characters from 1; the statement is whole, a compound one's header."""
    ((site, at),) = sites(program)
    assert (at, site.column, site.source, site.statement) == (line, column, source, statement)
    assert not site.library


def test_columns_cut_the_source_out_of_the_line():
    """``source == line[column - 1 : end_column - 1]``, with anything before it."""
    ((site, _),) = sites("é = '日本'; loss = x.exp()")
    line = linecache.getline(site.path, site.line)
    assert line[site.column - 1 : site.end_column - 1] == site.source == "x.exp()"


def test_a_target_keeps_its_statement():
    """A stored subscript is the target; the statement tells the rest."""
    code, _ = define(
        "class Here:\n    def __setitem__(self, key, value):\n        keep(value)\nd = Here()\nd[:] = 0\n"
    )
    stacks: list[tuple] = []
    exec(code, {"keep": lambda _: stacks.append(stack_here(3)), "__name__": "program"})
    site = resolve(stacks[0])
    assert (site.source, site.statement) == ("d[:]", "d[:] = 0")


def test_library_frames_below():
    """What the user's line led to, outermost first, without the frames that every module call has."""
    ((site, _),) = sites("loss = nn.Sequential(nn.ReLU())(x)")
    assert [frame.function for frame in site.below] == ["Sequential.forward", "ReLU.forward", "relu"]
    assert all(frame.library for frame in site.below)
    assert site.source == "nn.Sequential(nn.ReLU())(x)"
    assert len(site.stack) > len(site.below) + 1


def test_an_operator_is_no_library_call():
    """``**`` goes through a Python wrapper of torch's, which says nothing."""
    ((site, _),) = sites("loss = x ** 2")
    assert (site.source, site.below) == ("x ** 2", ())


def test_where_all_is_a_librarys():
    """Without a line of the user's, the innermost frame that isn't ours, and it says so."""
    code = compile("pass", os.path.join(sysconfig.get_paths()["purelib"], "somelib", "core.py"), "exec")
    ours = compile("pass", os.path.join(os.path.dirname(_sites.__file__), "_hook.py"), "exec")
    site = resolve((ours, 0, code, 0))
    assert (site.library, site.path) == (True, code.co_filename)
    assert resolve(()) is None
    assert resolve((ours, 0)) is None


@pytest.mark.parametrize(
    ("name", "library"),
    [
        ("<stdin>", False),
        ("<string>", False),
        ("<ipython-input-3-abc>", False),
        ("<doctest train[0]>", False),
        ("<frozen importlib._bootstrap>", True),
        ("<eval_with_key>.3", True),
        (torch.nn.__file__, True),
        (doctest.__file__, True),
        (_sites.__file__, True),
        (os.path.join(sysconfig.get_paths()["scripts"], "unclobber"), True),
        (os.path.join(sysconfig.get_paths()["purelib"], "mypackage", "train.py"), True),
        ("/srv/other/lib/python3.12/site-packages/p/m.py", True),
        ("/usr/lib/python3/dist-packages/p.py", True),
        ("C:\\Python\\Lib\\site-packages\\p.py", True),
        ("/home/u/torch/train.py", False),
        ("/home/u/site-packages/train.py", False),
        ("/opt/lib/project/train.py", False),
        ("train.py", False),
        (__file__, False),
    ],
)
def test_whose_code(name, library):
    """Installed packages, the standard library, torch and this package; everything else is the user's."""
    assert is_library(compile("1", name, "exec")) is library


def test_a_folder_inside_a_project_is_not_torch(tmp_path):
    """An editable install or a copy named like a library lies where the user put it."""
    path = tmp_path / "torch" / "nn" / "mine.py"
    assert not is_library(compile("1", str(path), "exec"))


def load(path):
    spec = importlib.util.spec_from_file_location("loaded", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


PROGRAM = "def f(x):\n    return g(x)  # first\n\n\ndef g(x):\n    return x.take(\n        x)\n"


def stack_of(function, text):
    """A stack whose one frame is ``function`` at its instruction for ``text``, on its second line."""
    line = PROGRAM.splitlines()[1]
    span = (2, 2, line.index(text), line.index(text) + len(text))
    index = list(function.__code__.co_positions()).index(span)
    return (function.__code__, index * 2)


def test_a_path_without_detours(tmp_path):
    """``package/../main.py`` is ``main.py``, unless ``package`` is a link to somewhere else."""
    (tmp_path / "elsewhere" / "package").mkdir(parents=True)
    (tmp_path / "package").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere" / "package")
    for file in (tmp_path / "main.py", tmp_path / "elsewhere" / "main.py"):
        file.write_text("pass")

    def shown(path):
        return Instruction(compile("pass", str(path), "exec"), 0).path

    assert shown(tmp_path / "package" / ".." / "main.py") == str(tmp_path / "main.py")
    assert shown(tmp_path / "link" / ".." / "main.py") == str(tmp_path / "link" / ".." / "main.py")
    assert shown(tmp_path / "package" / ".." / "gone.py") == str(tmp_path / "package" / ".." / "gone.py")


def test_a_file_edited_meanwhile_gives_the_line_only(tmp_path):
    """Today's text under yesterday's numbers would be a lie: the number is still right."""
    path = tmp_path / "mod.py"
    path.write_text(PROGRAM)
    f = load(path).f
    stack = stack_of(f, "g(x)")
    before = resolve(stack)
    assert (before.line, before.source, before.statement) == (2, "g(x)", ["return g(x)", "# first"][0])
    path.write_text(PROGRAM.replace("g(x)", "h(x)"))
    os.utime(path, (2_000_000_000, 2_000_000_000))
    after = resolve(stack)
    assert (after.line, after.source, after.statement) == (2, "", "")


def test_an_edit_elsewhere_in_the_file_does_no_harm(tmp_path):
    """The function is still the one that runs, so its text is still right."""
    path = tmp_path / "mod.py"
    path.write_text(PROGRAM)
    f = load(path).f
    path.write_text(PROGRAM + "\nadded = 1\n")
    os.utime(path, (2_000_000_000, 2_000_000_000))
    assert resolve(stack_of(f, "g(x)")).source == "g(x)"


def test_a_file_that_is_gone(tmp_path):
    path = tmp_path / "mod.py"
    path.write_text(PROGRAM)
    f = load(path).f
    path.unlink()
    linecache.checkcache()
    site = resolve(stack_of(f, "g(x)"))
    assert (site.path, site.line, site.source, site.function) == (str(path), 2, "", "f")


def test_code_without_a_source():
    scope: dict = {"stack_here": stack_here}
    exec("def f():\n    return stack_here(1)\n", scope)
    site = resolve(scope["f"]())
    assert (site.path, site.line, site.column, site.source, site.statement) == ("<string>", 2, 1, "", "")


def test_without_columns(tmp_path):
    """``-X no_debug_ranges``: the line's text is the expression, and the statement is still found."""
    script = tmp_path / "script.py"
    script.write_text(
        textwrap.dedent(
            """
            import sys
            from unclobber.source.sites import resolve

            def here(*_):
                frame = sys._getframe(1)
                return resolve((frame.f_code, frame.f_lasti))

            site = here(
                1)
            print((site.line, site.column, site.source, site.statement))
            if True:
                site = here(); other = 1
            print((site.line, site.column, site.source, site.statement))
            """
        )
    )
    source = os.path.dirname(os.path.dirname(os.path.dirname(_sites.__file__)))
    done = subprocess.run(
        [sys.executable, "-X", "no_debug_ranges", str(script)],
        env={**os.environ, "PYTHONPATH": source},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert done.stdout.splitlines() == [
        "(9, 1, 'site = here(', 'site = here(\\n    1)')",
        "(13, 5, 'site = here(); other = 1', 'site = here(); other = 1')",
    ]


def test_what_lies_below_the_start_of_a_child():
    """A forked process has its parent's frames below its own, a spawned one has ``python -c`` there: where a
    library alone runs in the child, neither is the line to blame."""
    name = os.path.join(os.path.dirname(_sites.__file__), "child.py")
    (start,) = (
        one for one in compile("def _run_as_child(): 1", name, "exec").co_consts if hasattr(one, "co_name")
    )
    users = compile("1", "/home/user/train.py", "exec")
    library = textwrap.dedent.__code__
    assert _sites.innermost_user((library, 0, users, 0, start, 0, users, 0)) == 1
    assert _sites.innermost_user((library, 0, start, 0, users, 0)) is None
    assert _sites.innermost_user((library, 0, library, 0, users, 0)) == 2
