"""What would lower the peak: found in the recording, predicted on its timeline, proved by running again.

``_formulas`` finds what the program writes out and torch has in one piece, ``_checkpoints`` the modules that
could be computed again, ``_options`` the rest and what each is predicted to save; ``_attempts`` runs the
program with them, and ``advise`` puts the report together.
"""
