"""Fixers that change more than one expression: lists for buffers, contexts, modes, moved statements."""

from __future__ import annotations

import pytest
from made_findings import site
from rewriting import plain, rewritten

from unclobber.model import Finding, Fix, Help, Write
from unclobber.repair.fixers import FIXERS
from unclobber.repair.fixers.multi_view import rewrites as view_rewrites
from unclobber.repair.project import Project
from unclobber.static import CheckRule

detach_state = FIXERS["detach-state"]
inference_mode = FIXERS["inference-mode"]
inplace_modules = FIXERS["inplace-modules"]
mark_dirty = FIXERS["mark-dirty"]
multi_view = FIXERS["multi-view"]
no_grad = FIXERS["no-grad"]
recompute = FIXERS["recompute"]
save_for_backward = FIXERS["save-for-backward"]


def _only(texts: list[str], expected: str) -> None:
    assert texts == [plain(expected)]


# --- no_grad --------------------------------------------------------------------------------------


def test_a_leafs_write_under_no_grad(proposed):
    """The statement alone, and the function that is there for it."""
    text = """
    import torch
    def edit(layer):
        # make it stronger
        layer.weight[:, 0] += 1  # by one
    """
    statement = """
    import torch
    def edit(layer):
        # make it stronger
        with torch.no_grad():
            layer.weight[:, 0] += 1  # by one
    """
    function = """
    import torch
    @torch.no_grad()
    def edit(layer):
        # make it stronger
        layer.weight[:, 0] += 1  # by one
    """
    assert proposed(no_grad, "UC202", text, write="layer.weight[:, 0]") == [plain(statement), plain(function)]


SHARED = """
import torch
while True:
    # two steps
    a = 1; w -= w.grad; b -= b.grad; c = 2  # by hand
"""


@pytest.mark.parametrize(
    ("advice", "offered"), [((), False), ((0,), False), ((1, 0), True), ((1,), None), ((2,), None)]
)
def test_no_grad_that_may_drop_a_gradient(advice, offered, tmp_path):
    """It is tried where it is advised first, the user's to decide where it is advised at all."""
    path = tmp_path / "program.py"
    path.write_text("import torch\nw = torch.ones(3, requires_grad=True)\nw += 1\n")
    known = (Help.NO_GRAD_BLOCK.fix(), Help.COPY_BEFORE.fix(), Fix(CheckRule.LEAF_VIEW.value.if_carried))
    wrote = Write(site(path, "w += 1"), "add_", bumps_version=True, overlaps_needed=True)
    finding = Finding("UC201", "a message", writes=(wrote,), fixes=tuple(known[at] for at in advice))
    made = list(no_grad(finding, Project(str(tmp_path.resolve()), loaded=(str(path.resolve()),))))
    assert [each.offered for each in made] == ([] if offered is None else [offered])


def test_a_shared_line_under_no_grad(proposed):
    """All of the line, then the line taken apart; comments stay with their side of it."""
    whole = """
    import torch
    while True:
        # two steps
        with torch.no_grad():
            a = 1; w -= w.grad; b -= b.grad; c = 2  # by hand
    """
    apart = """
    import torch
    while True:
        # two steps
        a = 1; w -= w.grad
        with torch.no_grad():
            b -= b.grad
        c = 2  # by hand
    """
    assert proposed(no_grad, "UC201", SHARED, write="b -= b.grad") == [plain(whole), plain(apart)]


@pytest.mark.parametrize(
    ("write", "last"),
    [
        ("a = 1", "    w -= w.grad; b -= b.grad; c = 2  # by hand\n"),
        ("c = 2", "    with torch.no_grad():\n        c = 2  # by hand\n"),
    ],
)
def test_the_ends_of_a_shared_line(proposed, write, last):
    """The first and the last statement leave the line in two parts."""
    apart = proposed(no_grad, "UC201", SHARED, write=write)[1]
    assert apart.endswith(f"\n{last}")
    assert "    # two steps\n" in apart


def test_a_body_on_its_headers_line_under_no_grad(proposed):
    """The body gets lines of its own."""
    text = "import torch\nfor p in ps: p -= p.grad; n += 1  # step\n"
    assert proposed(no_grad, "UC201", text, write="p -= p.grad") == [
        "import torch\nfor p in ps:\n    with torch.no_grad():\n        p -= p.grad; n += 1  # step\n"
    ]


