"""Programs as files, for the command."""

from __future__ import annotations

import json

import pytest

from unclobber.cli import main


@pytest.fixture
def measured(tmp_path, capsys):
    """Run ``unclobber memory --format json`` on a program's text: exit code and report."""

    def run(text: str, *options: str):
        script, output = tmp_path / "train.py", tmp_path / "report.json"
        script.write_text(text)
        code = main(["memory", *options, "--format", "json", "--output", str(output), str(script)])
        capsys.readouterr()
        return code, json.loads(output.read_text())

    return run
