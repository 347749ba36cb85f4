"""Clones: of what is saved, of what is written, of a module's parameters."""

from __future__ import annotations

import pytest
from made_findings import saved_in, site
from rewriting import plain, rewritten

from unclobber.model import Finding, Frame, Write
from unclobber.repair.fixers import FIXERS
from unclobber.repair.fixers.clone_parameters import rewrites as parameter_rewrites
from unclobber.repair.project import Project

clone_saved, clone_target = FIXERS["clone-saved"], FIXERS["clone-target"]
clone_parameters = FIXERS["clone-parameters"]

PROGRAM = """
import torch

def f(x, w):
    y = torch.exp(x) * w
    x += 1
    return x, y
"""


def _line(text: str, number: int) -> str:
    return text.splitlines()[number - 1].strip()


def test_the_named_operand_comes_first(proposed):
    """Where the finding names what was saved, its clone is the first candidate."""
    texts = proposed(clone_saved, "UC101", PROGRAM, saved="torch.exp(x) * w", facts={"expression": "w"})
    assert _line(texts[0], 4) == "y = torch.exp(x) * w.clone()"
    assert all(_line(text, 5) == "x += 1" for text in texts)


def test_without_a_name_every_operand_is_a_candidate(proposed):
    """The proof will tell which one it was."""
    texts = proposed(clone_saved, "UC101", PROGRAM, saved="torch.exp(x) * w")
    lines = [_line(text, 4) for text in texts]
    assert "y = torch.exp(x).clone() * w" in lines
    assert "y = torch.exp(x) * w.clone()" in lines
    assert "y = torch.exp(x.clone()) * w" in lines
    assert not any("torch.clone" in line for line in lines)


@pytest.mark.parametrize(("named", "count"), [(None, 2), ("left", 1)])
def test_parts_of_which_any_may_be_saved_are_cloned_together(proposed, named, count):
    """A report can't know which of two slices ``einsum`` has saved, and mostly it is both."""
    text = """
    import torch
    def f(chart, rule, i, j):
        left = chart[i, i:j]
        right = chart[i + 1:j, j]
        chart[i, j] = torch.einsum("abc,kb,kc->a", rule, left, right)
    """
    places = {"saved": "torch.einsum(", "write": "chart[i, j] ="}
    texts = proposed(clone_saved, "UC101", text, **places, facts={"expression": named})
    sure = proposed(clone_saved, "UC101", text, **places, facts={"expression": named}, sure=True)
    assert [each.count(".clone()") for each in sure][:1] == [count]
    assert {each.count("left = chart[i, i:j].clone()") for each in texts[:3]} >= {1}


def test_a_result_is_kept_by_copying_the_value(proposed):
    """An operation that saved its result keeps it alone if the program goes on with a copy."""
    texts = proposed(clone_saved, "UC101", PROGRAM, saved="torch.exp(x)", facts={"role": "result"})
    assert _line(texts[0], 4) == "y = torch.exp(x).clone() * w"


def test_brackets_where_they_are_needed(proposed):
    """A clone of a sum is the clone of all of it."""
    text = "y = a + b\nz = (y).exp()\n"
    texts = proposed(clone_saved, "UC101", text, saved="a + b", facts={"role": "result"})
    assert _line(texts[0], 1) == "y = (a + b).clone()"


def test_nothing_to_clone(proposed):
    """No saved tensor, no clone of it; a freed graph is no question of copies."""
    assert proposed(clone_saved, "UC301", PROGRAM, saved="torch.exp(x) * w") == []


@pytest.mark.parametrize(
    ("made", "copies"), [("[conv(x) for x in xs]", 0), ("[]", 0), ("torch.stack(xs)", 1)]
)
def test_a_list_has_no_clone(proposed, made, copies):
    """``laterals[i - 1] += x`` writes to an element, as in mmdetection's ``FPN``; of a tensor, to a part."""
    text = f"""
    def f(xs, conv):
        laterals = {made}
        laterals[0] += laterals[1].exp()
        return laterals
    """
    texts = proposed(clone_target, "UC101", text, write="laterals[0]")
    assert [text.count("laterals = laterals.clone()") for text in texts] == [1] * copies


