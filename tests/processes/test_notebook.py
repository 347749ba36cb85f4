"""The notebook extension on a real kernel: one notebook, executed once, looked at from all sides."""

from __future__ import annotations

import re
import warnings

import nbformat
import pytest
from jupyter_core.utils import ensure_event_loop
from nbclient import NotebookClient

STEP = """\
def forward(w):
    y = w.exp()
    y += 1
    return y.sum()
"""

CELLS = {
    "setup": "%load_ext unclobber\nimport torch, unclobber\nw = torch.ones(3, requires_grad=True)",
    "function": STEP,
    "refused": "%%unclobber\nprint('before')\n\nforward(w).backward()",
    "again": "%unclobber",
    "clean": "%%unclobber\nloss = (w * 2).sum()\nloss.backward()\nloss.item()",
    "guard": "%%unclobber --guard\nw.grad = None\nforward(w).backward()\nbool((w.grad == w.exp()).all())",
    "silent": "%%unclobber\ny = w.sigmoid()\ny.data.zero_()\ny.sum().backward()",
    "strict": "%%unclobber --strict\ny = w.sigmoid()\ny.data.zero_()\ny.sum().backward()",
    "line": "%unclobber forward(w).backward()",
    "leaf": "%%unclobber\nw.normal_()",
    "own": "%%unclobber\n\nprint('x')\n1 / 0",
    "syntax": "%%unclobber\nx = = 1",
    "option": "%%unclobber --gaurd\nx = 1",
    "names": "%%unclobber\nfrom math import pi\n[name for name in ('pi', 'forward') if name in globals()]",
    "audit": "unclobber.audit(lambda: forward(w).backward())",
    "finding": "unclobber.audit(lambda: forward(w).backward()).findings[0]",
    "ignored": "%%unclobber\ny = w.exp()\ny.data.zero_()  # unclobber: ignore\ny.sum().backward()",
    "settings": (
        "import os, pathlib, tempfile\nhome = os.getcwd()\nos.chdir(tempfile.mkdtemp())\n"
        "_ = pathlib.Path('pyproject.toml').write_text('[tool.unclobber]\\nguard = true\\nstrict = true\\n')"
    ),
    "guarded by settings": "%%unclobber\ny = w.sigmoid()\ny.data.zero_()\ny.sum().backward()",
    "strict by settings": "%%unclobber --no-guard\ny = w.sigmoid()\ny.data.zero_()\ny.sum().backward()",
    "home": "os.chdir(home)",
    "on": "%unclobber on",
    "on, built": "y = w.exp()\nloss = y.sum()",
    "on, clean": "(w * 2).sum().backward()",
    "on, written": "y += 1\nloss.backward()",
    "on, silent": "y = w.sigmoid()\ny.data.zero_()\ny.sum().backward()",
    "on, leaf": "w.normal_()",
    "on, own": "1 / 0",
    "on, guarded": "%unclobber on --guard",
    "on, restored": "w.grad = None\nforward(w).backward()\nbool((w.grad == w.exp()).all())",
    "off": "%unclobber off",
    "off, written": "forward(w).backward()",
    "switch": "%unclobber off now",
    "misspelt": "%unclobber onn",
    "own name": "of = 3\n%unclobber of",
    "memory": "%%unclobber_memory\nh = w.exp()\n(h * h.sin()).sum().backward()\nnever",
    "memory, tried": "%%unclobber_memory --try\nh = w.exp()\n(h * h.sin()).sum().backward()",
    "memory, names": "'h' in globals()",
    "memory, option": "%%unclobber_memory --tri\nx",
    "memory, own": "%%unclobber_memory\n1 / 0",
    "memory, function": "unclobber.memory(lambda: (w.exp() * 2).sum().backward())",
    "module": "act = torch.nn.Sigmoid()",
    "module refused": "%%unclobber\ngate = act(w)\ngate *= 2\ngate.sum().backward()",
    "unload": "%unload_ext unclobber\n%unclobber",
}


@pytest.fixture(scope="module")
def cells():
    """The outputs of each cell."""
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(text) for text in CELLS.values()])
    client = NotebookClient(notebook, kernel_name="python3", allow_errors=True, timeout=120)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Jupyter's own, about its paths and event loops
        client.execute()
        ensure_event_loop().close()  # which Jupyter leaves open
    return {name: cell.outputs for name, cell in zip(CELLS, notebook.cells, strict=True)}


