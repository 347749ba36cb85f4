"""What a run of the command says, writes and exits with where findings are suppressed."""

from __future__ import annotations

import json

import pytest

import warm

PROGRAM = """
import torch
w = torch.ones(3, requires_grad=True)
y = w.exp()
WRITE{comment}
y.sum().backward()
"""
SILENT, REFUSED = PROGRAM.replace("WRITE", "y.data.zero_()"), PROGRAM.replace("WRITE", "y.zero_()")


@pytest.fixture
def run(tmp_path):
    """Runs train.py, made of a text, under the command."""

    def run(*options, text=None, comment="", settings=None):
        if text is not None:
            (tmp_path / "train.py").write_text(text.format(comment=comment))
        if settings is not None:
            (tmp_path / "pyproject.toml").write_text(f"[tool.unclobber]\n{settings}\n")
        return warm.unclobber("run", *options, "train.py", cwd=tmp_path)

    return run


def document(tmp_path):
    return json.loads((tmp_path / "r.json").read_text())


@pytest.mark.parametrize(
    ("comment", "options", "settings", "how"),
    [
        ("  # unclobber: ignore[UC102]", (), None, "by comment"),
        ("  # unclobber: ignore", ("--strict",), None, "by comment"),
        ("", (), 'ignore = ["UC102"]', "by the settings"),
        ("", ("--ignore", "UC1"), None, "by the settings"),
        ("", ("--select=UC2,UC3", "--strict"), None, "by the settings"),
        ("", (), 'per-file-ignores = {"train.py" = ["UC1"]}\nstrict = true', "by the settings"),
    ],
)
def test_one_line_counts(run, comment, options, settings, how):
    """The run is clean, and the only line says that something is not told."""
    done = run(*options, text=SILENT, comment=comment, settings=settings)
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr == f"unclobber: 1 finding is suppressed: 1 {how}\n"


def test_json_keeps_them_apart(run, tmp_path):
    run("--format=json", "--output=r.json", text=SILENT, comment="  # unclobber: ignore")
    report = document(tmp_path)
    assert (report["outcome"], report["exit_code"], report["findings"]) == ("clean", 0, [])
    (one,) = report["suppressed"]
    assert (one["code"], one["suppressed_by"], one["writes"][0]["line"]) == ("UC102", "comment", 5)


def test_the_twin_without_a_word_fails(run):
    done = run(text=SILENT)
    assert done.returncode == 1
    assert "suppressed" not in done.stderr


def test_what_torch_refuses_is_told_with_a_note(run):
    done = run(text=REFUSED, comment="  # unclobber: ignore")
    assert done.returncode == 1
    assert "`# unclobber: ignore` stands on line 5, but what torch refuses can't" in done.stderr
    assert done.stderr.splitlines()[-1].startswith("SUMMARY: UC101")


def test_an_unused_comment_is_told(run, tmp_path):
    """In the script and in what it imports, in text and in JSON; a library's comments are its own."""
    (tmp_path / "helper.py").write_text("a = 1  # unclobber: ignore[UC103]\n")
    text = SILENT.replace("y.data.zero_()", "y.data") + "import helper\nb = 1  # unclobber: ignore\n"
    done = run(text=text)
    assert done.returncode == 0
    assert " ".join(done.stderr.split()) == (
        "unclobber: `# unclobber: ignore[UC103]` at helper.py:1 suppresses nothing: "
        "there was no UC103 in this run "
        "unclobber: `# unclobber: ignore` at train.py:8 suppresses nothing: there was no finding in this run"
    )
    run("--format=json", "--output=r.json")
    assert len(document(tmp_path)["notices"]) == 2


def test_a_program_that_ends_early_has_no_unused_comments(run):
    """What it did not reach may be needed."""
    done = run(text="raise SystemError\nb = 1  # unclobber: ignore\n")
    assert "suppresses nothing" not in done.stderr


def test_a_baseline(run, tmp_path):
    """Written once, it lets pass what it knows, also under --strict, and fails for what is new."""
    done = run("--write-baseline=known.json", text=SILENT)
    assert done.returncode == 0
    assert done.stderr.splitlines() == [
        "unclobber: 1 finding written to known.json",
        "unclobber: 1 finding is suppressed: 1 in the baseline",
    ]
    moved = "# a new line\n\n" + SILENT
    for options in ((), ("--strict",)):
        done = run("--baseline=known.json", *options, text=moved)
        assert (done.returncode, done.stderr) == (
            0,
            "unclobber: 1 finding is suppressed: 1 in the baseline\n",
        )
    twice = moved + "y = w.exp()\ny.data.zero_(){comment}\ny.sum().backward()\n"
    done = run("--baseline=known.json", text=twice)
    assert done.returncode == 1
    lines = done.stderr.splitlines()
    assert "note: 1 finding is suppressed: 1 in the baseline" in lines
    assert lines[-1] == (
        "SUMMARY: UC102 saved-overwritten-silently train.py:10 overwrites what train.py:9 saved"
    )


def test_a_baseline_that_knows_too_much(run):
    run("--write-baseline=known.json", text=SILENT)
    done = run("--baseline=known.json", text="pass\n")
    assert (done.returncode, done.stderr) == (
        0,
        "unclobber: 1 entry of the baseline met no finding in this run\n",
    )


def test_what_torch_refuses_is_not_written(run, tmp_path):
    done = run("--write-baseline=known.json", text=REFUSED)
    assert done.returncode == 1
    assert "1 finding left out of it: what torch refuses can't be suppressed" in done.stderr
    assert json.loads((tmp_path / "known.json").read_text())["findings"] == []


@pytest.mark.parametrize(
    ("options", "settings", "said"),
    [
        ((), 'ignroe = ["UC1"]', "there is no key `ignroe` in [tool.unclobber]"),
        (("--ignore=UC1002",), None, '--ignore: there is no code "UC1002": did you mean UC102?'),
        (("--baseline=none.json",), None, "there is no baseline none.json"),
        (("--write-baseline=no/known.json",), None, "can't write the baseline to no/known.json"),
    ],
)
def test_wrong_settings_run_nothing(run, options, settings, said):
    """One paragraph, exit code 2."""
    done = run(*options, text="print('ran')\n", settings=settings)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("unclobber: ")
    assert said in done.stderr
    assert done.stderr.count("\n") == 1


def test_the_command_line_wins_over_the_file(run):
    """A switch can be turned off again, and what is selected there is told."""
    assert run(text=SILENT, settings="guard = true").returncode == 0
    assert run("--no-guard", text=SILENT).returncode == 1
    done = run("--select=UC102", text=SILENT, settings='ignore = ["UC102"]')
    assert done.returncode == 1


def test_children_obey_too(run, tmp_path):
    """A forked process and a fresh interpreter know the settings."""
    text = (
        "import torch, multiprocessing\n"
        "def work():\n"
        "    w = torch.ones(3, requires_grad=True)\n"
        "    y = w.exp()\n"
        "    y.data.zero_(){comment}\n"
        "    y.sum().backward()\n"
        "if __name__ == '__main__':\n"
        "    for method in ('fork', 'spawn'):\n"
        "        one = multiprocessing.get_context(method).Process(target=work)\n"
        "        one.start()\n"
        "        one.join()\n"
        "        assert one.exitcode == 0\n"
    )
    options = ("--strict", "--format=json", "--output=r.json")
    done = run(*options, text=text, settings='ignore = ["UC102"]')
    assert done.returncode == 0, done.stderr
    (one,) = document(tmp_path)["suppressed"]
    assert (one["suppressed_by"], len(one["processes"])) == ("settings", 2)
