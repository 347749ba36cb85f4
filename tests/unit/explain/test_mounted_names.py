"""Programs that give every object an attribute, as nnsight does (``object.save``)."""

import subprocess
import sys

MOUNTED = """
import gc, torch, unclobber
gc.get_referents(vars(object))[0]["save"] = lambda self: self
import unclobber.explain._evidence as evidence
print(evidence.Evidence.__name__)
"""


def test_evidence_is_imported_where_every_object_has_its_field():
    """``dataclass`` takes the attribute for a default, which no field without one may follow."""
    done = subprocess.run([sys.executable, "-c", MOUNTED], capture_output=True, text=True, timeout=60)
    assert done.stdout == "Evidence\n", done.stderr
