"""``[tool.unclobber]``: where it is found, what it may say, and what a command line says over it."""

from __future__ import annotations

import contextlib
import re
import tomllib
from pathlib import Path

import jsonschema
import pytest

from unclobber.cli.settings import json_schema
from unclobber.settings import ProjectSettings, SettingsError
from unclobber.settings.pyproject import SETTINGS


def project(folder, text):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "pyproject.toml").write_text(text, encoding="utf-8")
    return folder


def test_the_nearest_file_with_our_table_counts(tmp_path):
    """A pyproject.toml without ``[tool.unclobber]`` is passed by, whatever else is in it."""
    project(tmp_path, '[tool.unclobber]\nignore = ["UC1"]\n')
    project(tmp_path / "inner", "[project\nthis is no TOML")
    assert ProjectSettings.of(str(tmp_path / "inner" / "deep")).ignore == ("UC1",)
    project(tmp_path / "inner", '[tool.unclobber]\nselect = ["uc301"]\nstrict = true\n')
    found = ProjectSettings.of(str(tmp_path / "inner" / "deep"))
    assert (found.select, found.ignore, found.strict) == (("UC301",), (), True)


def test_a_changed_file_is_read_again(tmp_path):
    """A notebook lives longer than its settings."""
    project(tmp_path, "[tool.unclobber]\nguard = true\n")
    assert ProjectSettings.of(str(tmp_path)).guard
    project(tmp_path, "[tool.unclobber]\nguard = false\n")
    assert not ProjectSettings.of(str(tmp_path)).guard


def test_every_key(tmp_path):
    """Each key of the table reaches its field."""
    text = """
        [tool.unclobber]
        select = ["UC1", "UC2"]
        ignore = ["UC104"]
        per-file-ignores = {"tests/*" = ["UC102"]}
        strict = true
        fingerprint = 0.5
        guard = true
        exclude = ["old/*"]
        confidence = "high"
        baseline = "known.json"
        cache-dir = "kept"
    """
    assert ProjectSettings.of(str(project(tmp_path, text))) == ProjectSettings(
        ("UC1", "UC2"),
        ("UC104",),
        (("tests/*", ("UC102",)),),
        True,
        0.5,
        True,
        folder=str(tmp_path),
        exclude=("old/*",),
        confidence="high",
        baseline=str(tmp_path / "known.json"),
        cache_dir=str(tmp_path / "kept"),
        given=tuple(SETTINGS),
    )


def test_editors_take_the_same_values(tmp_path):
    """The schema accepts what the reader accepts, and refuses what it refuses."""
    texts = {
        'select = ["UC1", "uc101"]': True,
        'select = ["E501"]': False,
        "per-file-ignores = {'a.py' = ['UC1']}": True,
        "fingerprint = true": True,
        "fingerprint = 2": False,
        "strict = 1": False,
        'exclude = ["a"]': True,
        "exclude = [1]": False,
        'confidence = "low"': False,
        "baseline = 3": False,
        "selekt = []": False,
    }
    for text, is_right in texts.items():
        table = tomllib.loads(text)
        assert jsonschema.Draft7Validator(json_schema()).is_valid(table) == is_right, text
        folder = str(project(tmp_path / str(abs(hash(text))), f"[tool.unclobber]\n{text}\n"))
        with contextlib.nullcontext() if is_right else pytest.raises(SettingsError):
            ProjectSettings.of(folder)
    jsonschema.Draft7Validator.check_schema(json_schema())


@pytest.mark.parametrize(
    ("glob", "excluded"),
    [
        ("old", ["/p/old/a.py", "/p/old/deep/a.py"]),
        ("old/", ["/p/old/a.py", "/p/old/deep/a.py"]),
        ("old/deep", ["/p/old/deep/a.py"]),
        ("a.py", ["/p/a.py", "/p/old/a.py", "/p/old/deep/a.py"]),
        ("**/deep/*", ["/p/old/deep/a.py"]),
    ],
)
def test_excluded_files_and_folders(glob, excluded):
    """A glob also leaves out all that is below a folder."""
    settings = ProjectSettings(exclude=(glob,), folder="/p")
    assert [
        path for path in ("/p/a.py", "/p/old/a.py", "/p/old/deep/a.py") if settings.excludes(path)
    ] == excluded


