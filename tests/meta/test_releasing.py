"""What a release needs is there: fragments that can be assembled, and a check of the wheel that can fail."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import unclobber

ROOT = Path(__file__).parents[2]
FRAGMENTS = sorted(path for path in (ROOT / "changelog.d").glob("*.*.md"))


def load_check_dist():
    """The script, as a module."""
    spec = importlib.util.spec_from_file_location("check_dist", ROOT / "tools" / "check_dist.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


check_dist = load_check_dist()
GOOD_WHEEL = {
    "unclobber/__init__.py",
    *(f"unclobber/{name}" for name in check_dist.NEEDED),
    "unclobber-0.1.0.dist-info/METADATA",
}
GOOD_SDIST = {
    *(f"src/{name}" for name in GOOD_WHEEL if name.startswith("unclobber/")),
    *check_dist.IN_SDIST,
}


def test_good_files_are_good():
    assert check_dist.problems(GOOD_WHEEL, GOOD_SDIST) == []


@pytest.mark.parametrize(
    ("wheel", "sdist", "complaint"),
    [
        (GOOD_WHEEL - {"unclobber/py.typed"}, GOOD_SDIST, "lacks unclobber/py.typed"),
        (GOOD_WHEEL, GOOD_SDIST | {"src/unclobber/new.py"}, "lacks unclobber/new.py"),
        (GOOD_WHEEL | {"unclobber/left.py"}, GOOD_SDIST, "which the sdist hasn't"),
        (GOOD_WHEEL | {"tests/test_all.py"}, GOOD_SDIST, "no part of the package"),
        (GOOD_WHEEL, GOOD_SDIST - {"LICENSE"}, "the sdist lacks LICENSE"),
        (GOOD_WHEEL, GOOD_SDIST | {"demo/__pycache__/a.pyc"}, "made by running"),
    ],
)
def test_bad_files_are_told(wheel, sdist, complaint):
    """A file too few or too many, in either."""
    assert any(complaint in problem for problem in check_dist.problems(wheel, sdist))


REPOSITORY = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["urls"][
    "Repository"
]


def other_addresses(text: str) -> set[str]:
    """Return the addresses of repositories named unclobber in a text, but for the one of the settings."""
    return set(re.findall(r"https?://github\.com/[\w.-]+/unclobber\b", text)) - {REPOSITORY}


def test_every_address_of_the_repository_is_the_one_of_the_settings():
    """Pages, examples and the package name the repository that pyproject.toml names."""
    files = [
        *ROOT.glob("*.md"),
        *(path for top in ("docs", "examples", "src", "demo") for path in ROOT.glob(f"{top}/**/*")),
    ]
    texts = [path for path in files if path.suffix in {".md", ".yml", ".yaml", ".py", ".json", ".html"}]
    wrong = {
        path: other_addresses(path.read_text(encoding="utf-8"))
        for path in texts
        if "_build" not in path.parts
    }
    assert {path: found for path, found in wrong.items() if found} == {}
    assert other_addresses("https://github.com/someone-else/unclobber/blob") != set()


@pytest.mark.parametrize(
    ("line", "filled"),
    [
        ("Project-URL: Repository, https://github.com/someone/unclobber", True),
        ("Project-URL: Repository, https://github.com/OWNER/unclobber", False),
        ("Project-URL: Homepage, https://github.com/someone/unclobber", False),
        ("", False),
    ],
)
def test_a_release_without_its_repository_is_refused(line, filled):
    """The wheel must name a repository, and not OWNER's."""
    found = check_dist.unfilled(f"Metadata-Version: 2.4\nName: unclobber\n{line}\n\ntext")
    assert (found == []) == filled


def test_the_package_has_what_the_wheel_needs():
    """So a build can fail the check only by leaving something out."""
    for name in check_dist.NEEDED:
        assert (Path(unclobber.__file__).parent / name).is_file()


def test_another_exit_code_is_an_error(tmp_path):
    """A step of the check that ends otherwise than it should ends the check."""
    check_dist.run(sys.executable, "-c", "raise SystemExit(3)", cwd=tmp_path, expected=3)
    with pytest.raises(check_dist.DistributionError, match="exit code 3"):
        check_dist.run(sys.executable, "-c", "raise SystemExit(3)", cwd=tmp_path)


def test_a_release_collects_every_fragment(tmp_path):
    """Into ``CHANGELOG.md``, word for word, newest release first; the fragments are gone then."""
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    shutil.copytree(ROOT / "changelog.d", tmp_path / "changelog.d")
    shutil.copy(ROOT / "CHANGELOG.md", tmp_path)
    texts = [" ".join(path.read_text(encoding="utf-8").split()) for path in FRAGMENTS]
    build(tmp_path, "1.0.0")
    (tmp_path / "changelog.d" / "later.fixed.md").write_text("Something later.\n")
    build(tmp_path, "1.1.0")
    changelog = (tmp_path / "CHANGELOG.md").read_text(encoding="utf-8")
    assert re.findall(r"^## (.*) \(", changelog, re.M)[:2] == ["unclobber 1.1.0", "unclobber 1.0.0"]
    assert "### Fixed\n\n- Something later.\n" in changelog
    assert all(text in " ".join(changelog.split()) for text in texts)
    assert {path.name for path in (tmp_path / "changelog.d").iterdir()} == {"README.md", "template.md.jinja"}


def build(folder: Path, version: str) -> None:
    """Assemble the changelog, as RELEASING.md says, but for git."""
    settings = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["towncrier"]
    assert settings["directory"] == "changelog.d"
    for words in (("init", "-q"), ("add", ".")):  # towncrier removes fragments by git
        subprocess.run(["git", *words], cwd=folder, check=True, timeout=60)
    subprocess.run(
        [sys.executable, "-m", "towncrier", "build", "--yes", "--version", version],
        cwd=folder,
        check=True,
        capture_output=True,
        timeout=60,
    )


@pytest.mark.parametrize("path", FRAGMENTS, ids=lambda path: path.name)
def test_names_of_fragments(path):
    """``<short-name>.<kind>.md``, with a kind that a release has a heading for."""
    assert re.fullmatch(r"[a-z0-9-]+\.(added|changed|fixed|removed)\.md", path.name)
