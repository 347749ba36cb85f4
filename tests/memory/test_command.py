"""``unclobber memory`` as a command, and what it writes."""

from __future__ import annotations

import json
from html.parser import HTMLParser

import pytest

from unclobber.cli import main

PROGRAM = """
import torch
w = torch.randn(100, 100, requires_grad=True)
x = torch.randn(1000, 100)
print("before")
y = (x @ w).exp()  # </pre><script>alert("&")</script>
(y @ w).sum().backward()
print("after")
"""


@pytest.fixture
def script(tmp_path):
    path = tmp_path / "train.py"
    path.write_text(PROGRAM)
    return path


@pytest.mark.parametrize("width", [40, 80])
def test_text(script, capsys, monkeypatch, width):
    """The report goes to stderr, the program's output stays, and the program stops after its backward."""
    monkeypatch.setenv("COLUMNS", str(width))
    assert main(["memory", str(script)]) == 0
    out, err = capsys.readouterr()
    assert out == "before\n"
    assert "390.6 KiB" in err
    assert "train.py:6" in err
    assert "exp result" in err
    assert "What in-place buys" in err
    assert max(map(len, err.splitlines())) <= width


def test_json(script, tmp_path):
    """Plain data, with the bytes of each line."""
    output = tmp_path / "memory.json"
    assert main(["memory", "--format", "json", "--output", str(output), str(script)]) == 0
    document = json.loads(output.read_text())
    assert document["schema"] == 2
    assert document["bytes_by_line"] == [{"path": str(script), "line": 6, "bytes": 400000}]


class Page(HTMLParser):
    """Collects tags and whatever could load something."""

    VOID = frozenset({"meta", "line", "circle", "rect", "path"})

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.scripts = 0
        self.links: list[str] = []

    def handle_starttag(self, tag, attrs):
        self.scripts += tag == "script"
        self.links += [value for name, value in attrs if name in ("src", "href") and value]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        if tag not in self.VOID:
            assert self.open.pop() == tag


def test_html(script, tmp_path):
    """One page that closes what it opens, loads nothing and runs no script of the source's."""
    output = tmp_path / "memory.html"
    assert main(["memory", "--format", "html", "--output", str(output), str(script)]) == 0
    text = output.read_text()
    page = Page()
    page.feed(text)
    assert (page.open, page.scripts, page.links) == ([], 1, [])
    assert "&lt;script&gt;alert(" in text
    assert "http:" not in text.replace("http-equiv", "")
    assert "https:" not in text
    assert "390.6 KiB" in text


def test_a_script_in_the_source_would_be_seen():
    """The parser above finds what an unescaped page would hold."""
    page = Page()
    page.feed('<pre><script src="http://x"></script></pre>')
    assert (page.scripts, page.links) == (1, ["http://x"])


def test_the_program_fails(tmp_path, capsys):
    """It keeps its traceback and its code; what was recorded is shown."""
    script = tmp_path / "fails.py"
    script.write_text("import torch\ny = torch.ones(3, requires_grad=True).exp()\nraise SystemExit(7)")
    assert main(["memory", str(script)]) == 7
    script.write_text("import torch\ntorch.ones(2) @ torch.ones(3)")
    assert main(["memory", str(script)]) == 1
    assert "Recording ended early: the program failed: RuntimeError" in capsys.readouterr().err


TOO_LARGE = """
import sys
import torch
torch.manual_seed(0)
w = torch.randn(100, 100, requires_grad=True)
x = torch.randn(1000, 100)
h = (x @ w).tanh()
CAUGHT
y = (h * int(sys.argv[1])).exp()[:, :, None].expand(-1, -1, 10**9).contiguous()
y.sum().backward()
"""


def test_out_of_memory(tmp_path, capsys):
    """What was being allocated, by which line, what held the rest, and the command that needs no memory."""
    script = tmp_path / "too large.py"
    script.write_text(TOO_LARGE.replace("CAUGHT", ""))
    assert main(["memory", "--step", "1", str(script), "2"]) == 1
    err = " ".join(capsys.readouterr().err.split("Peak: ")[1].split())
    assert "out of memory: contiguous at too large.py:9 asked for 363.8 TiB more" in err
    assert f"unclobber memory --fake '{script}' 2" in err
    # What the graph so far keeps has its reasons, though no backward ran.
    assert "tanh result" in err
    assert "exp result" in err
    assert "grad of input = grad * (1 - result ** 2)" in err
    for wrong in (
        "was kept and not used",
        "were kept and not used",
        "is not freed",
        "could safely be in-place",
    ):
        assert wrong not in err
    assert main(["memory", "--fake", str(script), "2"]) == 0
    assert "ended early" not in capsys.readouterr().err
    large = "(torch.ones(1, requires_grad=True) * 2).expand(10**14)[:2].sum()"
    script.write_text(f"import torch\nloss = {large}\nloss.backward()\n")
    assert main(["memory", str(script)]) == 1
    err = " ".join(capsys.readouterr().err.split())
    assert "out of memory: slice_backward in the backward of too large.py:2 asked for 363.8 TiB more" in err


