"""Run the tests of the native core under the compiler's sanitizers: ``python tools/sanitize.py address``.

The core is compiled anew for each, into a folder of its own. torch and Python are as they are, so what is
found is what the core itself reads, writes and locks.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TESTS = [f"tests/native/test_{of}.py" for of in ("batch_norm", "both_cores", "unpushed")]

KINDS = {
    "address": (
        # vptr: it needs the typeinfo of torch's PyNode, which torch's libraries don't export
        "-fsanitize=address,undefined -fno-sanitize=vptr -fno-sanitize-recover=undefined",
        ["libasan.so", "libstdc++.so.6"],  # the second, for what torch throws
        # Python and torch keep what they have to the end of the process
        {"ASAN_OPTIONS": "detect_leaks=0:allocator_may_return_null=1:detect_odr_violation=0"},
    ),
    "thread": (
        "-fsanitize=thread",
        ["libtsan.so", "libstdc++.so.6"],
        {"TSAN_OPTIONS": f"suppressions={ROOT / 'tools' / 'tsan.supp'}:exitcode=66"},
    ),
}


def main() -> int:
    """Exit code: that of the tests; 2 where it can't be compiled."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("tests", nargs="*", default=TESTS)
    given = parser.parse_args()
    flags, libraries, options = KINDS[given.kind]
    compiler = os.environ.get("CXX") or shutil.which("c++") or "g++"
    runtimes = []
    for library in libraries:
        found = subprocess.run([compiler, f"-print-file-name={library}"], capture_output=True, text=True)
        runtimes.append(found.stdout.strip())
        if found.returncode or not Path(runtimes[-1]).is_absolute():
            print(f"{compiler} has no {library}: nothing is run", file=sys.stderr)
            return 2
    preload = " ".join(runtimes)
    with tempfile.TemporaryDirectory() as folder:
        env = {
            **os.environ,
            **options,
            "UNCLOBBER_NATIVE_FOLDER": folder,
            "CXXFLAGS": f"{flags} -g -fno-omit-frame-pointer -DUNCLOBBER_NO_POOLS",
            "UNCLOBBER_NATIVE": "1",
            "OMP_NUM_THREADS": "1",  # torch's own threads are not looked into
            "UNCLOBBER_PRELOAD": preload,
        }
        built = subprocess.run([sys.executable, "-m", "unclobber", "build-native"], env=env, cwd=ROOT)
        if built.returncode:
            return 2
        pytest = [sys.executable, "-m", "pytest", "-n", "0", "-q", "-p", "no:cacheprovider", *given.tests]
        return subprocess.run(pytest, env={**env, "LD_PRELOAD": preload}, cwd=ROOT).returncode


if __name__ == "__main__":
    sys.exit(main())
