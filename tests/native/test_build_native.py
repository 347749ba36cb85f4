"""``unclobber build-native``: what is compiled, which core runs, and what is said where none can be."""

import sys
import threading
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from unclobber.cli import _main
from unclobber.cli.build_native import command
from unclobber.model import UnclobberError
from unclobber.observe.native import build, core, place


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """An empty cache, used by a Python without a virtual environment."""
    monkeypatch.delenv(place.FOLDER, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(sys, "base_prefix", sys.prefix)
    monkeypatch.delenv(core.SWITCH, raising=False)
    return tmp_path


def test_the_key_is_of_torch_python_and_source(cache, monkeypatch, tmp_path):
    keys = {place.key()}
    for name, value in (("torchs_build", "2.13.0 other"), ("pythons_build", "3.11.7 other")):
        with monkeypatch.context() as patch:
            patch.setattr(place, name, lambda value=value: value)
            keys.add(place.key.__wrapped__())
    changed = tmp_path / "sources"
    changed.mkdir()
    (changed / "one.cpp").write_text("// another source")
    with monkeypatch.context() as patch:
        patch.setattr(place, "SOURCES", changed)
        keys.add(place.key.__wrapped__())
    assert len(keys) == 4
    assert place.key.__wrapped__() == place.key()


def test_a_virtual_environment_has_its_own_core(cache, monkeypatch, tmp_path):
    """Unless it can't be written to, or the user's cache has one already."""
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "venv"))
    own = Path(sys.prefix, "lib", "unclobber", "native", place.key())
    assert place.compiled().parent == cache / "unclobber" / "native" / place.key()  # there is no such folder
    own.mkdir(parents=True)
    file = place.compiled()
    assert file.parent == own
    cached = cache / "unclobber" / "native" / place.key() / file.name
    cached.parent.mkdir(parents=True)
    cached.touch()
    assert place.compiled() == cached
    file.touch()
    assert place.compiled() == file
    monkeypatch.setenv(place.FOLDER, str(tmp_path / "named"))
    assert place.compiled().parent == tmp_path / "named" / place.key()


def test_torchs_build_is_known_without_torch():
    import torch

    assert place.torchs_build() == f"{torch.__version__} {torch.version.git_version}"


def test_which_core_runs(cache, monkeypatch):
    """The Python core runs where none is built, or where the file is no library; the reason is said."""
    assert core.choice() == (None, "none is built for this torch and Python: unclobber build-native")
    file = place.compiled()
    assert file.is_relative_to(cache)
    file.parent.mkdir(parents=True)
    file.write_bytes(b"no library")
    assert core.choice() == (file, "")
    loaded = core.loaded.__wrapped__()
    assert loaded.module is None
    assert loaded.why_not.startswith("loading it failed (ImportError")
    monkeypatch.setenv(core.SWITCH, "0")
    assert core.choice() == (None, "UNCLOBBER_NATIVE=0")


def test_asked_for_and_not_there(cache, monkeypatch):
    monkeypatch.setattr(core, "loaded", lambda: core.Loaded(None, "it rains"))
    assert core.missed() is None
    monkeypatch.setenv(core.SWITCH, "1")
    assert core.missed() == "UNCLOBBER_NATIVE=1 is set, but the Python core runs: it rains"


def test_version_says_it(cache, monkeypatch, capsys):
    """`--version` names the core, and why it is the Python one."""
    assert _main.main(["--version"]) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert first.startswith("unclobber, version ")
    assert second.startswith("core: Python (none is built")


def refusal():
    with pytest.raises(UnclobberError) as caught:
        build.build(lambda step: None)
    assert caught.value.exit_code == 2
    return str(caught.value)


def test_no_compiler(cache, monkeypatch):
    """Without a C++ compiler the command names it and what to install, and leaves no file."""
    monkeypatch.setenv("CXX", "no-such-compiler")
    said = refusal()
    assert said.startswith("no C++ compiler (no-such-compiler) is on PATH")
    assert "apt install g++" in said
    result = CliRunner().invoke(command, [])
    assert isinstance(result.exception, UnclobberError)
    assert not list(cache.rglob("*.so"))


def test_no_headers(cache, monkeypatch):
    """Without Python's headers the command names the missing file."""
    monkeypatch.setenv("CXX", sys.executable)
    monkeypatch.setattr(build.sysconfig, "get_path", lambda name: "/nowhere")
    assert "headers are not installed (/nowhere/Python.h)" in refusal()


def compiler(path, text):
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


def test_a_compiler_that_fails(cache, monkeypatch, tmp_path):
    """Its last words are handed on, and nothing is left behind."""
    monkeypatch.setenv("CXX", compiler(tmp_path / "cc", "echo it does not compile >&2; exit 3"))
    said = refusal()
    assert "could not compile the native core (exit code 3)" in said
    assert said.endswith("it does not compile")
    assert list(place.compiled().parent.iterdir()) == []


def test_a_core_that_fails_its_self_test_is_not_kept(cache, monkeypatch, tmp_path):
    """Not even one that ends the process."""
    made = 'while [ "$1" != -o ]; do shift; done; echo no library > "$2"'
    monkeypatch.setenv("CXX", compiler(tmp_path / "cc", made))
    assert "the native core fails its self-test" in refusal()
    assert not place.compiled().exists()


def test_a_core_of_other_options_is_another_one(monkeypatch, tmp_path):
    """Options that were changed compile the core again, as changed sources do."""
    assert place.key.__wrapped__() == place.key()
    options = tmp_path / "build.py"
    options.write_bytes(place._OPTIONS.read_bytes().replace(b"-O2", b"-O3"))
    monkeypatch.setattr(place, "_OPTIONS", options)
    assert place.key.__wrapped__() != place.key()


def test_the_sources_are_in_the_package():
    names = {source.name for source in place.sources()}
    assert {
        "module.cpp",
        "saves.cpp",
        "stacks.cpp",
        "records.cpp",
        "common.h",
        "frames.c",
        "frames.h",
        "build.py",
    } <= names
    assert all(Path(source).is_relative_to(Path(place.__file__).parent) for source in place.sources())


def test_threads_wait_for_the_first_that_comes():
    """Several threads enter the process's first context at the same time."""
    calls = []

    def slowly():
        time.sleep(0.05)
        calls.append(None)
        return len(calls)

    again = core.once_per_process(slowly)
    results = []
    threads = [threading.Thread(target=lambda: results.append(again())) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [1] * 4
