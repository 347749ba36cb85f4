"""A backward that runs before the step that overwrites its weights."""

from __future__ import annotations

from textwrap import dedent

from rewriting import marked, plain

from unclobber.repair.fixers import reorder


def reordered(text: str) -> list[str]:
    """The new texts, with the write and the backward on the lines that are marked so."""
    text = dedent(text).lstrip("\n")
    line = next(n for n, code in enumerate(text.splitlines(), 1) if code.endswith("  # needed"))
    source, write = marked(text.replace("  # needed", ""), "  # write")
    need = next(
        node for node in source.nodes if getattr(node, "lineno", 0) == line and node in source.parents
    )
    return list(reorder.rewrites(source, write, need))


def test_the_other_update_goes_below():
    """Above its ``zero_grad``, which clears what the moved backward adds to the shared weights."""
    text = """
    def update():
        opt_v.zero_grad()
        loss_v.backward(retain_graph=True)
        opt_v.step()  # write
        opt_pi.zero_grad()
        loss_pi.backward()  # needed
        opt_pi.step()
    """
    swapped, between = reordered(text)
    assert swapped == plain("""
    def update():
        opt_pi.zero_grad()
        loss_pi.backward(retain_graph=True)
        opt_v.zero_grad()
        loss_v.backward()
        opt_v.step()
        opt_pi.step()
    """)
    assert between == plain("""
    def update():
        opt_v.zero_grad()
        loss_v.backward(retain_graph=True)
        opt_pi.zero_grad()
        loss_pi.backward()
        opt_v.step()
        opt_pi.step()
    """)


def test_what_computes_the_loss_goes_along():
    text = """
    for x in data:
        opt_d.zero_grad()
        loss_d(fake.detach()).backward()
        opt_d.step()  # write
        log(x)
        scale = 2
        loss_g = scale * score
        opt_g.zero_grad()
        loss_g.backward()  # needed
    """
    assert plain("""
    for x in data:
        scale = 2
        loss_g = scale * score
        opt_g.zero_grad()
        loss_g.backward()
        opt_d.zero_grad()
        loss_d(fake.detach()).backward()
        opt_d.step()
        log(x)
    """) in reordered(text)


def test_comments_directly_above_go_along():
    """A blank line parts a heading from the comment of a statement."""
    text = """
    def update():
        loss_v.backward()
        opt_v.step()  # write
        # the policy

        # its gradients
        loss_pi.backward()  # needed
    """
    assert plain("""
    def update():
        # its gradients
        loss_pi.backward()
        loss_v.backward()
        opt_v.step()
        # the policy

    """) in reordered(text)


def test_a_backward_above_the_write_is_no_other_order():
    """The write of one turn of a loop is needed by the next turn's backward."""
    assert (
        reordered("""
    for x in data:
        loss.backward(retain_graph=True)  # needed
        opt.step()  # write
    """)
        == []
    )