def text_of(outputs) -> str:
    """What a frontend without HTML shows of streams and displays."""
    parts = [o.get("text") or o.get("data", {}).get("text/plain", "") for o in outputs]
    return "\n".join(parts)


def html_of(outputs) -> str:
    return "\n".join(o.get("data", {}).get("text/html", "") for o in outputs).strip()


def error_of(outputs):
    """The one error of a cell: name and traceback without colours."""
    (error,) = [o for o in outputs if o.output_type == "error"]
    return error.ename, re.sub(r"\x1b\[[0-9;]*m", "", "\n".join(error.traceback))


def test_the_story_stands_in_place_of_the_traceback(cells):
    """Source of both cells by their names and lines; the error itself is one line."""
    text = text_of(cells["refused"])
    assert text.startswith("before\n")
    assert "error[UC101] saved-overwritten: `y` was overwritten after exp saved it" in text
    assert "--> In[2]:3" in text
    assert "3 |     y += 1\n  |     ^^^^^^ overwritten here (add_, version 0 -> 1)" in text
    assert "::: In[3]:4" in text
    assert "4 | forward(w).backward()\n  | --------------------- needed here" in text
    name, traceback = error_of(cells["refused"])
    assert name == "InplaceError"
    assert traceback == "InplaceError: UC101 saved-overwritten In[2]:3 overwrites what In[2]:2 saved"


def test_an_edit_may_use_what_other_cells_define(cells):
    """That `act` is a Sigmoid, whose result nothing else holds, stands in another cell."""
    assert "`gate = gate * 2`" in text_of(cells["module refused"])


def test_the_story_is_rich(cells):
    """HTML with source, marks and timeline; no file of the kernel's is named."""
    html = html_of(cells["refused"])
    assert '<svg class="uc-timeline"' in html
    assert "In[2]:3" in html
    assert "ipykernel" not in html
    assert "ipykernel" not in text_of(cells["refused"])


def test_the_last_report_again(cells):
    """``%unclobber`` alone."""
    assert html_of(cells["again"]) == html_of(cells["refused"])


def test_a_clean_cell_shows_its_value(cells):
    """The last expression is displayed as ever, and nothing else."""
    assert text_of(cells["clean"]) == "6.0"


def test_every_cell_is_watched(cells):
    """After ``%unclobber on`` a graph of one cell, overwritten in another one, has its story there."""
    assert [cells[name] for name in ("on", "on, built", "on, clean")] == [[], [], []]
    assert "overwritten here" in text_of(cells["on, written"])
    name, traceback = error_of(cells["on, written"])
    assert (name, len(traceback.splitlines())) == ("InplaceError", 1)
    assert re.fullmatch(r"InplaceError: UC101 saved-overwritten In\[\d+\]:1 overwrites what .*", traceback)
    silent = text_of(cells["on, silent"])
    assert "error[UC102]" in silent
    assert "UC101" not in silent  # each finding is shown once
    assert "error[UC201]" in text_of(cells["on, leaf"])
    assert error_of(cells["on, leaf"])[0] == "InplaceError"
    name, traceback = error_of(cells["on, own"])
    assert name == "ZeroDivisionError"
    assert "unclobber" not in traceback


def test_every_cell_is_guarded_until_it_is_off(cells):
    """The second ``on`` replaces the first; after ``off`` torch's own error comes through."""
    assert "True" in text_of(cells["on, restored"])
    assert "guard handed backward the value" in text_of(cells["on, restored"])
    assert error_of(cells["off, written"])[0] == "RuntimeError"
    (answer,) = cells["switch"]
    assert "%unclobber off: what is 'now'?" in str(answer)
    (answer,) = cells["misspelt"]
    assert "there is no %unclobber onn: did you mean `%unclobber on`?" in str(answer)
    assert text_of(cells["own name"]) == "3"


def test_guard_repairs(cells):
    """The gradient is right; the repaired conflict is shown."""
    text = text_of(cells["guard"])
    assert text.startswith("True\n")
    assert "guard handed backward the value as it was saved" in text


