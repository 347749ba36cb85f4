"""A program run in this process as ``__main__``."""

import sys
from types import ModuleType

import pytest

from unclobber.integrations._saying import shows_stories
from unclobber.repair.main_module import first_on_path, is_default_hook, run_as_main


@pytest.fixture
def _main(monkeypatch):
    """The test runner's own ``__main__`` comes back at the end."""
    monkeypatch.setitem(sys.modules, "__main__", sys.modules["__main__"])


@pytest.mark.usefixtures("_main")
def test_the_programs_module_stays_after_its_body():
    """Threads and pickles of the program's classes need it then."""
    loader = object()
    run_as_main(compile("name = __name__, __file__", "train.py", "exec"), file="train.py", loader=loader)
    module = sys.modules["__main__"]
    assert isinstance(module, ModuleType)
    assert module.name == ("__main__", "train.py")
    assert (module.__loader__, module.__spec__) == (loader, None)


@pytest.mark.usefixtures("_main")
def test_an_exception_of_the_program_passes_through():
    with pytest.raises(ZeroDivisionError):
        run_as_main(compile("1 / 0", "train.py", "exec"), file="train.py", loader=None)


def test_the_programs_folder_replaces_the_commands(monkeypatch):
    """Only the head of ``sys.path`` changes."""
    monkeypatch.setattr(sys, "path", ["bin", "lib"])
    first_on_path("project")
    assert sys.path == (["bin", "lib"] if sys.flags.safe_path else ["project", "lib"])


def test_only_the_interpreters_hook_is_the_default():
    """torch's wrapper of it and a trainer's callback's count as the same; a program's own function does
    not."""
    hook = sys.__excepthook__

    def with_rank(*error):
        return hook(*error)

    assert is_default_hook(hook)
    assert not is_default_hook(with_rank)
    with_rank.__module__ = "torch.distributed.run"
    assert is_default_hook(with_rank)
    assert is_default_hook(shows_stories)