@pytest.mark.parametrize(
    ("line", "parts"),
    [
        ('selct = ["UC1"]', ["no key `selct`", "did you mean `select`?", "per-file-ignores"]),
        ("per_file_ignores = {}", ["did you mean `per-file-ignores`?"]),
        ("colour = true", ["no key `colour` in [tool.unclobber]", "The keys are select, ignore"]),
        ('select = "UC1"', ["`select` in [tool.unclobber] of", 'is "UC1": it is a list of codes']),
        ("ignore = [1]", ["`ignore`", "is [1]: it is a list of codes"]),
        ('ignore = ["UC1001"]', ["`ignore`", 'no code "UC1001": did you mean UC101?']),
        ('ignore = ["101"]', ['no code "101": did you mean UC101?']),
        ('select = ["saved-overwritten"]', ["did you mean UC101?"]),
        ('select = ["E501"]', ['no code "E501"', "The codes are UC101, UC102"]),
        ('per-file-ignores = ["UC1"]', ["`per-file-ignores`", "a table of globs"]),
        ('per-file-ignores = {"a.py" = ["UCX"]}', ['"a.py" of `per-file-ignores`', 'no code "UCX"']),
        ('strict = "yes"', ["`strict`", 'is "yes": it is true or false']),
        ("fingerprint = 2", ["`fingerprint`", "is 2: it is a number from 0 to 1"]),
        ("guard = 1", ["`guard`", "is 1: it is true or false"]),
        ("strict = ", ["is no valid TOML"]),
    ],
)
def test_what_is_wrong_is_named(tmp_path, line, parts):
    """One paragraph: the key, the file, what it holds and what it may hold."""
    project(tmp_path, f"[tool.unclobber]\n{line}\n")
    with pytest.raises(SettingsError) as caught:
        ProjectSettings.of(str(tmp_path))
    text = str(caught.value)
    assert [part for part in [*parts, str(tmp_path / "pyproject.toml")] if part not in text] == []
    assert "\n" not in text.rstrip()
    assert text[-1] in ".?"
    assert caught.value.exit_code == 2


def test_a_table_that_is_none(tmp_path):
    project(tmp_path, "[tool]\nunclobber = 3\n")
    with pytest.raises(SettingsError, match=r"is 3: it is a table, `\[tool.unclobber\]`"):
        ProjectSettings.of(str(tmp_path))


@pytest.mark.parametrize(
    ("select", "ignore", "left_out"),
    [
        (None, (), []),
        (None, ("UC1",), ["UC101", "UC102"]),
        (("UC1",), (), ["UC203"]),
        (("UC101",), ("UC1",), ["UC102", "UC203"]),
        (("UC1",), ("UC102",), ["UC102", "UC203"]),
        (("UC1",), ("UC1",), ["UC101", "UC102", "UC203"]),
        ((), (), ["UC101", "UC102", "UC203"]),
    ],
)
def test_the_longest_beginning_decides(select, ignore, left_out):
    settings = ProjectSettings(select, ignore)
    assert [c for c in ("UC101", "UC102", "UC203") if settings.leaves_out(c, None)] == left_out


@pytest.mark.parametrize(
    ("select", "ignore", "left_out"),
    [
        (("UC102",), (), ["UC101", "UC203"]),
        ((), ("UC2",), ["UC102", "UC203"]),
        (("UC2",), ("UC101",), ["UC101", "UC102"]),
        ((), ("UC1",), ["UC101", "UC102"]),
    ],
)
def test_the_command_line_wins(select, ignore, left_out):
    """Its ``--select`` replaces both lists; its ``--ignore`` beats even a longer ``select`` of the file."""
    settings = ProjectSettings(("UC101", "UC2"), ("UC102",)).under(select=select, ignore=ignore)
    assert [c for c in ("UC101", "UC102", "UC203") if settings.leaves_out(c, None)] == left_out


@pytest.mark.parametrize(
    ("glob", "matched"),
    [
        ("train.py", ["/p/train.py", "/p/old/train.py"]),
        ("old/*", ["/p/old/train.py", "/p/old/deep/a.py"]),
        ("old/", ["/p/old/train.py", "/p/old/deep/a.py"]),
        ("**/a.py", ["/p/old/deep/a.py"]),
        ("./train.py", ["/p/train.py", "/p/old/train.py"]),
        ("deep/*", []),
    ],
)
def test_globs(glob, matched):
    """A file's name, or its path from the folder of the settings on."""
    settings = ProjectSettings(per_file_ignores=((glob, ("UC102",)),), folder="/p")
    paths = ["/p/train.py", "/p/old/train.py", "/p/old/deep/a.py"]
    assert [path for path in paths if settings.leaves_out("UC102", path)] == matched
    assert not any(settings.leaves_out("UC101", path) for path in paths)


def test_the_documented_table_is_one(tmp_path):
    """The page's example is read as it stands there, and shows every key."""
    page = (Path(__file__).parents[3] / "docs" / "settings.md").read_text(encoding="utf-8")
    (text,) = re.findall(r"^```toml\n(.*?)^```$", page, re.M | re.S)
    found = ProjectSettings.of(str(project(tmp_path, text)))
    assert found.per_file_ignores == (("tests/*", ("UC102",)),)
    assert [key for key in SETTINGS if key not in text] == []
