"""Score ``unclobber run`` over the programs of UC101 with their functions compiled:
``python tests/compile/score_compiled.py [BACKEND]``.

A line for each program: "same" if the marked save and a marked write are told, as without a compiler;
"another save" if the marked write is, and another save of the same step, because compiled code unpacks in an
order of its own; "runs" if nothing is told and the compiled program has the gradients of its repaired twin,
"untold" if it has others; else "wrong". Exits 1 if there is one that is wrong.
"""

from __future__ import annotations

import argparse
import ast
import sys
import tempfile
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from programs import marks
from programs.running import Case, find_cases, gradients, run_plain, run_reported


def compiled(text: str, backend: str) -> str:
    """The program with ``torch.compile`` on the functions of its module and on each module's ``forward``."""
    tree = ast.parse(text)
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    for owner in (node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)):
        if not any("Function" in ast.unparse(base) for base in owner.bases):
            named = (node for node in owner.body if isinstance(node, ast.FunctionDef))
            functions += [node for node in named if node.name == "forward"]
    lines = text.splitlines(keepends=True)
    for node in sorted(functions, key=lambda node: -node.lineno):
        lines.insert(node.lineno - 1, f'{" " * node.col_offset}@torch.compile(backend="{backend}")\n')
    return "".join(lines)


def verdict(case: Case, program: Path) -> str:
    """Run a compiled program and compare the first finding with its marks, or its gradients."""
    places = marks.read(program.read_text(), "UC101").lines
    findings = (run_reported(program).report or {}).get("findings", [])
    if not findings:
        plain = run_plain(program)
        right = gradients(run_plain(case.fixed).stdout)
        return "runs" if right and plain.exit_code == 0 and gradients(plain.stdout) == right else "untold"
    saves = {*places.get("saved", ()), *places.get("saved?", ())}
    writes = {write["line"] for write in findings[0]["writes"]}
    if not writes & set(places.get("write", ())):
        return "wrong"
    return "same" if findings[0]["saved"]["line"] in saves else "another save"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("backend", nargs="?", default="aot_eager")
    backend = parser.parse_args().backend
    counts: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        for case in (case for case in find_cases() if case.path.parent.name == "UC101"):
            program = Path(folder) / case.path.name
            program.write_text(compiled(case.text, backend))
            found = verdict(case, program)
            counts[found] += 1
            print(f"{found:12} {case.name}", flush=True)
    print(f"{backend}: " + ", ".join(f"{count} {found}" for found, count in counts.most_common()))
    return int(bool(counts["wrong"]))


if __name__ == "__main__":
    raise SystemExit(main())
