"""Random programs as Python source, and what is true of them: a second generator, of another make.

``random_script`` writes source by trying out one statement after the other; ``truth`` runs it with
copies of everything that autograd saves; ``judge`` compares every mode of the package with that and
with plain torch; ``shrunk`` deletes statements while the fault stays.
"""