def test_a_block_above_takes_the_next_write_in(proposed):
    """Two writes one after the other need one block."""
    text = "import torch\nwith torch.no_grad():\n    w.add_(1)\nw.clamp_(0)\nuse(w)\n"
    texts = proposed(no_grad, "UC201", text, write="w.clamp_(0)")
    assert texts == [text.replace("\nw.clamp_", "\n    w.clamp_")]


def test_a_shared_line_below_a_block_is_taken_apart_into_one_of_its_own(proposed):
    """What stands before the write on its line parts it from the block above."""
    text = "import torch\nwith torch.no_grad():\n    w.add_(1)\na = 1; w.clamp_(0)\nuse(w)\n"
    joined, apart = proposed(no_grad, "UC201", text, write="w.clamp_(0)")
    assert joined == text.replace("\na = 1", "\n    a = 1")
    assert apart == text.replace("; w.clamp", "\nwith torch.no_grad():\n    w.clamp")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("s = w.clamp_(0, 4).exp()\n", "with torch.no_grad():\n    w.clamp_(0, 4)\ns = w.exp()\n"),
        ("s = f(w.mul_(2).neg_())\n", "with torch.no_grad():\n    w.mul_(2).neg_()\ns = f(w)\n"),
        ("t = 1; s = w.clamp_(0)\n", "with torch.no_grad():\n    t = 1; s = w.clamp_(0)\n"),
    ],
)
def test_a_write_whose_result_is_used_gets_a_line_of_its_own(proposed, before, after):
    """What is computed from the result is still recorded, unless the write shares its line."""
    write = before.partition("w.")[2].partition("(")[0]
    assert (
        proposed(no_grad, "UC201", f"import torch\n{before}", write=f"w.{write}")[0]
        == f"import torch\n{after}"
    )


def test_a_function_that_returns_is_not_decorated(proposed):
    """What it returns would be cut off the graph."""
    text = "import torch\ndef f(w):\n    w.add_(1)\n    return w * 2\n"
    assert len(proposed(no_grad, "UC201", text, write="w.add_(1)")) == 1


@pytest.mark.parametrize("code", ["UC101", "UC102", "UC301"])
def test_no_grad_is_for_leaves(proposed, code):
    """For a saved tensor it would not help, and it would lose the write's gradient."""
    assert proposed(no_grad, code, "import torch\nx.add_(1)\n", write="x.add_(1)") == []


@pytest.mark.parametrize(
    ("statement", "late"),
    [
        ("m.weight.triu_(1)", False),
        ("m.weight[0] = 1", False),
        ("m.weight -= 1", False),
        ("a = m.weight.triu_(1)", True),
        ("use(m.weight.triu_(1))", True),
    ],
)
def test_a_write_whose_result_is_used_is_no_update(statement, late, tmp_path):
    """What is computed from the result would have no gradient through it, so other edits are preferred."""
    path = tmp_path / "program.py"
    path.write_text(f"import torch\n{statement}\n")
    wrote = Write(site(path, statement), "triu_", bumps_version=True, overlaps_needed=True)
    project = Project(str(tmp_path.resolve()), loaded=(str(path.resolve()),))
    made = list(no_grad(Finding("UC201", "a message", writes=(wrote,)), project))
    assert [each.late for each in made] == [late]


# --- modes ----------------------------------------------------------------------------------------


def test_no_grad_for_inference_mode(proposed):
    """The decorator keeps its place and arguments."""
    text = "import torch\n@torch.inference_mode()\ndef validate(m):\n    return m(x)\n"
    texts = proposed(inference_mode, "UC206", text, saved="m(x)")
    assert texts == [text.replace("inference_mode", "no_grad")]


def test_a_view_taken_outside_the_mode(proposed):
    """The function that takes the view loses its decorator, the comment above it stays."""
    text = "import torch\n# the stronger half\n@torch.inference_mode()\ndef pick(h):\n    return h[:2]\n"
    texts = proposed(inference_mode, "UC204", text, saved="h[:2]")
    assert texts == ["import torch\n# the stronger half\ndef pick(h):\n    return h[:2]\n"]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("# a\n@torch.no_grad()  # b\n# c\n", "# a\n# b\n# c\n"),
        ("@first  # a\n# b\n@torch.no_grad()  # c\n", "@first  # a\n# b\n# c\n"),
        ("@torch.no_grad()  # a\n# b\n@last  # c\n", "# a\n# b\n@last  # c\n"),
    ],
)
def test_comments_round_a_dropped_decorator(proposed, before, after):
    """Every comment stays, in its order, a decorator's own one on a line of its own."""
    text = "import torch\n{}def pick(h):\n    return h[:2]\n"
    texts = proposed(inference_mode, "UC204", text.format(before), saved="h[:2]")
    assert texts[-1] == text.format(after)


