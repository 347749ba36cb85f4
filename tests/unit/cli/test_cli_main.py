"""What the command answers to words that are no program."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys
import time

import pytest

from unclobber.cli import main
from unclobber.cli._main import COMMANDS
from unclobber.model import CODES


@pytest.mark.parametrize("words", [["-h"], ["--help"], []])
def test_help(words, capsys):
    """``-h``, and no word at all; the latter is no use of it, so the exit code is 2."""
    assert main(words) == (0 if words else 2)
    out, err = capsys.readouterr()
    text = out if words else err
    assert text.startswith("Usage: unclobber [OPTIONS] COMMAND")
    assert [name for name in COMMANDS if f"\n  {name} " not in text] == []


@pytest.mark.parametrize("name", COMMANDS)
def test_help_of_a_command(name, capsys):
    """It has the example that the list of commands shows; ``help`` is a word for it."""
    assert main([name, "-h"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith(f"Usage: unclobber {name} ")
    assert f"Example: {COMMANDS[name].example}" in " ".join(shown.split())
    assert main(["help", name]) == 0
    assert capsys.readouterr().out == shown


def test_help_and_version_are_words_for_the_options(capsys):
    """So they are after many another command; ``-V`` is there, too."""
    main(["--help"])
    shown = capsys.readouterr().out
    assert main(["help"]) == 0
    assert capsys.readouterr().out == shown
    assert [f"$ {line.example}" in shown for line in COMMANDS.values()] == [True] * len(COMMANDS)
    versions = set()
    for word in ("--version", "-V", "version"):
        assert main([word]) == 0
        versions.add(capsys.readouterr().out)
    assert len(versions) == 1


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("rum 'a b.py'", "Did you mean `unclobber run 'a b.py'`?"),
        ("Rules", "Did you mean `unclobber rules`?"),
        ("train.py --epochs 1", "Did you mean `unclobber run train.py --epochs 1`?"),
        ("guard x.py", "Did you mean `unclobber run --guard x.py`?"),
        ("guard -m pack", "Did you mean `unclobber run --guard -m pack`?"),
        ("--guard x.py", "Did you mean `unclobber run --guard x.py`?"),
        ("-m pack", "Did you mean `unclobber run -m pack`?"),
        ("watch x.py", "Did you mean `unclobber run x.py`?"),
        ("audit x.py", "Did you mean `unclobber run x.py`?"),
        ("profile x.py", "Did you mean `unclobber memory x.py`?"),
        ("mem x.py", "Did you mean `unclobber memory x.py`?"),
        ("lint src", "Did you mean `unclobber check src`?"),
        ("repair x.py", "Did you mean `unclobber fix x.py`?"),
        ("uc101", "Did you mean `unclobber explain uc101`?"),
        ("zzz", "The commands are run, fix"),
    ],
)
def test_an_unknown_command(word, said, capsys):
    """One line names the unknown word, and the command line that was probably meant."""
    first, *others = shlex.split(word)
    assert main([first, *others]) == 2
    err = capsys.readouterr().err
    kind = "option" if first.startswith("-") else "command"
    assert err.startswith(f"unclobber: No such {kind} '{first}'. {said}")
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "meant"),
    [("explain x.py", "run x.py"), ("rules x.py", "run x.py"), ("rules exp UC101", "explain UC101")],
)
def test_an_argument_for_another_command(words, meant, capsys):
    """A program or a code is given to the command that takes it."""
    assert main(words.split()) == 2
    assert f"Did you mean `unclobber {meant}`?" in capsys.readouterr().err


@pytest.mark.parametrize("given", ["101", "UC101", "uc101", "saved-overwritten"])
def test_explain_by_number(given, capsys):
    """`explain` takes a code, its number or its name, in any case."""
    assert main(["explain", given]) == 0
    assert capsys.readouterr().out.startswith("# UC101 saved-overwritten\n")


@pytest.mark.parametrize(("given", "meant"), [("saved-overwriten", "UC101"), ("302", "UC301")])
def test_explain_what_is_no_code(capsys, given, meant):
    """The code that was probably meant is named, and no page is printed."""
    assert main(["explain", "UC101", given]) == 2
    shown = capsys.readouterr()
    assert f"did you mean {meant}?" in shown.err
    assert shown.out == ""


def test_explain_several_codes(capsys):
    """Their pages follow each other."""
    assert main(["explain", "UC102", "101"]) == 0
    titles = [line for line in capsys.readouterr().out.splitlines() if line.startswith("# UC")]
    assert titles == ["# UC102 saved-overwritten-silently", "# UC101 saved-overwritten"]


@pytest.mark.parametrize("name", COMMANDS)
def test_ctrl_c(name, monkeypatch, capsys):
    """Wherever a command of ours is, one line and the exit code of an interrupted program."""
    from unclobber.cli import _main

    def interrupted(*words):
        raise KeyboardInterrupt

    monkeypatch.setattr(_main.group, "invoke", interrupted)
    assert main([name]) == 130
    assert capsys.readouterr().err == "unclobber: interrupted\n"


def test_the_watched_programs_ctrl_c_ends_the_interpreter(monkeypatch, capsys):
    """It has been shown already, so nothing is said."""
    from unclobber.cli import _main, _program

    monkeypatch.setattr(sys, "excepthook", sys.excepthook)  # put back when the test ends
    monkeypatch.setattr(_main.group, "invoke", lambda _: _program.die_interrupted())
    with pytest.raises(KeyboardInterrupt):
        main(["run"])
    assert capsys.readouterr().err == ""


def completed(*words: str) -> list[str]:
    """What bash is offered for the last word."""
    environment = {
        **os.environ,
        "_UNCLOBBER_COMPLETE": "bash_complete",
        "COMP_WORDS": " ".join(["unclobber", *words]),
        "COMP_CWORD": str(len(words)),
    }
    done = subprocess.run(
        [sys.executable, "-m", "unclobber"],
        env=environment, capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    return done.stdout.split()


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (["r"], ["plain,run", "plain,rules"]),
        (["run", "--basel"], ["plain,--baseline"]),
        (["run", "--format", "s"], ["plain,sarif"]),
        (["run", "tra"], ["file,tra"]),
        (["explain", "UC30"], ["plain,UC301"]),
    ],
)
def test_completion(words, offered):
    """The shell is offered the words that fit what was typed."""
    assert completed(*words) == offered


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
def test_completion_in_bash(tmp_path):
    """bash takes the script that is written for it, and asks the command by it."""
    command = tmp_path / "unclobber"
    command.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m unclobber "$@"\n')
    command.chmod(0o755)
    script = (
        'eval "$(_UNCLOBBER_COMPLETE=bash_source unclobber)"\n'
        "complete -p unclobber >&2\n"
        "COMP_WORDS=(unclobber explain UC20)\nCOMP_CWORD=2\n"
        "_unclobber_completion unclobber\n"
        'echo "${COMPREPLY[@]}"\n'
    )
    done = subprocess.run(
        ["bash", "-c", script],
        env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"},
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    assert "-F _unclobber_completion unclobber" in done.stderr
    assert done.stdout.split() == [code for code in CODES if code.startswith("UC20")]


def _importing(tmp_path, torch):
    """The command in a process of its own, where ``torch`` stands for the text of torch."""
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").write_text(torch)
    return subprocess.Popen(
        [sys.executable, "-m", "unclobber", "rules", "exp"],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )  # fmt: skip


@pytest.mark.parametrize("then", ["pass", "raise ImportError('half of it') from None"])
def test_ctrl_c_while_torch_is_imported(tmp_path, then):
    """What NumPy's import makes of it, which goes on, or says that it is broken."""
    torch = "import os, signal\ntry: os.kill(os.getpid(), signal.SIGINT)\n"
    process = _importing(tmp_path, f"{torch}except KeyboardInterrupt: {then}\n")
    _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (130, "unclobber: interrupted\n")


def test_ctrl_c_twice_while_torch_is_imported(tmp_path):
    """Who has no patience is not made to wait for the end of it."""
    process = _importing(tmp_path, "import time\nfor _ in range(600): print(flush=True), time.sleep(0.1)\n")
    assert process.stdout is not None
    for _ in range(2):
        assert process.stdout.readline() == "\n"
        process.send_signal(signal.SIGINT)
        time.sleep(0.2)
    _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (130, "unclobber: interrupted\n")
