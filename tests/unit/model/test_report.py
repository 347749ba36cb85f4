"""A run's outcome as an object."""

from __future__ import annotations

from unclobber.model import Finding, Report, Totals


def test_repr_is_a_table_of_ten_lines():
    """Counts, the first findings by line, and the lines that keep most; however many there are."""
    findings = tuple(Finding("UC101", f"`x{number}` was overwritten") for number in range(9))
    kept = {(f"/home/somebody/train{number}.py", number): 1024 for number in range(9)}
    rows = repr(Report("refused", findings, Totals(saves=1, writes=2), bytes_by_line=kept)).splitlines()
    assert rows[0] == "Report: refused, 9 findings, 1 save, 2 writes to saved memory"
    assert rows[1] == "  UC101  `x0` was overwritten"
    assert rows[5] == "  and 5 more findings"
    assert rows[6] == "     1.0 KiB  kept for backward by train0.py:0"
    assert len(rows) == 10


def test_repr_names_a_notebooks_cell(monkeypatch):
    """Not the temporary file that IPython compiles it as."""
    monkeypatch.setattr("unclobber.model._cells.cell_name", lambda path: "In[3]")
    kept = {("ipykernel_7/1.py", 2): 8}
    assert "kept for backward by In[3]:2" in repr(Report("clean", (), bytes_by_line=kept))
