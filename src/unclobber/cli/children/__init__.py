"""Watching of the processes that a program starts with ``multiprocessing``, reported with their parent.

``multiprocessing`` runs ``BaseProcess._bootstrap`` in each child, whatever starts it: `_follow` wraps it, and
has what a fresh interpreter is sent do the same there. `_child` is the child's side: a session as soon as
torch is there, and a record in the run's directory. `_gather` is the side of the program's own process.

Nothing is imported here: a child needs `_follow` alone, and may never need torch.
"""
