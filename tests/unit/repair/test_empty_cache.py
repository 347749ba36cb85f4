"""Empty autocast's cache after a weight was written inside of a region."""

from unclobber.repair.fixers import FIXERS

empty_cache = FIXERS["empty-cache"]

PROGRAM = """\
import torch as t
with t.autocast("cpu"):
    opt.step()
    loss = net(x)
"""


def test_the_cache_is_emptied_by_the_program_s_name_of_torch(proposed):
    after = PROGRAM.replace("step()\n", "step()\n    t.clear_autocast_cache()\n")
    assert proposed(empty_cache, "UC106", PROGRAM, write="opt.step()") == [after]


def test_a_file_without_torch_is_left_alone(proposed):
    """There is no name to call it by."""
    text = PROGRAM.replace("import torch as t", "from mine import t")
    assert proposed(empty_cache, "UC106", text, write="opt.step()") == []
