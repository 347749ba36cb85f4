"""Empty but for this: pytest puts the folder of a ``conftest.py`` on the path, so ``strategies`` and
``oracles`` can be imported by every test."""
