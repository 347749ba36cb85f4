"""What ``tools/zoo.py`` makes of the rows of models, and the pages that ``tools/upstream.py`` runs."""

import ast
import json
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT / "tools"))

import upstream  # noqa: E402
import zoo  # noqa: E402


def row(name="timm/a", **ways):
    mode = {"differs": [], "findings": [], "warnings": [], "alive": False, "left": []}
    return {
        "name": name,
        "ms": {"plain": 10.0, "watch": 11.0, "guard": 12.0},
        "unsteady": [],
        "watch": mode,
        "guard": dict(mode),
        "ways": ways,
    }


def test_a_row_without_differences_has_no_problems():
    """A refusal that torch makes, too, is none."""
    refused = {"plain": "RuntimeError: a leaf", "watch": "refused: UC201", "guard": "refused: UC201"}
    assert zoo.problems_of(row(leaf=refused)) == []


@pytest.mark.parametrize(
    ("mode", "fact", "said"),
    [
        ("watch", {"differs": ["grad 0 w"]}, "watch: grad 0 w differ from plain"),
        ("guard", {"raised": "KeyError"}, "guard raised KeyError"),
        ("guard", {"left": ["torch.Tensor"]}, "guard leaves torch.Tensor"),
        ("watch", {"alive": True}, "watch leaves the model alive"),
    ],
)
def test_what_differs_in_a_plain_step_is_a_problem(mode, fact, said):
    """Unless two plain runs differ, too."""
    off = row()
    off[mode] = {**off[mode], **fact}
    assert zoo.problems_of(off) == [said]
    assert zoo.problems_of({**off, "unsteady": ["grad 0 w"]}) == []


def test_guard_may_differ_only_where_a_reference_is_as_it_is():
    """Where plain is silently wrong, and where it empties autocast's cache, which rounds otherwise."""
    off = {"plain": "ok", "watch": "ok", "guard": "ok", "guard off": ["w"]}
    silent = {**off, "watch findings": ["UC102; written by add_ in a.py:1"]}
    assert zoo.problems_of(row(way=off)) == ["way, guard: w differ from plain"]
    assert zoo.problems_of(row(way=silent)) == []
    assert zoo.problems_of(row(autocast={**off, "guard off reference": []})) == []
    wrong = {**silent, "guard off reference": ["w"]}
    assert zoo.problems_of(row(way=wrong)) == ["way, guard: w differ from the reference"]


def test_rows_survive_a_line_that_was_cut_off(tmp_path):
    """The newest row of a model counts; those of another source only if they are kept."""
    state = zoo.State(tmp_path, keep=False)
    state.add("native", row())
    state.add("native", {**row(), "ways": {"late": {}}})
    old = {**row("timm/old"), "source": "another"}
    with (tmp_path / "native.jsonl").open("a", encoding="utf-8") as file:
        file.write(json.dumps(old) + "\n" + '{"name": "timm/cut')
    assert [*state.rows("native")] == ["timm/a"]
    assert state.rows("native")["timm/a"]["ways"] == {"late": {}}
    assert [*zoo.State(tmp_path, keep=True).rows("native")] == ["timm/a", "timm/old"]


def test_families_come_to_their_ends_together():
    """No family waits for another one's last model."""
    names = {"large": [str(i) for i in range(5)], "small": ["0", "1"]}
    order = [name.split("/")[0] for name in zoo.in_turns(names)]
    assert order == ["large", "small", "large", "large", "large", "small", "large"]


def test_the_page_counts_models_and_names_what_was_not_judged():
    """Each finding has a verdict, or is named as a problem."""
    found = "UC102; written by native_batch_norm in timm/a.py:3"
    silent = {"plain": "ok", "watch": "ok", "guard": "ok", "watch findings": [f"{found}; help: x"]}
    rows = {"timm/a": row(eval=silent), "timm/b": {"name": "timm/b", "not built": "too large"}}
    text, problems = zoo.page({"native": rows}, {"timm": ["a", "b", "c"]}, {})
    assert "|timm|3|1|1|1|0|1|0|" in text
    assert problems == [f"- eval: {found}: not judged"]
    text, problems = zoo.page({"native": rows}, {"timm": ["a", "b", "c"]}, {("eval", found): "true"})
    assert problems == []
    assert f"|eval|{found}|1 (timm/a)|true|" in text


def test_the_zoo_s_page_has_a_verdict_for_each_finding():
    """A run whose findings nobody has read is not written down as one without problems."""
    assert zoo.judged()
    assert "not judged" not in zoo.PAGE.read_text(encoding="utf-8")


@pytest.mark.parametrize("page", upstream.pages([]), ids=lambda page: page.name)
def test_a_page_for_upstream_has_a_short_program(page):
    """It parses, is at most 15 lines, and says the package's version in its title."""
    ast.parse(page.program)
    assert len(page.program.splitlines()) <= upstream.LONGEST
    assert page.edits
    title = (upstream.FOLDER / f"{page.name}.md").read_text(encoding="utf-8").splitlines()[0]
    assert title.split(":")[0].split()[-1][0].isdigit()
    assert f"upstream/{page.name}.md" in (ROOT / "realworld" / "README.md").read_text(encoding="utf-8")