def test_out_of_memory_that_the_program_handles(tmp_path, capsys):
    """A batch that was too large and is tried again smaller is no end of the recording."""
    script = tmp_path / "train.py"
    caught = "try:\n    torch.empty(10**15)\nexcept RuntimeError:\n    pass"
    script.write_text(TOO_LARGE.replace("CAUGHT", caught).replace("10**9", "2"))
    assert main(["memory", str(script), "2"]) == 0
    err = capsys.readouterr().err
    assert "out of memory" not in err
    assert "in the backward of" in err


def test_figures_in_words(tmp_path, capsys):
    """One gradient is no plural, a footnote explains only what is there, and names are the program's."""
    script = tmp_path / "train.py"
    script.write_text(
        "import torch\nw = torch.ones(3, 300, requires_grad=True)\n"
        "lin = torch.nn.Linear(300, 300)\nlin(w * 2).pow(2).backward(torch.ones(3, 300))"
    )
    assert main(["memory", str(script)]) == 0
    err = " ".join(capsys.readouterr().err.split())
    assert " 1 gradients" not in err
    assert "stands for numbers" not in err
    assert "linear input" in err
    assert "train.py:4, lin(w * 2): linear keeps its input;" in err
    for name in ("addmm", "addmv", "mat1", "_backward", "grad of self", "operation 1", "operation 2", "×"):
        assert name not in err


def test_no_backward(tmp_path, capsys):
    """A program without backward is recorded to its end."""
    script = tmp_path / "forward.py"
    script.write_text("import torch\ny = torch.ones(3, requires_grad=True).exp()")
    assert main(["memory", str(script)]) == 0
    assert "called no backward" in " ".join(capsys.readouterr().err.split())


def test_fake_has_no_values(tmp_path, capsys):
    """A program that looks at a value is told why that can't be."""
    script = tmp_path / "looks.py"
    script.write_text("import torch\nprint(torch.ones(3).sum().item())")
    assert main(["memory", "--fake", str(script)]) == 1
    err = " ".join(capsys.readouterr().err.split())
    assert (
        "looked at a value at looks.py:2, `torch.ones(3).sum().item()`, and under --fake there are none"
        in err
    )


def test_fake_modules_can_be_converted(tmp_path, capsys):
    """``module.to(dtype)`` works, which torch itself refuses to fake parameters."""
    script = tmp_path / "converts.py"
    script.write_text(
        "import torch\nm = torch.nn.Linear(1000, 1000).to(torch.bfloat16)\n"
        "m(torch.ones(5, 1000, dtype=torch.bfloat16)).sum().backward()"
    )
    assert main(["memory", "--fake", str(script)]) == 0
    assert "Fake tensors" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "nothing to run"),
        (["--fake", "--try", "x.py"], "fake tensors have none"),
        (["--format", "xml", "x.py"], "The formats are text, json, html"),
        (["no_such_file.py"], "can't read the script"),
    ],
)
def test_wrong_use(arguments, words, capsys):
    """Exit 2 before anything runs."""
    assert main(["memory", *arguments]) == 2
    assert words in capsys.readouterr().err


def test_the_second_backward(tmp_path, capsys):
    """--step N stops at the N-th."""
    script = tmp_path / "loop.py"
    script.write_text(
        "import torch\nw = torch.ones(3, requires_grad=True)\n"
        "for n in range(5):\n    w.exp().sum().backward()\n    print(n)"
    )
    assert main(["memory", "--step", "3", str(script)]) == 0
    assert capsys.readouterr().out == "0\n1\n"


def test_a_backward_that_is_not_reached(tmp_path, capsys):
    """The report says that it is another moment's."""
    script = tmp_path / "loop.py"
    script.write_text("import torch\nw = torch.ones(3, requires_grad=True)\nw.exp().sum().backward()")
    assert main(["memory", "--step", "9", "--try", str(script)]) == 0
    said = " ".join(capsys.readouterr().err.split())
    assert "the program called backward 1 time only, and not 9: this is what it held at its end" in said


def test_a_program_that_torch_refuses(tmp_path, capsys):
    """What the recorder keeps is refused as torch would, with torch's error."""
    script = tmp_path / "refused.py"
    script.write_text("import torch\nh = torch.ones(2, requires_grad=True).exp()\nh *= 2\nh.sum().backward()")
    assert main(["memory", str(script)]) == 1
    said = " ".join(capsys.readouterr().err.split())
    assert "inplace operation: [torch.FloatTensor [2]] is at version 1; expected version 0 instead" in said


def test_a_lazy_module_is_recorded(tmp_path):
    """Its weight has no shape before the first forward, so nothing may ask for one."""
    script = tmp_path / "lazy.py"
    script.write_text("""
import torch
net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.LazyLinear(2))
net(torch.ones(3, 4)).sum().backward()
""")
    assert main(["memory", str(script)]) == 0


def test_a_program_that_fails_is_not_told_to_save_memory(tmp_path, capsys):
    """Its error is the whole reason, and what was kept until then has its names."""
    script = tmp_path / "wrong.py"
    script.write_text("""
import torch
norm = torch.nn.BatchNorm1d(4)
y = norm(torch.ones(3, 4, requires_grad=True) * 2)
y @ y
""")
    assert main(["memory", str(script)]) == 1
    said = " ".join(capsys.readouterr().err.split())
    assert "Recording ended early: the program failed: RuntimeError" in said
    assert "--fake" not in said
    assert "batch_norm keeps its input" in said
    assert "batch_norm keeps a tensor" not in said
    assert ".." not in said.rpartition("Recording ended early")[2].replace("...", "")
