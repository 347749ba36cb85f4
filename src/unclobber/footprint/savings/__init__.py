"""Changes that would lower the peak: found in a recording, predicted on its timeline, proved by running.

``_formulas`` finds formulas that the program writes out and torch has in one piece; ``_checkpoints`` the
modules that could be computed again. ``_attempts`` runs the program with changes, and ``advise`` joins all
kinds with their predictions and puts the report together.
"""