def test_a_helper_that_takes_the_view_under_a_mode_records_it(proposed):
    """The run shows no place of the view, so each such helper of the writing function is tried."""
    text = "import torch\n@torch.no_grad()\ndef pick(h):\n    return h[:2]\nrow = pick(h)\nrow.add_(x)\n"
    _only(
        proposed(inference_mode, "UC204", text, write="row.add_(x)"), text.replace("@torch.no_grad()\n", "")
    )


def test_no_mode_no_change(proposed):
    """Nothing to rename, nothing to drop."""
    assert proposed(inference_mode, "UC204", "def pick(h):\n    return h[:2]\n", saved="h[:2]") == []


# --- views ----------------------------------------------------------------------------------------


def test_views_one_by_one():
    """``unbind`` into names becomes indexing."""
    texts = rewritten(view_rewrites, "a, b = x.unbind(0)  # <-\n")
    assert "a, b = [part.clone() for part in x.unbind(0)]\n" in texts
    texts = rewritten(view_rewrites, "a, b = x.unbind()  # <-\n")
    assert "a, b = x[0], x[1]\n" in texts


@pytest.mark.parametrize("statement", ["y = x.sum()", "f(x.chunk(2))"])
def test_no_views_no_change(statement):
    """Only where the parts are given names."""
    assert rewritten(view_rewrites, f"{statement}  # <-\n") == []


# --- modules --------------------------------------------------------------------------------------


def test_modules_are_constructed_without_inplace(proposed):
    """Each constructor of the class that wrote, then all; the layout of arguments stays."""
    text = """
    from torch import nn
    net = nn.Sequential(
        nn.ReLU(inplace=True),
        nn.Dropout(
            0.5,
            inplace=True,
        ),
        nn.Dropout(0.1, True),
    )
    y = net(x)
    """
    texts = proposed(
        inplace_modules, "UC101", text, write="net(x)", write_facts={"module": "net.1 (Dropout)"}
    )
    assert texts[0] == plain(text).replace("        0.5,\n        inplace=True,\n", "        0.5,\n")
    assert texts[1] == plain(text).replace("nn.Dropout(0.1, True)", "nn.Dropout(0.1)")
    assert len(texts) == 3
    assert "ReLU(inplace=True)" in texts[2]


def test_a_class_that_inherits_its_forward(proposed):
    """``ReLU6`` runs the forward of ``Hardtanh``, which is all that the stack shows."""
    text = "from torch import nn\nr = nn.ReLU6(inplace=True)\ny = r(x)\n"
    texts = proposed(inplace_modules, "UC101", text, write="r(x)", write_facts={"module": "act (Hardtanh)"})
    assert texts == [text.replace("inplace=True", "")]


def test_another_modules_constructor_stays(proposed):
    """A class that didn't write is none of our business."""
    text = "from torch import nn\nr = nn.ReLU(inplace=True)\ny = r(x)\n"
    assert proposed(inplace_modules, "UC101", text, write="r(x)", write_facts={"module": "d (Dropout)"}) == []
    assert proposed(inplace_modules, "UC101", text, write="r(x)") == []


# --- carried state --------------------------------------------------------------------------------


def test_a_state_that_is_computed_behind_the_backward(proposed):
    """A detach directly behind the backward would come too early."""
    text = """
    for x in chunks:
        loss(net(x, memory)).backward()
        memory = torch.cat([memory, x])[-4:]
    """
    texts = proposed(detach_state, "UC301", text, needed="loss(net(x, memory)).backward()")
    assert texts == [plain(text).replace("[-4:]", "[-4:].detach()")]


def test_state_that_is_not_carried(proposed):
    """Outside a loop there is no turn before; for other findings there is nothing to cut."""
    assert proposed(detach_state, "UC301", "out = rnn(x, state)\n", saved="rnn(x, state)") == []
    text = "for x in d:\n    o, s = rnn(x, s)\n"
    assert proposed(detach_state, "UC101", text, saved="rnn(x, s)") == []


