"""``unclobber vet`` as a command: targets, formats, exit codes, crashes and time limits."""

from __future__ import annotations

import json
import sys

import pytest
import torch

import unclobber
import warm
from torch_features import needs
from unclobber.vetting._processes import can_fork, run_ways
from unclobber.vetting._targets import Target

MODEL = """
import os
import time

import torch
from torch import nn


class Net(nn.Module):
    def __init__(self, width=4, write=True):
        super().__init__()
        self.layer = nn.Linear(width, 4)
        self.write = write

    def forward(self, x):
        if self.write:
            x += 1
        return self.layer(x)


class Dies(Net):
    def forward(self, x):
        if not self.training:
            print("about to die")
            os.abort()
        if torch.is_autocast_enabled("cpu"):
            time.sleep(60)
        return self.layer(x)


class Leaves(Net):
    def forward(self, x):
        raise ValueError("no")


def clean():
    print("printed while it is built")
    return Net(write=False), torch.ones(2, 4)


def dies():
    return Dies(), torch.ones(2, 4)


def leaves():
    return Leaves(), torch.ones(2, 4)


def uncopied():
    module = Net()
    module.steps = (step for step in range(3))
    return module, torch.ones(2, 4)


def inputs(module):
    return {"x": torch.ones(3, module.layer.in_features)}


def number():
    return 3


class Configured(Net):
    config_class = dict


class Unconfigured(Net):
    config_class = complex


THREE = 3
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("vet")
    (folder / "model.py").write_text(MODEL)
    (folder / "net.json").write_text('{"width": 6}')
    (folder / "list.json").write_text("[1, 2]")
    (folder / "target.json").write_text('{"target": 3}')
    return folder


@pytest.fixture(scope="module")
def vet(folder):
    return lambda *words: warm.unclobber("vet", *words, cwd=folder)


def ways(*names):
    return [word for name in names for word in ("--way", name)]


def test_text_has_the_story_and_ends_in_the_table(vet):
    """The exit code is 1, and the story names the line and the way."""
    done = vet("model.py:Net", *ways("plain", "leaf"))
    assert done.returncode == 1
    assert done.stdout.startswith("error[UC201] leaf-written: `x` is a leaf that requires grad")
    assert "seen in 1 way of training model.py:Net: leaf" in done.stdout
    assert done.stdout.endswith(
        "way    verdict  model.py:Net\nplain  fine\nleaf   refused  UC201 model.py:17\n\n"
        "SUMMARY: model.py:Net: 1 of 2 ways with a fault\n"
    )


@needs("history of autocast's copies")
def test_a_clean_module_exits_with_0_in_all_ways(vet):
    """What its factory prints is on standard error."""
    done = vet("model.py:clean")
    assert (done.returncode, done.stderr) == (0, "printed while it is built\n")
    assert done.stdout.count("fine") == len(unclobber.ways)
    assert done.stdout.endswith(f"SUMMARY: model.py:clean: 0 of {len(unclobber.ways)} ways with a fault\n")


def test_a_crash_and_a_time_limit_are_rows(vet):
    """The other ways have their results all the same."""
    done = vet("model.py:dies", *ways("plain", "eval-then-train", "two-steps"), "--format", "json")
    assert done.returncode == 1
    document = json.loads(done.stdout)
    (vetted,) = document["vetted"]
    results = {result["way"]: (result["verdict"], result["reason"]) for result in vetted["ways"]}
    assert results["plain"] == results["two-steps"] == ("fine", None)
    verdict, reason = results["eval-then-train"]
    assert verdict == "crashed"
    assert reason.startswith("signal SIGABRT")
    assert [notice.split(": ")[1] for notice in document["notices"]] == ["eval-then-train"]
    late = vet("model.py:dies", *ways("no-grad-first"), "--timeout", "0.5")
    assert late.returncode == 0  # it may be no fault of the module's
    assert "no-grad-first  time limit  it ran for more than 0.5 s\n" in late.stdout
    assert late.stdout.endswith("0 of 1 way with a fault, 1 way without an answer in time\n")


def test_json_has_the_line_and_sarif_the_result(vet, folder):
    done = vet("model.py:Net(write=True)", *ways("leaf"), "--format", "json")
    document = json.loads(done.stdout)
    assert document["command"] == ["vet", "model.py:Net(write=True)"]
    assert document["exit_code"] == done.returncode == 1
    assert [finding["code"] for finding in document["findings"]] == ["UC201"]
    ((way,),) = [vetted["ways"] for vetted in document["vetted"]]
    assert (way["verdict"], way["path"], way["line"]) == ("refused", str(folder / "model.py"), 17)
    assert (way["codes"], way["gradients"]) == (["UC201"], [])
    assert vet("model.py:Net", *ways("leaf"), "--format", "sarif", "--output", "out.sarif").returncode == 1
    (run,) = json.loads((folder / "out.sarif").read_text())["runs"]
    assert [result["ruleId"] for result in run["results"]] == ["UC201"]


def test_several_targets_have_a_column_each(vet):
    done = vet("model.py:clean", "model.py:Net", *ways("leaf"))
    assert "way   model.py:clean  model.py:Net\nleaf  fine            refused UC201\n" in done.stdout
    assert done.returncode == 1


def test_a_target_that_is_not_built_is_a_column_and_the_others_go_on(vet):
    """The exit code is that of wrong use all the same, and the reason is on standard error."""
    done = vet("model.py:Nat", "model.py:clean", "model.py:leaves", *ways("plain"), "--format", "json")
    assert done.returncode == 2
    vetted = {vetting["target"]: vetting for vetting in json.loads(done.stdout)["vetted"]}
    assert [vetting["problem"] for vetting in vetted.values()] == [
        "model.py has no 'Nat'",
        None,
        "model.py:leaves can't be trained at all: ValueError: no",
    ]
    assert [len(vetting["ways"]) for vetting in vetted.values()] == [0, 1, 0]
    assert "model.py has no 'Nat'; model.py:leaves can't be trained" in " ".join(done.stderr.split())
    text = vet("model.py:Nat", "model.py:clean", *ways("plain")).stdout
    assert text == (
        "way    model.py:Nat  model.py:clean\nplain  not built     fine\n\n"
        "SUMMARY: model.py:Nat: not built; model.py:clean: 0 of 1 way with a fault\n"
    )


def test_an_edit_of_the_module_s_own_file_is_proved(vet, folder):
    """By the gradients of all leaves in that way; the file stays as it is."""
    done = vet("model.py:Net", *ways("leaf"), "--format", "json")
    fix = json.loads(done.stdout)["findings"][0]["fixes"][0]
    assert fix["verified"] == "whole-run"
    assert "-            x += 1\n+            x = x + 1\n" in fix["diff"]
    assert (folder / "model.py").read_text() == MODEL


def test_arguments_come_from_the_target_a_file_or_a_function(vet):
    """All three must fit: the wrong width would fail."""
    given = ("--inputs", "model.py:inputs", *ways("plain"))
    assert vet("model.py:Net(6)", *given).returncode == 0
    assert vet("model:Net", "--config", "net.json", *given).returncode == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "no module named. Name one"),
        (("model.py",), "'model.py' names no module. Write `package.module:Class`"),
        (("other.py:Net",), "there is no file other.py"),
        (("model.py:Nat",), "model.py has no 'Nat'"),
        (("no_such:Net",), "can't be imported: ModuleNotFoundError: No module named 'no_such'"),
        (("model.py:number",), "gives int, and needs to give a torch.nn.Module or (module, inputs)"),
        (("model.py:Net(depth=2)",), "Give arguments in the target"),
        (("model.py:Net(print)",), "must be literals"),
        (("model.py:Net({[]: 1})",), "must be literals"),
        (("model.py:Net(**{'width': 8})",), "must be literals, each alone or by its name"),
        (("model.py:Net", "--config", "model.py"), "model.py is no JSON file of arguments"),
        (("model.py:Net", "--config", "list.json"), "list.json is no JSON object of arguments"),
        (("model.py:Net", "--config", "target.json"), "unexpected keyword argument 'target'"),
        (("model.py:Configured", "--config", "list.json"), "list.json is no JSON object of arguments"),
        (("model.py:Unconfigured", "--config", "net.json"), "can't be built: TypeError: "),
        (("model.py:Net", "--inputs", "model.py:THREE"), "model.py:THREE is no function that makes inputs"),
        (("model.py:Net", "model.py:Net", "--config", "net.json"), "are for one target"),
        (("model.py:Net", "--way", "lroa"), "there is no way 'lroa'"),
        (("--list", "--format", "json"), "--list is for the text format. Leave --format json out."),
        (("model.py:leaves", "--way", "plain"), "can't be trained at all: ValueError: no"),
        (("model.py:uncopied", *ways("plain", "leaf")), "Net can't be copied, so no run could start afresh"),
        (("model.py:Leaves",), "no inputs are known for model.py:Leaves: the last of"),
    ],
)
def test_a_target_that_can_not_be_used_is_exit_code_2(vet, words, said):
    done = vet(*words)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr


@pytest.mark.parametrize("package", ["transformers", "timm"])
def test_a_missing_package_of_models_is_one_sentence(package, monkeypatch):
    monkeypatch.setitem(sys.modules, package, None)
    target = {"transformers": "hf:blip", "timm": "timm:resnet18"}[package]
    with pytest.raises(unclobber.UnclobberError, match=f"{target} needs the package {package}, which is not"):
        Target(target).load()


def test_list_names_each_way_with_a_sentence(vet):
    lines = vet("--list").stdout.splitlines()
    assert [line.split()[0] for line in lines if line[2] != " "] == list(unclobber.ways)
    assert all(len(line) <= 80 for line in lines)


def test_a_process_with_threads_is_not_forked_and_loads_the_target_itself(folder, monkeypatch):
    """Where forks are not safe, a way's process starts from nothing and comes to the same."""
    monkeypatch.setattr("unclobber.vetting._processes.can_fork", lambda: False)
    monkeypatch.chdir(folder)
    target = Target("model.py:Net")
    (result,) = run_ways(target, target.load(), ["leaf"], jobs=1, limit=100)
    assert (result.verdict, result.line.line) == ("refused", 17)


def test_a_process_that_loads_the_target_itself_sends_its_error(folder, monkeypatch):
    """A module that can't be copied is a wrong target, and no crash of each way."""
    monkeypatch.setattr("unclobber.vetting._processes.can_fork", lambda: False)
    monkeypatch.chdir(folder)
    target = Target("model.py:uncopied")
    with pytest.raises(unclobber.UnclobberError, match="Net can't be copied"):
        run_ways(target, target.load(), ["plain", "leaf"], jobs=1, limit=100)


def test_forks_are_safe_only_without_threads(monkeypatch):
    monkeypatch.setattr("os.listdir", lambda path: ["1", "2"])
    assert not can_fork()
    monkeypatch.setattr("os.listdir", lambda path: ["1"])
    assert can_fork() == (sys.platform == "linux" and not torch.cuda.is_initialized())