def test_silent_writes_are_shown_and_strict_stops(cells):
    """Without ``--strict`` the cell goes on, as torch does; with it, it fails."""
    assert "error[UC102]" in text_of(cells["silent"])
    assert not [o for o in cells["silent"] if o.output_type == "error"]
    assert error_of(cells["strict"])[1].startswith("InplaceError: UC102 saved-overwritten-silently In[8]:3 ")


def test_comments_and_settings_count(cells):
    """Those of the cell, and those of the working directory's project where the magic's line is silent."""
    assert "1 finding is suppressed: 1 by comment" in text_of(cells["ignored"])
    assert "guard handed backward the value" in text_of(cells["guarded by settings"])
    assert error_of(cells["strict by settings"])[0] == "InplaceError"


def test_a_line(cells):
    """``%unclobber statement``."""
    assert "error[UC101]" in text_of(cells["line"])
    assert error_of(cells["line"])[0] == "InplaceError"


def test_what_torch_refuses_on_the_spot(cells):
    """A leaf."""
    assert "error[UC201] leaf-written" in text_of(cells["leaf"])
    assert error_of(cells["leaf"])[1].startswith("InplaceError: UC201 leaf-written In[10]:2 ")


def test_the_users_own_error_is_as_ever(cells):
    """Its traceback starts at the cell's line; our files don't occur."""
    name, traceback = error_of(cells["own"])
    assert name == "ZeroDivisionError"
    assert re.search(r"----> 4 1 ?/ ?0", traceback)
    assert "_notebook" not in traceback
    assert "exec(" not in traceback


def test_wrong_use(cells):
    """A syntax error is one; an unknown option is answered with the right ones."""
    assert error_of(cells["syntax"])[0] == "SyntaxError"
    (answer,) = cells["option"]
    said = answer.get("text") or "\n".join(answer.get("traceback", []))
    assert "there is no option --gaurd: %%unclobber [--guard] [--strict]" in said


def test_names_are_the_notebooks(cells):
    """What the cell defines, later cells have."""
    assert "['pi', 'forward']" in text_of(cells["names"])


def test_a_stack_ends_at_the_cell(cells):
    """Without the line of the magic, whose own call of the cell is the shell's."""
    stacks = re.findall(r'<ol class="uc-stack".*?</ol>', html_of(cells["refused"]), re.S)
    assert [re.findall("<li>(.*?)</li>", stack) for stack in stacks] == [
        ["In[2]:2 in forward", "In[3]:4 in &lt;module&gt;"],
        ["In[2]:3 in forward", "In[3]:4 in &lt;module&gt;"],
    ]


def test_what_is_repaired_says_so(cells):
    """In the plain text as in the card."""
    assert "repaired[UC101] saved-overwritten: `y` was overwritten" in text_of(cells["guard"])
    assert "error[" not in text_of(cells["guard"])
    assert "<b>repaired</b>" in html_of(cells["guard"])


@pytest.mark.parametrize("name", ["memory", "memory, tried", "memory, function"])
def test_the_memory_of_a_cell(cells, name):
    """By lines of the cell; as a page, and as text."""
    (shown,) = cells[name]
    assert re.search(r"In\[\d+\]:\d", shown["data"]["text/html"])
    text = shown["data"]["text/plain"]
    assert re.search(r"In\[\d+\]:\d", text)
    assert "ipykernel" not in text + shown["data"]["text/html"]
    assert "StepMemory(" not in text


def test_the_memory_of_a_cell_leaves_the_notebook_as_it_was(cells):
    """A cell's names, what is behind its backward, and a failure's traceback."""
    assert text_of(cells["memory, names"]) == "False"
    (answer,) = cells["memory, option"]
    assert "there is no option --tri: %%unclobber_memory [--try] [--fake]" in str(answer)
    name, traceback = error_of(cells["memory, own"])
    assert name == "ZeroDivisionError"
    assert "unclobber" not in traceback


@pytest.mark.parametrize("name", ["audit", "finding"])
def test_reports_and_findings_display_themselves(cells, name):
    """Whatever returns one."""
    assert "--> In[2]:3" in text_of(cells[name])
    assert "uc-finding" in html_of(cells[name])


def test_unload(cells):
    """The magic is gone."""
    said = "\n".join(str(o) for o in cells["unload"])
    assert "`%unclobber` not found" in said