def test_a_loss_of_an_inner_loop_is_not_carried(proposed):
    """It is bound above the line that reads it, in the same turn; `memory` is bound below."""
    text = """
    for step in range(2):
        with cached():
            for x in chunks:
                loss = net(x, memory)
                loss.backward()
                memory = x
    """
    texts = "".join(proposed(detach_state, "UC301", text, needed="loss.backward()"))
    assert "memory.detach()" in texts or "x.detach()" in texts
    assert "loss.detach()" not in texts


# --- custom Functions -----------------------------------------------------------------------------

FUNCTION = """
class Scale(Function):
    @staticmethod
    def forward(ctx, x, w, n):
        ctx.x = x
        ctx.n = n
        return x * w

    @staticmethod
    def backward(ctx, grad):
        return grad, grad * ctx.x, None
"""


def test_save_for_backward(proposed):
    """Only what backward reads, and only what it reads as a tensor of forward's."""
    expected = """
    class Scale(Function):
        @staticmethod
        def forward(ctx, x, w, n):
            ctx.save_for_backward(x)
            ctx.n = n
            return x * w

        @staticmethod
        def backward(ctx, grad):
            x, = ctx.saved_tensors
            return grad, grad * x, None
    """
    saved, copied = proposed(save_for_backward, "UC103", FUNCTION, saved="ctx.x = x")
    assert saved == plain(expected)
    assert copied == plain(FUNCTION).replace("ctx.x = x", "ctx.x = x.clone()")


def test_what_forward_fills_is_copied_behind_the_line(proposed):
    """The workspace still sees the write; what only a module keeps is no Function's."""
    text = """
    class Exp(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.exp = space(x)
            torch.exp(x, out=ctx.exp)
            return ctx.exp + 0

        @staticmethod
        def backward(ctx, grad):
            return grad * ctx.exp
    """
    write = "torch.exp(x, out=ctx.exp)"
    filled = plain(text).replace(f"{write}\n", f"{write}\n        ctx.exp = ctx.exp.clone()\n")
    assert proposed(save_for_backward, "UC103", text, saved="space(x)", write=write) == [filled]
    module = text.replace("backward(", "other(")
    assert proposed(save_for_backward, "UC103", module, saved="space(x)", write=write) == []


def test_save_for_backward_keeps_comments(proposed):
    """Above the line that replaces theirs, also those at the ends of lines."""
    one = FUNCTION.replace("        ctx.x = x\n", "        # the input\n        ctx.x = x  # as it is\n")
    text, _ = proposed(save_for_backward, "UC103", one, saved="ctx.x = x")
    assert "        # the input\n        # as it is\n        ctx.save_for_backward(x)\n" in text
    two = one.replace("ctx.n = n\n", "ctx.w = w  # too\n\n        # for later\n        ctx.n = n\n")
    two = two.replace("grad * ctx.x, None", "grad * ctx.x * ctx.w, ctx.n").replace(
        "ctx.n = n", "ctx.n = n  # a number"
    )
    text, *_ = proposed(save_for_backward, "UC103", two, saved="ctx.x = x")
    lines = [
        "# the input",
        "# as it is",
        "# too",
        "# for later",
        "# a number",
        "ctx.save_for_backward(x, w, n)",
    ]
    assert "".join(f"        {line}\n" for line in lines) in text


@pytest.mark.parametrize(
    ("old", "new"), [("ctx.x = x", "ctx.x = x + 1"), ("grad * ctx.x, None", "grad, None")]
)
def test_functions_that_stay(proposed, old, new):
    """What isn't a tensor that somebody else has, or isn't read."""
    assert proposed(save_for_backward, "UC103", FUNCTION.replace(old, new), saved="return x * w") == []


@pytest.mark.parametrize(
    ("old", "new", "number"), [("ctx.n = n", "ctx.save_for_backward(w)", 3), ("(ctx, grad)", "(ctx, x)", 1)]
)
def test_functions_that_can_only_keep_copies(proposed, old, new, number):
    """What saves tensors already, or has a name that backward uses otherwise: one copy, then all."""
    texts = proposed(save_for_backward, "UC103", FUNCTION.replace(old, new), saved="return x * w")
    assert len(texts) == number
    assert all(".clone()" in text and ".saved_tensors" not in text for text in texts)


# --- moved and repeated statements ----------------------------------------------------------------

