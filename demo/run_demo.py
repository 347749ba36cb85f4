"""Watch a training script fail: what torch says, what unclobber says, and how it runs on.

    python demo/run_demo.py

Exits 0 if the script failed and was explained as it should be.
"""

import subprocess
import sys
import textwrap
from pathlib import Path

WIDTH = 80
TRAIN = Path("demo/gan/train.py")
ROOT = Path(__file__).resolve().parent.parent


def heading(number: int, title: str, command: list[str]) -> None:
    text = f"{number}. {title}"
    print(f"\n{text}\n{'-' * len(text)}\n$ {' '.join(['python', *command])}\n", flush=True)


def excerpt(traceback: str) -> str:
    """The innermost frame of the script in a traceback, and the message, folded to a page's width."""
    lines = traceback.replace(f"{ROOT}/", "").rstrip().splitlines()
    ours = max((n for n, line in enumerate(lines) if f'File "{TRAIN.parent}' in line), default=0)
    message = textwrap.fill(lines[-1], WIDTH, break_long_words=False)
    return "\n".join(["  ...", *lines[ours : ours + 2], "  ...", message])


def python(*arguments: str, capture: bool = False) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments], cwd=ROOT, text=True, capture_output=capture, timeout=300
    )


def main() -> int:
    print("A small GAN: data.py, model.py and train.py in demo/gan.")

    heading(1, "What torch says", [str(TRAIN)])
    plain = python(str(TRAIN), capture=True)
    print(excerpt(plain.stderr))

    command = ["-m", "unclobber", "run", str(TRAIN)]
    heading(2, "What unclobber says", command)
    explained = python(*command)

    command = ["-m", "unclobber", "run", "--guard", str(TRAIN)]
    heading(3, "The same program with the gradients it asks for", command)
    guarded = python(*command)

    codes = (plain.returncode, explained.returncode, guarded.returncode)
    if "modified by an inplace operation" not in plain.stderr or codes != (1, 1, 0):
        print(f"\nThe demo did not go as it should: exit codes {codes}.", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
