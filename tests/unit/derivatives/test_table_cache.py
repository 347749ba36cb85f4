"""The table's copy in the cache folder: the same table, and never the cause of an error."""

from __future__ import annotations

import pytest

from unclobber.derivatives import torch_table


@pytest.fixture(scope="module")
def rules():
    return torch_table.table()


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(torch_table, "user_cache_path", lambda *_, **__: tmp_path / "cache")
    return tmp_path / "cache"


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "derivatives.yaml"
    path.write_text("one")
    return path


def never():
    raise AssertionError("the table was made anew")


def test_second_time_comes_from_the_file(rules, folder, source):
    """Every rule comes back equal, and no half-written file is left in the folder."""
    assert torch_table.cached([source], lambda: rules) == rules
    assert torch_table.cached([source], never) == rules
    assert sorted(path.suffix for path in folder.iterdir()) == ["", ".TAG", ".json"]


def test_other_sources_are_another_table(rules, folder, source):
    torch_table.cached([source], lambda: rules)
    source.write_text("another torch")
    assert torch_table.cached([source], lambda: rules[:3]) == rules[:3]


@pytest.mark.parametrize("content", [b"", b"[", b"[{}]", b'[{"node": 1}]', b"\xff\xfe", b'{"a": 1}', b"7"])
def test_broken_file_is_made_anew(rules, folder, source, content):
    torch_table.cached([source], lambda: rules[:2])
    (kept,) = folder.glob("derivatives-*")
    kept.write_bytes(content)
    assert torch_table.cached([source], lambda: rules[:2]) == rules[:2]
    assert torch_table.cached([source], never) == rules[:2]


def test_folder_that_cannot_be_made(rules, folder, source):
    """A file stands where the folder should be."""
    folder.write_text("")
    assert torch_table.cached([source], lambda: rules[:2]) == rules[:2]


def test_missing_sources(rules, folder, tmp_path):
    """Without the file of derivatives the table is computed and nothing is cached."""
    assert torch_table.cached([tmp_path / "none.yaml"], lambda: rules[:2]) == rules[:2]
    assert not folder.exists()