GAN = """
score = critic(fake)
d_loss = real - score
d_loss.backward(retain_graph=True)
opt_d.step()
g_loss = -score
g_loss.backward()
opt_g.step()
"""
STEP = {"optimizer": "opt_d.step()"}


def test_the_forward_is_computed_again(proposed):
    """What the later backward reads, and nothing else."""
    texts = proposed(
        recompute,
        "UC101",
        GAN,
        saved="critic(fake)",
        write="opt_d.step()",
        write_facts=STEP,
        needed="g_loss.backward()",
    )
    assert texts == [plain(GAN).replace("opt_d.step()\n", "opt_d.step()\nscore = critic(fake)\n")]


def test_a_sample_is_not_drawn_again(proposed):
    """Nor what follows from it alone, nor the other loss, which is only printed; a line appears once."""
    text = """
    logits, value = net(x)
    d = Categorical(logits=logits); a = d.sample()
    advantage = reward(a) - value; loss = -d.log_prob(a) * advantage.detach()
    critic_loss = advantage ** 2
    opt_d.step()
    critic_loss.backward()
    print(loss)
    """
    places = {"saved": "net(x)", "write": "opt_d.step()", "needed": "critic_loss.backward()"}
    texts = proposed(recompute, "UC101", text, write_facts=STEP, **places)
    line = "advantage = reward(a) - value; loss = -d.log_prob(a) * advantage.detach()\n"
    again = f"logits, value = net(x)\n{line}critic_loss = advantage ** 2\n"
    assert texts == [plain(text).replace("opt_d.step()\n", f"opt_d.step()\n{again}")]


def test_the_forward_moves_into_the_loop(proposed):
    """For a second backward through a graph that was made before the loop."""
    text = "cost = f(x)\nfor _ in range(3):\n    cost.backward()\n"
    texts = proposed(recompute, "UC301", text, saved="f(x)", needed="cost.backward()")
    assert texts == ["for _ in range(3):\n    cost = f(x)\n    cost.backward()\n"]


@pytest.mark.parametrize("inner", ["for part in parts", "while more"])
def test_the_forward_moves_into_the_innermost_loop(proposed, inner):
    """Each backward frees the graph, so that a turn of the loop further out is not enough."""
    loops = f"for _ in range(2):\n    {inner}:\n"
    text = f"scale = f(x)\n{loops}        cost = part @ scale\n        cost.backward()\n"
    texts = proposed(recompute, "UC301", text, saved="f(x)", needed="cost.backward()")
    assert texts == [f"{loops}        scale = f(x)\n        cost = part @ scale\n        cost.backward()\n"]


@pytest.mark.parametrize(
    ("made", "needed"),
    [
        ("net = Net()\nopt = SGD(net.parameters())", "net(x).sum().backward()"),
        ("net = nn.Linear(3, 3)", "net(x).sum().backward()"),
        ("w = nn.Parameter(torch.ones(3))", "(w * scale).sum().backward()"),
        ("self.net = Net()", "self.net(x).sum().backward()"),
        ("task = Task()\nopt = SGD(task.parameters())", "loss(task).backward()"),
    ],
)
def test_what_is_trained_does_not_move_into_the_loop(proposed, made, needed):
    """Each turn would train other weights, and an optimizer above the loop those of none."""
    text = f"{made}\nfor _ in range(3):\n    {needed}\n    opt.step()\n"
    saved = made.partition(" = ")[2].partition("\n")[0]
    assert proposed(recompute, "UC301", text, saved=saved, needed=needed) == []


def test_without_an_optimizer_nothing_moves(proposed):
    """A write by anything else is no step."""
    text = "y = f(x)\nx.add_(1)\ny.backward()\n"
    assert proposed(recompute, "UC101", text, saved="f(x)", write="x.add_(1)", needed="y.backward()") == []


# --- modes that stay where they are meant -----------------------------------------------------------

VIEW_UNDER_NO_GRAD = """
import torch

@torch.no_grad()
def first(self, x):
    '''The first row.'''
    self.count += x.sum()
    row = x[0]  # a view
    self.seen = row.mean()
    return row
"""