def test_the_target_is_copied_before_the_write(proposed):
    """One line directly before the write, comments above both."""
    text = """
    def f(x, m):
        # blank the padding
        x[m] = 0
        return x
    """
    expected = """
    def f(x, m):
        # blank the padding
        x = x.clone()
        x[m] = 0
        return x
    """
    assert proposed(clone_target, "UC101", text, write="x[m]") == [plain(expected)]


@pytest.mark.parametrize("made", ["map(lambda t: t * {}, (q, k))", "[t * {} for t in (q, k)]"])
def test_what_is_saved_inside_a_lambda_or_a_comprehension(proposed, made):
    """Rotary positions: each layer multiplies its queries and keys by one table, and changes that."""
    text = f"q, k = {made.format('sin')}\n"
    facts = {"role": "other", "expression": "sin"}
    texts = proposed(clone_saved, "UC101", text, saved="t * sin", facts=facts)
    assert texts[0] == f"q, k = {made.format('sin.clone()')}\n"


def test_the_callers_argument_is_copied(proposed):
    """A helper writes to what it was given: the caller hands it a copy."""
    text = """
    def blank(x):
        x.fill_(0)
        return x

    def f(x):
        y = blank(x)
        return y
    """
    texts = proposed(clone_target, "UC101", text, write="x.fill_(0)", callers=(6,))
    assert any("y = blank(x.clone())" in new for new in texts)


def test_the_arguments_of_one_functions_calls_are_copied_together(proposed):
    """Two calls in one statement (rotary positions of queries and keys): one copy would leave a finding."""
    text = """
    def rotate(x, cos):
        x[..., 0] = x[..., 0] * cos
        return x

    def f(q, k, cos):
        q, k = rotate(q, cos), rotate(k, cos)
        return q @ k
    """
    texts = proposed(clone_target, "UC203", text, write="x[..., 0]", callers=(6,))
    assert any("q, k = rotate(q.clone(), cos), rotate(k.clone(), cos)" in new for new in texts)


def test_a_call_for_its_effect_keeps_its_argument(proposed):
    """A copy handed to a call whose value is dropped would take the write with it."""
    text = """
    def blank(x):
        x.fill_(0)

    def f(x):
        blank(x)
        return x
    """
    assert proposed(clone_target, "UC101", text, write="x.fill_(0)", callers=(5,)) == []


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("y = 1; x[0] = 0; z = 2  # c\n", "y = 1; x = x.clone(); x[0] = 0; z = 2  # c\n"),
        ("y = 1; x[0] = 0\n", "y = 1; x = x.clone(); x[0] = 0\n"),
        ("y = 1; x[0]: float = 0\n", "y = 1; x = x.clone(); x[0]: float = 0\n"),
        ("if y: x[0] = 0\n", "if y: x = x.clone(); x[0] = 0\n"),
    ],
)
def test_a_line_that_is_shared(proposed, before, after):
    """The copy is made on the same line."""
    assert proposed(clone_target, "UC101", f"{before}use(x)\n", write="x[0]") == [f"{after}use(x)\n"]


@pytest.mark.parametrize("fixer", ["out-of-place", "clone-target"])
def test_a_step_is_not_written_to_a_new_tensor(proposed, fixer):
    """It would be no leaf, and the next step would find no gradient there."""
    text = "for _ in range(2):\n    f(w).backward()\n    w -= lr * {}\n"
    assert proposed(FIXERS[fixer], "UC201", text.format("w.grad"), write="w -=") == []
    assert len(proposed(FIXERS[fixer], "UC201", text.format("v"), write="w -=")) == 1


def test_parameters_are_copied_for_one_call(proposed):
    """The module runs with copies, and the originals are free for the optimizer."""
    text = """
    import torch
    score = critic(fake)
    opt.step()
    """
    called = "critic, {n: p.clone() for n, p in critic.named_parameters()}, (fake,)"
    (new,) = proposed(clone_parameters, "UC101", text, saved="critic(fake)", facts={"name": "critic.weight"})
    assert plain(new).splitlines()[1:4] == ["score = torch.func.functional_call(", f"    {called}", ")"]


def test_the_weight_of_a_linear_layer_is_copied_alone(proposed):
    """One tensor and no dictionary, where the layer's own call saved it; this comes first."""
    text = "import torch\ny = net.fc(x)\nopt.step()\n"
    facts = {"name": "net.fc.weight", "expression": "net.fc.weight"}
    below = (Frame("linear.py", 134, "Linear.forward", library=True),)
    first, _ = proposed(clone_parameters, "UC101", text, saved="net.fc(x)", facts=facts, below=below)
    called = "torch.nn.functional.linear(x, net.fc.weight.clone(), net.fc.bias)"
    assert first == text.replace("net.fc(x)", called)


