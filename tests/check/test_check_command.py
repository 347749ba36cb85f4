"""``unclobber check``: formats, settings, comments, baselines, exit codes, and that nothing is imported."""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from importlib.resources import files
from textwrap import dedent

import jsonschema
import pytest

from unclobber.cli import main

WRONG = """\
import torch

w = torch.ones(3, requires_grad=True)
y = w.exp()
y += 1
y.sum().backward()
"""
RIGHT = WRONG.replace("y += 1", "y = y + 1")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """``folder(name=text, …)``: a working directory with these files."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")

    def write(**texts):
        for name, text in texts.items():
            path = tmp_path / f"{name.replace('__', '/')}.py"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        return tmp_path

    return write


def test_the_story(folder, capsys):
    """Both lines underlined, the way out, and who decides."""
    folder(train=WRONG)
    assert main(["check", "train.py"]) == 1
    assert capsys.readouterr().out == dedent("""\
        error[UC101] saved-overwritten: backward fails here if this runs with gradients
            on: `y` is overwritten after `exp` saved its result for backward
         --> train.py:5
          |
        4 | y = w.exp()
          |     ------- `exp` saves its result here
        5 | y += 1
          | ^^^^^^ overwritten here (`+=`)
        6 | y.sum().backward()
          | ------------------ needed here
          |
          = help: write `y` into a new tensor, in line 5: `y = y + 1`
                  a candidate, which was not run
          = help: or keep the program as it is and run it under unclobber.guard()
          = help: `unclobber run` decides: nothing was run here (confidence: high)
          = more: unclobber explain UC101

        SUMMARY: UC101 saved-overwritten train.py:5 overwrites what train.py:4 saved
        """)


def test_a_clean_check_is_one_line(folder, capsys):
    """It is read at each commit."""
    folder(train=RIGHT, other="x = 1\n")
    assert main(["check", "."]) == 0
    assert capsys.readouterr().out == "no findings in 2 files (7 lines)\n"


def test_json(folder, capsys):
    """The same schema and codes as a run's, with how certain it is."""
    folder(train=WRONG)
    assert main(["check", "--format", "json", "train.py"]) == 1
    document = json.loads(capsys.readouterr().out)
    jsonschema.validate(document, json.loads((files("unclobber.report") / "schema.json").read_text("utf-8")))
    (found,) = document["findings"]
    assert (found["code"], found["confidence"]) == ("UC101", "high")
    assert (found["saved"]["line"], found["writes"][0]["line"], found["needed"]["line"]) == (4, 5, 6)
    assert document["outcome"] == "suspected"
    assert document["checked"] == {"files": 1, "lines": 6}
    # nothing was run: nothing is known of torch and of the tensor
    assert [document[key] for key in ("torch", "totals")] == [None, None]
    assert [found["saved"][key] for key in ("shape", "dtype", "bytes", "version")] == [None] * 4
    assert found["fixes"][0]["verified"] is False


def test_sarif_and_github(folder, capsys):
    """Both formats show the code, the confidence and the three places of a finding without a run."""
    folder(train=WRONG)
    assert main(["check", "--format", "sarif", "train.py"]) == 1
    (run,) = json.loads(capsys.readouterr().out)["runs"]
    (result,) = run["results"]
    assert (result["ruleId"], result["properties"]["confidence"]) == ("UC101", "high")
    assert len(result["codeFlows"][0]["threadFlows"][0]["locations"]) == 3
    assert main(["check", "--format", "github", "train.py"]) == 1
    out = capsys.readouterr().out
    assert out.startswith("::error file=")
    assert out.count("\n") == 1


def test_output_and_exit_zero(folder, capsys):
    here = folder(train=WRONG)
    assert main(["check", "--exit-zero", "--output", "report.json", "--format", "json", "train.py"]) == 0
    assert capsys.readouterr().out == ""
    assert json.loads((here / "report.json").read_text())["exit_code"] == 0


def test_a_comment_takes_it_back(folder, capsys):
    folder(train=WRONG.replace("y += 1", "y += 1  # unclobber: ignore[UC101]"))
    assert main(["check", "train.py"]) == 0
    assert "1 finding" in capsys.readouterr().out


@pytest.mark.parametrize(("options", "code"), [
    (["--ignore", "UC101"], 0), (["--select", "UC2"], 0), (["--select", "UC1"], 1), (["--ignore", "UC2"], 1),
])  # fmt: skip
def test_select_and_ignore(folder, options, code):
    """`--select` and `--ignore` decide which codes count for the exit code."""
    folder(train=WRONG)
    assert main(["check", *options, "train.py"]) == code