def test_the_mode_stays_round_the_other_statements(proposed):
    """Only the view is taken in normal mode; what else the function computes stays off the graph."""
    expected = """
    import torch

    def first(self, x):
        '''The first row.'''
        with torch.no_grad():
            self.count += x.sum()
        row = x[0]  # a view
        with torch.no_grad():
            self.seen = row.mean()
            return row
    """
    recorded, without = proposed(inference_mode, "UC204", VIEW_UNDER_NO_GRAD, saved="x[0]")
    assert without == plain(expected)
    assert recorded == plain(VIEW_UNDER_NO_GRAD).replace(
        "    row = x[0]", "    with torch.enable_grad():\n        row = x[0]"
    )


@pytest.mark.parametrize("newline", ["\r\n", "\r"])
def test_a_mode_s_line_is_found_by_any_line_end(proposed, newline):
    """A decorator's line is removed alone."""
    plain_ends = proposed(inference_mode, "UC204", VIEW_UNDER_NO_GRAD, saved="x[0]")
    text = plain(VIEW_UNDER_NO_GRAD).replace("\n", newline)
    ends = [new.replace("\n", newline) for new in plain_ends]
    assert proposed(inference_mode, "UC204", text, saved="x[0]") == ends


def test_inference_mode_is_not_left_by_enable_grad(proposed):
    """There only taking the view outside of it helps."""
    text = VIEW_UNDER_NO_GRAD.replace("no_grad", "inference_mode")
    (without,) = proposed(inference_mode, "UC204", text, saved="x[0]")
    assert "enable_grad" not in without
    assert without.count("with torch.inference_mode():") == 2


def test_a_mode_without_anything_else_to_hold(proposed):
    """A function that only takes the view needs no block."""
    text = VIEW_UNDER_NO_GRAD.replace("    self.count += x.sum()\n", "").replace(
        "    self.seen = row.mean()\n", ""
    )
    texts = proposed(inference_mode, "UC204", text, saved="x[0]")
    assert texts[-1] == plain(text).replace("@torch.no_grad()\n", "")


def test_a_view_is_taken_out_of_its_block(proposed):
    """What else is in the block stays there."""
    text = """
    import torch

    # the first row
    with torch.no_grad():
        self.count += x.sum()
        row = x[0]  # a view
        self.seen = row.mean()
    """
    expected = """
    import torch

    # the first row
    with torch.no_grad():
        self.count += x.sum()
    row = x[0]  # a view
    with torch.no_grad():
        self.seen = row.mean()
    """
    _only(proposed(inference_mode, "UC204", text, saved="x[0]"), expected)
    alone = "import torch\n# it\nwith torch.no_grad():\n    row = x[0]\n"
    _only(proposed(inference_mode, "UC204", alone, saved="x[0]"), "import torch\n# it\nrow = x[0]\n")


def test_comments_round_a_view_that_is_taken_out_of_its_block(proposed):
    """None is lost: each goes where its block or the statement above it goes."""
    text = """
    import torch

    with torch.no_grad():  # they count
                           # without gradients
        if seen:
            self.count += x.sum()
            # and no more
        row = x[0]  # the first one,
                    # a view
        self.seen = row.mean()
    """
    expected = """
    import torch

    with torch.no_grad():  # they count
                           # without gradients
        if seen:
            self.count += x.sum()
            # and no more
    row = x[0]  # the first one,
                # a view
    with torch.no_grad():  # they count
                           # without gradients
        self.seen = row.mean()
    """
    _only(proposed(inference_mode, "UC204", text, saved="x[0]"), expected)


@pytest.mark.parametrize(
    ("last", "inside"), [("return row, self", False), ("return row + 1", True), ("return g(row)", True)]
)
def test_what_is_computed_for_the_return_stays_in_the_mode(proposed, last, inside):
    """A name that is handed back needs no mode; a sum does."""
    text = f"import torch\n@torch.no_grad()\ndef first(self, x):\n    row = x[0]\n    {last}\n"
    _, new = proposed(inference_mode, "UC204", text, saved="x[0]")
    assert new.endswith(
        f"    with torch.no_grad():\n        {last}\n" if inside else f"row = x[0]\n    {last}\n"
    )


def test_a_view_taken_in_a_branch(proposed):
    """There is no one statement to leave out of the mode; the one that takes it can be put into another."""
    text = VIEW_UNDER_NO_GRAD.replace("    row = x[0]", "    if x: row = x[0]")
    texts = proposed(inference_mode, "UC204", text, saved="x[0]")
    assert len(texts) == 1
    assert "with torch.enable_grad():\n            row = x[0]" in texts[0]