def test_no_weight_is_copied_alone_where_torch_has_no_name(proposed):
    """The file imports ``nn`` alone, so that ``torch.nn.functional`` can't be called."""
    text = "from torch import nn\ny = net.fc(x)\nopt.step()\n"
    facts = {"name": "net.fc.weight", "expression": "net.fc.weight"}
    below = (Frame("linear.py", 134, "Linear.forward", library=True),)
    assert proposed(clone_parameters, "UC101", text, saved="net.fc(x)", facts=facts, below=below) == []


def test_parameters_are_copied_for_all_calls_that_a_loss_may_need(proposed):
    """Features of real and of generated data are matched: a step between would change both graphs."""
    text = "import torch\nr = critic(real)\nf = critic(fake)\nopt.step()\n"
    texts = proposed(clone_parameters, "UC101", text, saved="critic(fake)", facts={"name": "critic.weight"})
    called = "torch.func.functional_call(critic, {n: p.clone() for n, p in critic.named_parameters()}, "
    one, both = (plain(new).splitlines()[1:3] for new in texts)
    assert one == ["r = critic(real)", f"f = {called}(fake,))"]
    assert both == [f"r = {called}(real,))", f"f = {called}(fake,))"]


def test_parameters_are_copied_for_a_call_within_a_call(proposed):
    """A module that is applied twice is called with copies in both places, or in either."""
    text, facts = "import torch\ny = net(net(x).tanh())\nopt.step()\n", {"name": "net.weight"}
    texts = proposed(clone_parameters, "UC101", text, saved="net(net(x).tanh())", facts=facts)
    called = "torch.func.functional_call(net, {n: p.clone() for n, p in net.named_parameters()}, "
    joined = ["".join(line.strip() for line in plain(new).splitlines()[1:-1]) for new in texts]
    assert joined == [
        f"y = {called}(net(x).tanh(),))",
        f"y = net({called}(x,)).tanh())",
        f"y = {called}({called}(x,)).tanh(),))",
    ]


@pytest.mark.parametrize(
    "text",
    [
        "if (loss := net(x)) > 0:\n    opt.step()\n",
        "for y in net(x):\n    opt.step()\n",
        "while net(x).sum() > 0:\n    opt.step()\n",
        "with net(x) as y:\n    opt.step()\n",
    ],
)
def test_parameters_are_copied_for_a_call_in_a_head(proposed, text):
    """The head of a compound statement has no block of its own, and stays in its line."""
    (new,) = proposed(
        clone_parameters, "UC101", f"import torch\n{text}", saved="net(x)", facts={"name": "net.weight"}
    )
    called = "torch.func.functional_call(net, {n: p.clone() for n, p in net.named_parameters()}, (x,))"
    assert new == f"import torch\n{text.replace('net(x)', called)}"


def test_a_copy_has_no_batch_either(proposed):
    """Under vmap neither a copy of the written tensor nor one like it may take a batch."""
    text = "import torch\nout.copy_(x)\nuse(out)\n"
    assert proposed(clone_target, "UC209", text, write="out.copy_(x)") == []
    copied = {"operation": "copy_"}
    texts = proposed(FIXERS["out-of-place"], "UC209", text, write="out.copy_(x)", write_facts=copied)
    assert texts == [text.replace("out.copy_(x)", "out = x.clone()")]


def test_frozen_statistics_alone_are_copied(proposed):
    """Batch norm in evaluation mode saves them; in training it counts on, in the module's own."""
    text, facts = "import torch\ny = norm(x)\n", {"role": "running_mean", "name": "norm.running_mean"}
    (new,) = proposed(clone_parameters, "UC102", text, saved="norm(x)", facts=facts)
    copies = "{n: b.clone() for n, b in norm.named_buffers() if not norm.training}"
    called = f"norm, {copies}, (x,)"
    assert plain(new).splitlines()[1:4] == ["y = torch.func.functional_call(", f"    {called}", ")"]
    own = "counts = [x for x in xs if not norm.training]\n"  # as the copies leave out, but the program's
    text = text.replace("y =", f"{own}norm.eval()\ny =")
    (new,) = proposed(clone_parameters, "UC102", text, saved="norm(x)", facts=facts)
    assert "for n, b in norm.named_buffers()}, (x,)" in new
    assert own in new


