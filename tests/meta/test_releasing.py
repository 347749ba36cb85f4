"""What a release needs is there: a changelog in order, and a check of the wheel that can fail."""

from __future__ import annotations

import importlib.util
import re
import sys
import tomllib
from pathlib import Path

import pytest

import unclobber

ROOT = Path(__file__).parents[2]


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
GOOD_SDIST = {*(f"src/{name}" for name in GOOD_WHEEL if name.startswith("unclobber/")), *check_dist.IN_SDIST}


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


HEADING = re.compile(r"^## (\d+\.\d+\.\d+), (not released yet|\d{4}-\d\d-\d\d)$", re.M)


def wrong_headings(changelog: str) -> list[str]:
    """Return what is wrong with the sections of a changelog."""
    sections = HEADING.findall(changelog)
    versions = [tuple(map(int, version.split("."))) for version, _ in sections]
    problems = [line for line in re.findall(r"^## .*", changelog, re.M) if not HEADING.fullmatch(line)]
    problems += ["not newest first"] * (versions != sorted(set(versions), reverse=True))
    problems += [f"{version} is not released" for version, date in sections[1:] if date.startswith("not")]
    return problems


def test_the_changelog_begins_with_this_version():
    """Or, after its release, with the next one, which is not released yet."""
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert wrong_headings(changelog) == []
    (version, date), *others = HEADING.findall(changelog)
    assert version == unclobber.__version__ or (
        date == "not released yet" and others[0][0] == unclobber.__version__
    )


@pytest.mark.parametrize(
    "changelog",
    [
        "## 0.2.0\n\n## 0.1.0, 2026-01-01\n",
        "## 0.1.0, 2026-01-01\n\n## 0.2.0, 2026-02-01\n",
        "## 0.2.0, 2026-02-01\n\n## 0.1.0, not released yet\n",
    ],
)
def test_a_wrong_changelog_is_noticed(changelog):
    """A heading without a date, a wrong order, a section that no release took."""
    assert wrong_headings("## 0.2.0, not released yet\n\n## 0.1.0, 2026-01-01\n") == []
    assert len(wrong_headings(changelog)) == 1
