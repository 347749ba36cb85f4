"""Places that run the program: pytest, notebooks, Lightning, Transformers, or the interpreter itself.

Each opens a session there; the two trainers' callbacks share ``trainers`` and ``training_memory``.
Nothing is imported with the package, because pytest loads its plugin in every project.
"""

__all__ = [
    "always_on", "notebook", "pytest_plugin", "trainers", "training_memory",
]  # fmt: skip