def test_the_inputs_of_a_backward_are_no_operands(proposed):
    """``grad`` would find no graph that leads to a copy."""
    text = "import torch\ng, = torch.autograd.grad(loss, [x], create_graph=True)\n"
    facts = {"role": "self", "expression": "x"}
    assert (
        proposed(
            clone_saved, "UC102", text, saved="torch.autograd.grad(loss, [x], create_graph=True)", facts=facts
        )
        == []
    )


def test_what_may_be_kept_uncopied_is_told(tmp_path):
    """A module may keep its result by a hook; torch's own function keeps nothing."""
    for call, hides in (
        ("torch.exp(x)", ""),
        ("self.act(x)", "self.act(x)"),
        ("f(x).relu_()", "f(x).relu_()"),
    ):
        finding, project = saved_in(tmp_path, f"import torch\ny = {call}\n", call)
        assert [candidate.shared_name for candidate in clone_saved(finding, project)][:1] == [hides]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("y = x.exp_()", "y = x.copy_(x.exp())"),
        ("x.mul_(2).sigmoid_()", "x.copy_(x.mul(2).sigmoid())"),
        ("y = torch.relu_(x[:, 0])", "y = x[:, 0].copy_(torch.relu(x[:, 0]))"),
    ],
)
def test_a_result_that_is_written_in_place_stays_there(proposed, before, after):
    """Whoever shares its memory sees the new values, and the derivative has its own."""
    text, facts = f"import torch\n{before}\nuse(x)\n", {"role": "result"}
    call = before.removeprefix("y = ")
    assert proposed(clone_saved, "UC101", text, saved=call, facts=facts)[:1] == [text.replace(before, after)]


def test_only_for_parameters(proposed):
    """Where nothing says that a parameter was overwritten, a call is left as it is."""
    text = "import torch\nscore = critic(fake)\n"
    assert proposed(clone_parameters, "UC101", text, saved="critic(fake)") == []
    assert rewritten(parameter_rewrites, "import torch\ny = torch.exp(x)  # <-\n") == []


@pytest.mark.parametrize(("value", "certain"), [("net(x[i])", False), ("net(x)", False), ("net(y)", True)])
def test_a_copy_is_in_doubt_if_the_statement_reads_it_too(value, certain, tmp_path):
    """What the network keeps of the copy is overwritten just as well."""
    path = tmp_path / "script.py"
    path.write_text(f"import torch\nx[i + 1] = {value}\nuse(x)\n")
    write = Write(site(path, "x[i + 1]"), "copy_", bumps_version=True, overlaps_needed=True)
    found, *_ = clone_target(Finding("UC101", "", writes=(write,)), Project(str(tmp_path)))
    assert found.guess is not certain


SCAN = """
def scan(x, a, b):
    for t in range(x.size(1)):
        xt = x[:, t]{more}
        h = xt * a
        x[:, t] = h + xt.unsqueeze(-1).sum(-1) * b
    return x
"""


@pytest.mark.parametrize(
    ("more", "read", "taken"),
    [
        ("", "xt", True),
        ("", "xt.unsqueeze(-1)", True),
        ("\n        xt[0] = 1", "xt", False),
        ("\n        xt.mul_(2)", "xt", False),
        ("\n        xt = xt * 2", "xt", False),
    ],
)
def test_the_part_that_a_variable_is_for_is_copied_once(proposed, more, read, taken):
    """Several operations save it; not where the variable is bound again, or written itself."""
    saved = "xt * a" if read == "xt" else "xt.unsqueeze(-1)"
    facts = {"expression": read}
    texts = proposed(
        clone_saved,
        "UC101",
        SCAN.format(more=more),
        saved=saved,
        facts=facts,
        write=("x[:, t]", 5 + bool(more)),
    )
    assert (_line(texts[0], 3) == "xt = x[:, t].clone()") is taken


def test_a_variable_that_is_added_to_is_for_no_part(proposed):
    text = SCAN.format(more="; b += xt[0]")
    texts = proposed(
        clone_saved, "UC101", text, saved="xt * a", facts={"expression": "b"}, write=("x[:, t]", 5)
    )
    assert not any("b += xt[0].clone()" in text for text in texts)