@pytest.mark.parametrize(
    "line",
    [
        "self.penalty = self.w.sum()",
        "return self.w",
        "self.log.append(self.w)",
        "self.w.sum().backward()",
        "yield",
        "import math",
    ],
)
def test_a_function_that_does_more_than_write(proposed, line):
    """It is not put under ``no_grad`` as a whole: only the write is."""
    text = "import torch\ndef clip(self):\n{0}    {1}\n".format
    write = "self.w.clamp_(-1, 1)"
    texts = proposed(no_grad, "UC201", text(f"    {write}\n", line), write=write)
    assert texts == [text(f"    with torch.no_grad():\n        {write}\n", line)]


def test_a_function_that_only_writes(proposed):
    """Initialisers are put under ``no_grad`` as a whole, too."""
    body = """
    bound = 1 / math.sqrt(self.w.size(1))
    for w in self.parameters():
        if w.dim() > 1:
            w.uniform_(-bound, bound)
        else:
            nn.init.zeros_(w)
    self.w[0] = 0
"""
    text = f"import torch\ndef reset(self):\n    '''Anew.'''{body}"
    texts = proposed(no_grad, "UC201", text, write="w.uniform_(-bound, bound)")
    assert text.replace("def reset", "@torch.no_grad()\ndef reset") in texts


# --- states kept in containers ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("store", "read", "cut"),
    [
        ('state["h"] = new', 'state["h"]', 'state["h"] = state["h"].detach()'),
        ("hs.append(new)", "hs[-1]", "hs[-1] = hs[-1].detach()"),
        ("box.h = new", "box.h", "box.h = box.h.detach()"),
        ("h = new", "h", "h = h.detach()"),
        ("h, c = new", "h, c", "h, c = h.detach(), c.detach()"),
    ],
)
def test_a_carried_state_is_detached_after_the_backward(proposed, store, read, cut):
    """Whatever keeps it; directly behind the backward, however far back that reaches."""
    text = f"""
    for x in xs:
        new = net(x, {read})
        {store}
        if ready(x):
            loss(new).backward()
            opt.step()
    """
    expected = plain(text).replace(".backward()\n", f".backward()\n        {cut}\n")
    assert expected in proposed(detach_state, "UC301", text, needed="loss(new).backward()")


def test_a_running_total(proposed):
    """It is detached behind the backward that goes through it."""
    text = "for x in xs:\n    total += loss(net(x))\n    (total / 2).backward()\n"
    texts = proposed(detach_state, "UC301", text, needed="(total / 2).backward()")
    assert texts[0] == f"{text}    total = total.detach()\n"


@pytest.mark.parametrize("read", ["sum(seen)", "torch.stack(seen[-2:])", "[one.exp() for one in seen]"])
def test_a_list_that_each_turn_appends_to(proposed, read):
    """Its newest element is detached behind the backward, or where it is appended behind that."""
    text = f"for x in xs:\n    new = net(x)\n    seen.append(new)\n    loss(new, {read}).backward()\n"
    needed = f"loss(new, {read}).backward()"
    assert f"{text}    seen[-1] = seen[-1].detach()\n" in proposed(detach_state, "UC301", text, needed=needed)
    text = f"for x in xs:\n    new = net(x)\n    loss(new, {read}).backward()\n    seen.append(new)\n"
    expected = text.replace("append(new)", "append(new.detach())")
    assert expected in proposed(detach_state, "UC301", text, needed=needed)


@pytest.mark.parametrize("line", ["seen = []", "seen.clear()"])
def test_a_list_of_one_turn(proposed, line):
    """It is emptied in each turn: nothing is carried."""
    text = f"for x in xs:\n    {line}\n    new = net(x)\n    seen.append(new)\n    loss(new).backward()\n"
    assert not proposed(detach_state, "UC301", text, needed="loss(new).backward()")


def test_a_dict_that_is_carried_whole(proposed):
    """Every tensor of it is detached."""
    text = "for x in xs:\n    out = net(x, s)\n    s = {'h': out}\n    out.backward()\n"
    texts = proposed(detach_state, "UC301", text, needed="out.backward()")
    assert texts[0] == f"{text}    s = {{key: one.detach() for key, one in s.items()}}\n"


