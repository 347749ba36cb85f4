"""Files of the project's cache folder, which version control and backups leave out."""

import os
from contextlib import suppress
from pathlib import Path

_FILES = {".gitignore": "*\n", "CACHEDIR.TAG": "Signature: 8a477f597d28d172789f06886806bc55\n"}


def write_cached(path: str, data: bytes) -> None:
    """Write a file of a cache in one step; do nothing in a folder that can't be written."""
    temporary = Path(f"{path}.{os.getpid()}")
    with suppress(OSError):
        temporary.parent.mkdir(parents=True, exist_ok=True)
        for name in _FILES.keys() - set(os.listdir(temporary.parent)):
            (temporary.parent / name).write_text(_FILES[name])
        temporary.write_bytes(data)
        temporary.replace(path)
    with suppress(OSError):
        temporary.unlink()