def test_settings_of_each_file_s_project(folder):
    """The nearest pyproject.toml above each file counts."""
    here = folder(a__train=WRONG, b__train=RIGHT)
    assert main(["check", "."]) == 1
    (here / "a" / "pyproject.toml").write_text('[tool.unclobber]\nignore = ["UC101"]\n')
    assert main(["check", "."]) == 0


def test_a_baseline(folder, capsys):
    """What is known doesn't fail; what is new does."""
    here = folder(train=WRONG)
    assert main(["check", "--write-baseline", "known.json", "train.py"]) == 0
    assert main(["check", "--baseline", "known.json", "train.py"]) == 0
    (here / "train.py").write_text(WRONG + "z = w.exp()\nz *= 2\nz.sum().backward()\n")
    capsys.readouterr()
    assert main(["check", "--baseline", "known.json", "train.py"]) == 1
    assert "train.py:8" in capsys.readouterr().out


def test_confidence(folder):
    """Medium may be left out."""
    text = "import torch\nx = torch.ones(1, 3).expand(2, 3)\nx[:, :2] = 1\n"
    folder(train=text)
    assert main(["check", "train.py"]) == 1
    assert main(["check", "--confidence", "high", "train.py"]) == 0


def test_medium_is_a_warning(folder, capsys):
    folder(train="import torch\ndef f(x: torch.Tensor):\n    y = x.exp()\n    y += 1\n    return y\n")
    assert main(["check", "train.py"]) == 0
    capsys.readouterr()
    assert main(["check", "--all", "train.py"]) == 1
    out = capsys.readouterr().out
    assert out.startswith("warning[UC101] saved-overwritten: backward may fail here if this runs with")


def test_progress_on_a_terminal(folder):
    """Where it takes long the terminal shows how far it has come, and is clean again at the end."""
    pytest.importorskip("pty")
    folder(**{f"m{number}": RIGHT for number in range(9)})
    code = (
        "import sys; from unclobber.cli import main, _looking; _looking._SHOWN_AFTER = 0.0; "
        "sys.exit(main(['check', '.']))"
    )
    reader, terminal = os.openpty()
    with ThreadPoolExecutor(1) as pool, open(reader, "rb", buffering=0) as stream:
        shown = pool.submit(everything_from, stream)
        done = subprocess.run(
            [sys.executable, "-c", code],
            stdout=subprocess.PIPE,
            stderr=terminal,
            env={**os.environ, "TERM": "xterm", "COLUMNS": "80"},
            text=True,
            timeout=60,
            check=True,
        )
        os.close(terminal)
        text = shown.result(10)
    assert re.search(r"checking .*[0-9]/9", text)
    assert text.rstrip().endswith("\x1b[2K")  # the line is erased
    assert done.stdout.startswith("no findings in 9 files")


def everything_from(terminal):
    """What is written to a terminal until nobody has it open."""
    parts = []
    with contextlib.suppress(OSError):  # Linux says so at the end
        while part := terminal.read(4096):
            parts.append(part)
    return b"".join(parts).decode()


def test_what_is_no_python(folder, capsys):
    """It is said, and the other files are looked at."""
    folder(train=WRONG, old="print 'x'  # torch\n")
    assert main(["check", "."]) == 1
    assert "old.py is no Python that this interpreter reads: line 1" in " ".join(
        capsys.readouterr().out.split()
    )


@pytest.mark.parametrize("words", [[], ["nowhere"], ["--format", "xml", "."], ["--confidence", "low", "."],
                                   ["--select", "UC999", "."]])  # fmt: skip
def test_wrong_use(folder, words, capsys):
    """Wrong words exit with 2 and one line on stderr."""
    folder(train=RIGHT)
    assert main(["check", *words]) == 2
    assert capsys.readouterr().err.startswith("unclobber: ")


def test_fix_shows_the_edits(folder, capsys):
    """Of what is found in a folder, as candidates and as one diff; nothing is run, proved or written."""
    here = folder(a__model=WRONG + "raise SystemExit('it was run')\n", b=WRONG + WRONG)
    assert main(["fix", "--no-run", "a", "b.py"]) == 1
    out = capsys.readouterr().out
    assert out.count("a candidate, which was not run") == 3
    assert out.endswith("not proved: nothing was run; `unclobber fix SCRIPT.py` proves what a run comes to\n")
    assert main(["fix", "--no-run", "--diff", "a", "b.py"]) == 1
    diff = capsys.readouterr().out
    assert diff in out
    subprocess.run(["patch", "-p0", "-s"], input=diff, text=True, cwd=here, check=True, timeout=30)
    assert main(["check", "."]) == 0
    capsys.readouterr()
    assert main(["fix", "--no-run", "."]) == 0
    assert capsys.readouterr().out.startswith("no findings in 2 files")