@pytest.mark.parametrize(
    "read",
    [
        "new = net(x, state[0])",
        "new = torch.tanh(net(x) + rec(state[0]))",
        "new = net(x, state[0][1:])",
        "h, c = state\n    new = net(x, h)",
        "new = net(x, sum(one for one in state))",
        "new = 0\n    for one in state:\n        new = new + net(x, one)",
    ],
)
def test_a_tuple_that_is_read_by_its_elements(proposed, read):
    """It is carried whole, however its tensors are taken from it: by index, by names, one after the other."""
    text = f"""
    for x in xs:
        {read.replace(chr(10), chr(10) + "    ")}
        state = (new, new * 2)
        loss(new).backward()
    """
    texts = proposed(detach_state, "UC301", text, needed="loss(new).backward()")
    assert f"{plain(text)}    state = tuple(one.detach() for one in state)\n" in texts


def test_what_is_taken_apart_is_no_tensor(proposed):
    """It has no ``detach`` of its own where it is read."""
    text = "for x in xs:\n    h, c = state\n    state = net(x, h), c\n    c.backward()\n"
    texts = proposed(detach_state, "UC301", text, needed="c.backward()")
    assert set(texts) == {f"{text}    state = tuple(one.detach() for one in state)\n"}


IN_PLACE = """
class Double(Function):
    @staticmethod
    def forward(ctx, x, n):
        \"\"\"Twice.\"\"\"
        if n:
            x.mul_(2)  # in place
        return x

    @staticmethod
    def backward(ctx, grad):
        return 2 * grad, None

y = Double.apply(h, 1)
"""


def _marked(proposed, text, write="x.mul_(2)"):
    return proposed(mark_dirty, "UC103", text, saved="Double.apply(h, 1)", write=write, variant="unmarked")


def test_an_input_that_is_saved_too_is_copied(proposed):
    """Marked, torch would refuse it in backward."""
    text = IN_PLACE.replace("        if n:", "        ctx.save_for_backward(x)\n        if n:")
    line = "            x.mul_(2)  # in place\n"
    assert _marked(proposed, text) == [plain(text).replace(line, f"            x = x.clone()\n{line}")]


def test_an_input_is_marked_where_it_is_written(proposed):
    """Directly before the write: an earlier line may bind the name anew."""
    line = "            x.mul_(2)  # in place\n"
    assert _marked(proposed, IN_PLACE) == [
        plain(IN_PLACE).replace(line, f"            ctx.mark_dirty(x)\n{line}")
    ]


def test_what_is_marked_already_stays_marked(proposed):
    """A second call of ``mark_dirty`` would take the first one back."""
    text = IN_PLACE.replace("        if n:", "        ctx.mark_dirty(n)\n        if n:")
    assert _marked(proposed, text) == [plain(text).replace("mark_dirty(n)", "mark_dirty(n, x)")]


def test_an_input_is_marked_in_setup_context(proposed):
    """There the context is, and the inputs are a tuple."""
    setup = "    @staticmethod\n    def setup_context(c, inputs, output):\n        {}pass\n\n"
    text = IN_PLACE.replace("(ctx, x, n)", "(n, x)").replace(
        "    @staticmethod\n    def backward", setup.format("") + "    @staticmethod\n    def backward"
    )
    marked = setup.format("c.mark_dirty(inputs[1])\n        ")
    assert _marked(proposed, text) == [plain(text).replace(setup.format(""), marked)]


def test_an_input_that_is_not_returned_is_copied(proposed):
    """torch refuses to have it marked; the copy changes what is computed, so it is only offered."""
    text = IN_PLACE.replace("return x\n", "return x * n\n")
    copied = plain(text).replace("            x.mul_(2)", "            x = x.clone()\n            x.mul_(2)")
    assert _marked(proposed, text) == [copied]


@pytest.mark.parametrize(
    ("old", "new"), [("x.mul_(2)", "y.mul_(2)"), ("forward(", "helper("), ("class Double(Function)", "if 1")]
)
def test_writes_that_mark_nothing(proposed, old, new):
    """To another name than an input's, or outside of a Function's forward."""
    text = IN_PLACE.replace(old, new)
    assert _marked(proposed, text, write="mul_(2)") == []


def test_tensors_on_ctx_are_not_marked(proposed):
    """That is the usual finding of the code."""
    facts = {"role": "ctx.x"}
    found = proposed(mark_dirty, "UC103", IN_PLACE, saved="return x", write="x.mul_(2)", facts=facts)
    assert found == []
