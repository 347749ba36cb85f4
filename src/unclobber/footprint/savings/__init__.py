"""Changes that would lower the peak: found in a recording, predicted on its timeline, proved by running.

``_formulas`` finds formulas that the program writes out and torch has in one piece; ``_checkpoints`` the
modules that could be computed again; ``_options`` joins all kinds and their predictions. ``_attempts`` runs
the program with them, and ``advise`` puts the report together.
"""