def test_fix_tells_the_candidates_as_json(folder, capsys):
    folder(train=WRONG)
    assert main(["fix", "--no-run", "--format", "json", "train.py"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert "+y = y + 1" in document["fix"]["diff"]
    assert {fix["verified"] for fix in document["findings"][0]["fixes"]} == {False}


@pytest.mark.parametrize(
    "words", [["--no-run", "--write", "."], ["--no-run"], ["."], ["--no-run", "nowhere"]]
)
def test_fix_of_a_folder(folder, words, capsys):
    """What is not run can't be proved or written, and a folder can't be run."""
    folder(train=WRONG)
    assert main(["fix", *words]) == 2
    assert capsys.readouterr().err.startswith("unclobber: ")


def test_many_files_in_several_processes(folder, capsys):
    """The same in any number of processes, in the order of the files."""
    folder(**{f"m{number:02}": WRONG if number % 9 == 0 else RIGHT for number in range(40)})
    outs = []
    for jobs in ("1", "2"):
        assert main(["check", "--jobs", jobs, "--format", "json", "."]) == 1
        outs.append(capsys.readouterr().out)
    assert outs[0] == outs[1]
    assert [one["writes"][0]["path"][-6:] for one in json.loads(outs[0])["findings"]] == [
        f"m{number:02}.py" for number in range(0, 40, 9)
    ]


def test_neither_torch_nor_the_file_is_imported(folder):
    """A file that would stop the process, and an interpreter that looks afterwards."""
    folder(train=WRONG + "raise SystemExit('it was run')\n")
    code = "import sys; from unclobber.cli import main; code = main(['check', 'train.py']); "
    code += "print(code, 'torch' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.splitlines()[-1] == "1 False"


@pytest.mark.parametrize(
    ("settings", "line", "said"),
    [
        ('[tool.unclobber]\nselekt = ["UC101"]\n', "", "did you mean `select`?"),
        ("[tool.unclobber\n", "", "is no valid TOML"),
        ("", "# unclobber: ignore UC101", "train.py:2: `# unclobber: ignore UC101` is not understood: codes"),
        ("", "# unclobber: ignore[UC1O2]", "did you mean UC102?"),
        ("", "# unclobber: ignore-file", "there is no `ignore-file`: did you mean `ignore`?"),
    ],
)
def test_a_typo_is_told_where_nothing_is_found(folder, capsys, settings, line, said):
    """It would switch off in silence what it was meant to set."""
    here = folder(train=f"import torch\nx = 1  {line}\n")
    (here / "pyproject.toml").write_text(settings)
    assert main(["check", "train.py"]) == 2
    shown = capsys.readouterr()
    assert said in shown.err
    assert (shown.out, shown.err.count("\n")) == ("", 1)


@pytest.mark.parametrize("name", ["broken.py", "notes.txt", "sub/broken.py"])
def test_a_file_that_is_named_has_to_be_python(folder, capsys, name):
    """Pre-commit would call it passed. The path is shown as it was named, and a caret in the line."""
    here = folder(sub__x="")
    (here / name).write_text("import torch\nx = (1,\n")
    assert main(["check", name]) == 2
    assert capsys.readouterr().err == (
        f"unclobber: {name}, line 2, column 5: '(' was never closed. This is not valid Python, so nothing "
        "was run; correct it and run again.\n  x = (1,\n      ^\n"
    )


def test_a_file_in_a_folder_that_is_no_python_is_a_note(folder, capsys):
    """A folder may hold files for another Python."""
    folder(broken="import torch\nx = (1,\n")
    assert main(["check", "."]) == 0
    assert "note: broken.py is no Python that this interpreter reads: line 2" in capsys.readouterr().out


def test_the_page_of_a_check(folder, capsys):
    """It says what was checked, and nothing of a run that was none; names are those of the source."""
    text = (
        "import torch\nfrom torch import nn\n\n\nclass Net(nn.Module):\n    def __init__(self):\n"
        "        super().__init__()\n        self.q1 = nn.Linear(2, 2)\n\n    def step(self, x):\n"
        "        loss = self.q1(self.q1(x)).sum()\n        self.q1.weight.data.add_(1)\n"
        "        loss.backward()\n\n\nNet().step(torch.ones(2, 2))\n"
    )
    folder(train=text + WRONG)
    main(["check", "--all", "--format", "html", "train.py"])
    page = re.sub(r"<[^>]+>|\s+", " ", capsys.readouterr().out)
    assert "checked 1 file, 22 lines; nothing was run" in " ".join(page.split())
    for said in ("not known", "tensors saved", " version moved", "conflicts"):
        assert said not in " ".join(page.split())
    main(["check", "--all", "--format", "json", "train.py"])
    for finding in json.loads(capsys.readouterr().out)["findings"]:
        for write in finding["writes"]:
            assert re.fullmatch(r"[\w.]+", write["expression"])
