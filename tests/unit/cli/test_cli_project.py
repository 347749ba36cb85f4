"""``settings``, ``init`` and ``doctor``: what holds in a project, what it gets, what an issue needs."""

from __future__ import annotations

import json
import re
import tomllib

import jsonschema
import pytest
import yaml

from unclobber.cli import main
from unclobber.settings import ProjectSettings
from unclobber.settings.pyproject import SETTINGS


@pytest.fixture
def here(tmp_path, monkeypatch):
    """An empty working directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_settings_that_hold(here, capsys):
    """Every key with its value, and the file or the default that it comes from."""
    (here / "pyproject.toml").write_text(
        '[tool.unclobber]\nselect = ["uc1"]\nguard = false\n'
        '[tool.unclobber.per-file-ignores]\n"a.py" = ["UC2"]\n'
    )
    (here / "sub").mkdir()
    assert main(["settings", "sub"]) == 0
    rows = [re.split(r"  +", line) for line in capsys.readouterr().out.splitlines()]
    assert [row[0] for row in rows] == list(SETTINGS)
    found = {key: (value, origin) for key, value, origin, *_ in rows}
    assert found["select"] == ('["UC1"]', "pyproject.toml")
    assert found["per-file-ignores"] == ('{"a.py": ["UC2"]}', "pyproject.toml")
    assert found["guard"] == ("false", "pyproject.toml")
    assert found["confidence"] == ('"medium"', "default")


def test_the_schema_for_editors(here, capsys):
    """It has every key, and takes what is printed as an example."""
    assert main(["settings", "--schema"]) == 0
    schema = json.loads(capsys.readouterr().out)
    assert list(schema["properties"]) == list(SETTINGS)
    examples = "\n".join(f"{key} = {setting.example}" for key, setting in SETTINGS.items())
    jsonschema.validate(tomllib.loads(examples), schema)


@pytest.mark.parametrize("words", [["settings", "nowhere"], ["settings", "--format"]])
def test_wrong_use(here, capsys, words):
    """One line, exit code 2."""
    assert main(words) == 2
    assert capsys.readouterr().err.count("\n") == 1


PYPROJECT = '[project]\nname = "mine"  # a comment\n'
HOOKS = "# mine\nrepos:\n  - repo: https://example.org/other\n    rev: v1\n    hooks: [{id: other}]\n"


def test_a_project_is_set_up(here, capsys):
    """Settings, hook and job are added to what is there; a second time nothing changes."""
    (here / "pyproject.toml").write_text(PYPROJECT)
    (here / ".pre-commit-config.yaml").write_text(HOOKS)
    assert main(["init", "--pre-commit", "--github"]) == 0
    texts = {path: path.read_text() for path in here.rglob("*") if path.is_file()}
    assert texts[here / "pyproject.toml"].startswith(PYPROJECT)
    hooks = texts[here / ".pre-commit-config.yaml"]
    assert hooks.startswith(HOOKS)
    assert [one["hooks"][0]["id"] for one in yaml.safe_load(hooks)["repos"]] == ["other", "unclobber-check"]
    workflow = yaml.safe_load(texts[here / ".github" / "workflows" / "unclobber.yml"])
    assert "/unclobber@v" in workflow["jobs"]["check"]["steps"][1]["uses"]
    assert main(["init", "--pre-commit", "--github"]) == 0
    assert capsys.readouterr().out.count("left as it is") == 3
    assert texts == {path: path.read_text() for path in here.rglob("*") if path.is_file()}


def test_the_settings_in_comments_are_right(here, capsys):
    """Without their comment signs they are read."""
    assert main(["init"]) == 0
    text = (here / "pyproject.toml").read_text()
    assert ProjectSettings.of(str(here)).given == ()
    (here / "pyproject.toml").write_text(re.sub(r"^# (?=[\w-]+ = )", "", text, flags=re.M))
    assert ProjectSettings.of(str(here)).given == tuple(SETTINGS)


def test_what_can_not_be_added_to_is_left_alone(here, capsys):
    """The lines to add are shown where they would not belong to the list."""
    text = f"{HOOKS}ci: {{autofix_prs: false}}\n"
    (here / ".pre-commit-config.yaml").write_text(text)
    assert main(["init", "--pre-commit"]) == 2
    assert "      - id: unclobber-check" in capsys.readouterr().err
    assert (here / ".pre-commit-config.yaml").read_text() == text
    (here / "pyproject.toml").write_text("[tool\n")
    assert main(["init"]) == 2
    assert "pyproject.toml is no valid TOML" in capsys.readouterr().err


def test_a_file_that_can_not_be_read_or_written_is_named(here, capsys):
    """One paragraph, exit code 2, and what is there is left as it is."""
    (here / "pyproject.toml").mkdir()
    assert main(["init"]) == 2
    assert "can't add to pyproject.toml: is a directory. It must be a text file" in capsys.readouterr().err
    (here / "pyproject.toml").rmdir()
    (here / "pyproject.toml").write_bytes(b"# \xe4\n")
    assert main(["init"]) == 2
    assert "can't add to pyproject.toml: it is no UTF-8. " in capsys.readouterr().err
    assert (here / "pyproject.toml").read_bytes() == b"# \xe4\n"
    (here / "pyproject.toml").unlink()
    (here / ".github").write_text("")
    assert main(["init", "--github"]) == 2
    err = capsys.readouterr().err
    assert err.startswith("unclobber: can't add to .github/workflows/unclobber.yml: not a directory. ")
    assert err.count("\n") == 1


def test_what_an_issue_needs(here, capsys, monkeypatch):
    """Versions, the core, the self-tests, settings and variables; no path of a home."""
    monkeypatch.setenv("UNCLOBBER_X", "1")
    assert main(["doctor"]) == 0
    lines = dict(line.split(": ", 1) for line in capsys.readouterr().out.splitlines()[1:])
    assert list(lines) == ["needs", "besides", "settings", "environment", "torch", "core", "self-tests"]
    assert "jinja2 " in lines["needs"]
    assert "UNCLOBBER_X=1" in lines["environment"]
    assert lines["core"].startswith("saves are seen by the ")
    assert (lines["settings"], lines["self-tests"]) == ("the defaults", "all pass")


def test_a_mechanism_that_fails_is_in_it(here, capsys, monkeypatch):
    """What can't be seen is said, and the exit code is 1."""
    from unclobber.observe.hooks.mechanisms import Off
    from unclobber.session.session import installation

    off = (Off("data", "writes through .data go unseen"),)
    monkeypatch.setattr(type(installation), "off", lambda self: off)
    assert main(["doctor"]) == 1
    out = capsys.readouterr().out
    assert "self-tests: one or more fail\n  can't be seen here: writes through .data go unseen\n" in out
