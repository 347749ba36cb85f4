"""Files of the project's cache folder."""

import os
import time
from contextlib import suppress

_FILES = {".gitignore": "*\n", "CACHEDIR.TAG": "Signature: 8a477f597d28d172789f06886806bc55\n"}
"""Files that keep version control and backups out of the folder."""


def write_cached(path: str, data: bytes) -> None:
    """Write a file of a cache in one step; do nothing in a folder that can't be written."""
    temporary, folder = f"{path}.{os.getpid()}.{time.monotonic_ns()}", os.path.dirname(path)
    with suppress(OSError):
        os.makedirs(folder, exist_ok=True)
        for name, text in _FILES.items():
            with suppress(FileExistsError), open(os.path.join(folder, name), "x") as stream:
                stream.write(text)
        try:
            with open(temporary, "xb") as stream:
                stream.write(data)
            os.replace(temporary, path)
        except OSError:  # a full disk
            os.remove(temporary)
