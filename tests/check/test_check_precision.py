"""What is told by default: only evidence of which 80 of 100 flags were right (realworld/CHECK.md)."""

from __future__ import annotations

from textwrap import dedent, indent

import pytest
from test_check_programs import found_in

from checked_text import check_text

NET = """
    def kept(x):
        return torch.relu(x)
    class Net(nn.Module):
        def __init__(self, masked=True, scale=None, temperature=0.0):
            super().__init__()
            self.fc, self.act = nn.Linear(4, 4), nn.ReLU()
            self.masked = masked
            self.tau = temperature
            self.scale = scale
        def written(self, x):
            x += 1
            return x
        def kept(self, x):
            return self.act(self.fc(x))
        def layers(self, x):
            every = []
            for _ in range(2):
                x = self.act(self.fc(x))
                every.append(x)
            return every
        def forward(self, x, weight=None, fast=False):
            {}
            return x
"""


ACTED = "x = self.act(self.fc(x)); "


@pytest.mark.parametrize(("told", "asked"), [
    pytest.param("x = self.fc(x); x /= x.norm()", "x /= x.norm()", id="an argument"),
    pytest.param(
        "x = kept(self.fc(x)); x += 1", "x = kept(x); x += 1", id="a save in another class or function"
    ),
    pytest.param("x = self.kept(x); x += 1", "x = kept(x); x += 1", id="a save in a method of the module"),
    pytest.param(
        ACTED + "x = self.written(x)", "x = self.act(x); x = self.written(x)", id="a write elsewhere"
    ),
    pytest.param(ACTED + "x[:, 0] = 0", "x = self.act(x); x[:, 0] = 0", id="a part that is assigned"),
    pytest.param(
        "y, x = self.layers(x); x += y", "y = self.fc(x); x = self.act(y) if weight else y.exp(); x += 1",
        id="one of several tensors",
    ),
    pytest.param("x = F.relu(x); x *= 2", "x = torch.exp(x); x *= 2", id="a result of an unknown gradient"),
    pytest.param(
        ACTED + "if self.masked: x *= 2", ACTED + "if not self.masked: x *= 2", id="a class's option",
    ),
    pytest.param(
        ACTED + "if self.tau < 1: x *= 2", ACTED + "if self.tau > 0: x *= 2", id="an option of another name"
    ),
    pytest.param(
        ACTED + "if weight is None or fast: x *= 2", ACTED + "if weight is not None and fast: x *= weight",
        id="a function's option",
    ),
    pytest.param(
        ACTED + "if fast is None: fast = 2; if fast: x *= 2", ACTED + "if fast: x *= 2", id="what is replaced"
    ),
])  # fmt: skip
def test_what_is_told_by_default(told, asked):
    """The second of each pair has a write that was mostly no fault where it was met."""
    told, asked = (NET.format(lines.replace("; ", "\n            ")) for lines in (told, asked))
    assert [confidence for _, confidence, _ in found_in(told)] == ["medium"]
    assert found_in(asked) == []
    assert "UC101" in [code for code, *_ in found_in(asked, all_rules=True)]


@pytest.mark.parametrize(("last", "codes"), [("nn.InstanceNorm2d(2)", []), ("nn.ReLU()", ["UC101"])])
def test_a_long_list_of_modules(last, codes):
    """What is left out of a list of more than twelve is a gap: the norm keeps no result."""
    found = found_in(f"""
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            layers = []
            for _ in range(4):
                layers.extend([nn.Conv2d(2, 2, 1), nn.MaxPool2d(2), nn.ReLU(), {last}])
            layers.extend([nn.Conv2d(2, 2, 1), nn.MaxPool2d(2), nn.ReLU(), {last}])
            layers.append(nn.Dropout(0.1, inplace=True))
            self.layers = nn.Sequential(*layers)
        def forward(self, x):
            return self.layers(x)
    """)
    assert [code for code, *_ in found] == codes


def test_one_backward_of_several_losses_goes_through_a_graph_once():
    """As the exact moments of tensor_language do: no graph is freed between them."""
    body = "w = torch.ones(2, requires_grad=True)\ny = w.exp()\na, b = y.sum(), y.mean()\n{}"
    assert found_in(body.format("torch.autograd.backward([a, b])")) == []
    assert [code for code, *_ in found_in(body.format("a.backward()\nb.backward()"))] == ["UC301"]


@pytest.mark.parametrize(("line", "count"), [("x.requires_grad = True", 0), ("y = x", 1)])
def test_what_is_made_a_leaf_has_no_history(line, count):
    """Else the line would change nothing: the tests of torch-harmonics."""
    found = found_in(f"""
    net, last = nn.Linear(3, 3), nn.Linear(3, 3)
    x = net(torch.ones(3))
    {line}
    last(x).sum().backward()
    last(x).sum().backward()
    """)
    assert [code for code, *_ in found] == ["UC301"] * count


def test_a_tensor_that_is_detached_in_place_has_no_history():
    """Nor what the writes before have brought into its memory."""
    body = """
    net = nn.Linear(3, 3)
    y = net(torch.ones(3))
    z = torch.zeros(3)
    z += y
    z.sum().backward()
    z{}.sum().backward()
    """
    assert [code for code, *_ in found_in(body.format(""))] == ["UC301"]
    assert found_in(body.format(".detach_().requires_grad_()")) == []


@pytest.mark.parametrize(("log", "count"), [("log.detach_()", 0), ("log", 1)])
def test_what_an_unread_function_returned_may_be_detached_in_place(log, count):
    """The history of its only argument goes, too: ``log_pis`` in ``sac.py`` of gail-airl-ppo."""
    found = found_in(f"""
    net, w = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1)), torch.zeros(1, requires_grad=True)
    optimizer = torch.optim.Adam(net.parameters())
    for x in torch.ones(3, 2, 3):
        log = log_of(net(x))
        log.mean().backward(retain_graph=True)
        optimizer.step()
        (w * {log}.mean()).backward()
    """)
    assert [code for code, *_ in found][:1] == ["UC101"] * count


def test_a_chain_of_writes_is_applied_once():
    """``coords.sqrt_().mul_(2).tanh_()`` of XMem: nothing is written after the last one."""
    body = """
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(3, 3)
        def forward(self, x):
            x = self.fc(x)
            x.mul_(2).tanh_(){}
            return x
    """
    assert found_in(body.format("")) == []
    assert [code for code, *_ in found_in(body.format(".mul_(2)"))] == ["UC101"]


@pytest.mark.parametrize(("test", "count"), [("elif mode == 'b'", 0), ("if x.is_cuda", 1)])
def test_a_tensor_that_another_branch_expands(test, count):
    """It is written in a case of its own, in whatever turn: ``torch_lddmm.py`` of TransMorph's baselines."""
    found = found_in(f"""
    def fit(x: torch.Tensor, mode):
        for _ in range(9):
            if mode == 'a':
                x = x.clone().expand(2, 3)
            {test}:
                x[:, :2] = 1
        return x
    """)
    assert [code for code, *_ in found] == ["UC207"] * count


@pytest.mark.parametrize(("then", "before", "count"), [
    pytest.param("if kind in ['two']:", "pass", 0, id="a backward under another condition"),
    pytest.param("if True:", "pass", 1, id="a backward after both branches"),
    pytest.param("if True:", "continue", 0, id="a branch that ends the turn"),
    pytest.param("if True:", "loss = net(x).mean()", 0, id="a loss made anew after the step"),
])  # fmt: skip
@pytest.mark.parametrize("test", ["kind in ['one']", "loss.item() < 3.5", "i % 2 == 0"])
def test_a_step_under_a_condition(test, then, before, count):
    """A backward in a branch of another mode may come without it (PDEBench), one after both does not."""
    found = found_in(f"""
    net = nn.Linear(3, 3)
    opt = torch.optim.Adam(net.parameters())
    def train(xs, kind):
        for i, x in enumerate(xs):
            y = net(x).tanh()
            loss, other = y.mean(), y.square().mean()
            if {test}:
                other.backward(retain_graph=True)
                opt.step()
                {before}
            {then}
                loss.backward()
    """)
    assert [code for code, *_ in found] == ["UC101"] * count


def test_a_step_in_the_condition_of_a_called_function():
    """What a function returned without it may be another tensor than what it returned after it."""
    body = """
    net = nn.Linear(3, 3)
    opt = torch.optim.Adam(net.parameters())
    def trained(x, y, kind):
        if kind:
            y.square().mean().backward(retain_graph=True)
            opt.step()
            return net(x)
        return y
    def train(xs, kind):
        for x in xs:
            trained(x, net(x).tanh(), kind).mean().backward()
    """
    assert found_in(body) == []


HEAD = """
    class Head(nn.Module):
        def __init__(self):
            super().__init__()
            {made}
        def _init_last(self):
            self.last = nn.Linear(3, 3)
            self.last.weight.copy_(torch.ones(3, 3))
        def forward(self, x, test=False):
            {tested}
            return x
"""


def test_a_leaf_that_a_method_writes_is_told_where_the_method_is_called():
    """In a branch of tests no gradient is recorded: ``TPNHead`` of mmaction2."""
    assert found_in(HEAD.format(made="", tested="if test: self._init_last()")) == []
    assert [code for code, *_ in found_in(HEAD.format(made="self._init_last()", tested=""))] == ["UC201"]
    assert [code for code, *_ in found_in(HEAD.format(made="", tested=""))] == ["UC201"]


def test_a_weight_of_a_module_that_is_given_may_be_written_without_gradients():
    """``weight_update`` of aimet, which another file calls under ``no_grad``."""
    body = """
    def replace(module, made):
        module.weight = nn.Parameter(made)
    def update(module):
        {}.weight[:, 0] = 0
    """
    assert found_in(body.format("module")) == []
    assert [code for code, *_ in found_in(body.format("nn.Linear(3, 3)"))] == ["UC202"]


def test_what_is_told_on_request_alone_is_of_low_confidence():
    """Medium stands for 80 of 100."""
    text = "import torch\ndef loss(x):\n    y = torch.exp(x)\n    y += 1\n    return y\n"
    assert [one.confidence for one in check_text(dedent(text), "a.py", all_rules=True)] == ["medium"]


@pytest.mark.parametrize(("use", "count"), [
    ("for _, layer in self.layers.named_children(): x = layer(x)", 0), ("x = self.layers(x)", 1),
])  # fmt: skip
def test_a_sequence_that_is_taken_apart_is_no_chain(use, count):
    """Its parts may be replaced there: ``gated_conv_net.py`` of what-matters-for-meta-learning."""
    found = found_in(f"""
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.Sequential(nn.Linear(3, 3), nn.ReLU(), nn.ReLU(inplace=True))
        def forward(self, x):
            {use}
            return x
    """)
    assert [code for code, *_ in found] == ["UC101"] * count


@pytest.mark.parametrize(("name", "count"), [("register_buffer", 0), ("register_parameter", 1)])
def test_a_buffer_is_no_leaf(name, count):
    """``to`` makes another tensor of it, whatever it was: ``vq_model.py`` of LlamaGen."""
    found = found_in(f"""
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.{name}("used", nn.Parameter(torch.zeros(9)))
        def forward(self, x):
            self.used[2:] = x
            return x
    """)
    assert [code for code, *_ in found] == ["UC202"] * count


@pytest.mark.parametrize(("wanted", "count"), [
    ("", 1), ("True", 1), ("flag and not x.requires_grad", 0), ("requires_grad=False", 0),
])  # fmt: skip
def test_what_an_expression_says_of_a_leaf_is_not_known(wanted, count):
    """A tensor may stay without a gradient: ``semimarkov.py`` of pytorch-struct."""
    found = found_in(f"""
    def chart(x, flag):
        made = torch.zeros(3)
        made.requires_grad_({wanted})
        made[0] = x.sum()
        return made
    """)
    assert [code for code, *_ in found] == ["UC202"] * count


@pytest.mark.parametrize(("default", "test", "count"), [
    ("0", "> 0", 0), ("0.5", "> 0", 1), ("None", "> 0", 1), ("1", "< 1", 0), ("0", "", 0),
])  # fmt: skip
def test_a_use_that_an_option_brings(default, test, count):
    """The step and the backward stand outside of the branch: ``ddpg.py`` of ILSwiss."""
    found = found_in(f"""
    class Trainer:
        def __init__(self, policy, qf, weight={default}):
            self.policy, self.qf = policy, qf
            self.weight = weight
            self.p_opt = torch.optim.Adam(self.policy.parameters())
            self.q_opt = torch.optim.Adam(self.qf.parameters())
        def train(self, obs):
            p_loss, q_loss = self.qf(self.policy(obs)).mean(), self.qf(obs).mean()
            if self.weight {test}:
                q_loss = q_loss + self.qf(self.policy(obs)).mean()
            p_loss.backward()
            self.p_opt.step()
            q_loss.backward()
            self.q_opt.step()
    """)
    assert [code for code, *_ in found] == ["UC101"] * count


@pytest.mark.parametrize(("default", "made", "count"), [("1", "1", 0), ("2", "1", 1), ("1", "2", 1)])
def test_a_second_layer_that_an_option_brings(default, made, count):
    """One layer reads its input, and a second one what the first has written: ``BiLstmCellEncoder.py``."""
    layers = "" if made == "1" else f", layers={made}"
    found = found_in(f"""
    class Encoder(nn.Module):
        def __init__(self, width, layers={default}):
            super().__init__()
            self.layers = layers
            self.cells = nn.ModuleList([nn.LSTMCell(width, width) for _ in range(layers)])
        def forward(self, x):
            states = torch.empty(self.layers, *x.shape)
            for layer in range(self.layers):
                inner, h = x if layer == 0 else states[layer - 1], None
                for i in range(x.size(1)):
                    h = self.cells[layer](inner[:, i], h)
                    states[layer, :, i] = h[0]
            return states[-1]
    net = Encoder(4{layers})
    net(torch.ones(2, 3, 4)).sum().backward()
    """)
    assert bool(found) == count


@pytest.mark.parametrize(("wanted", "count"), [("False", 0), ("True", 1)])
@pytest.mark.parametrize("given", ["self.table.weight", "out=self.table.weight"])
def test_a_function_that_freezes_its_argument(wanted, given, count):
    """The caller's tensor is no leaf that needs a gradient: ``transformer_layers.py`` of hybridseq2seq."""
    found = found_in(f"""
    def fill(out):
        out.requires_grad = {wanted}
        with torch.no_grad():
            out[:, 0::2] = 1.0

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.table = nn.Embedding(3, 4)
            fill({given})
            self.table.weight *= 0.5
    """)
    assert [code for code, *_ in found] == ["UC201"] * count


@pytest.mark.parametrize(("real", "count"), [("real", 0), ("fake.exp()", 1)])
def test_an_argument_that_a_network_gives_back(real, count):
    """It isn't computed with the network's parameters: ``train_stegogan.py`` of the translation models."""
    found = found_in(f"""
    class Trainer:
        def __init__(self, g, d):
            self.g, self.d = g, d
            self.g_opt = torch.optim.Adam(self.g.parameters())
            self.d_opt = torch.optim.Adam(self.d.parameters())
        def forward(self, real: torch.Tensor):
            fake, mask = self.g(real)
            return {{"fake": fake, "real": {real}, "mask": mask}}
        def train(self, real: torch.Tensor):
            made = self.forward(real)
            self.d(made["fake"]).mean().backward(retain_graph=True)
            self.g_opt.step()
            (self.d(made["real"]) - self.d(made["fake"].detach())).mean().backward()
            self.d_opt.step()
    """)
    assert [code for code, *_ in found] == ["UC101"] * count


@pytest.mark.parametrize(("target", "count"), [("target", 0), ("nn.Linear(3, 3)(target)", 1)])
def test_a_module_without_weights_has_its_arguments_gradient(target, count):
    """An argument's is not known: ``test_time_tuning`` in ``ProDe.py`` of source-free-domain-adaptation."""
    found = found_in(f"""
    def tune(model, inputs, target):
        target = nn.Softmax(dim=1)({target})
        for _ in range(3):
            (model(inputs).log() * target).sum().backward()
    """)
    assert [code for code, *_ in found] == ["UC301"] * count


@pytest.mark.parametrize(("frozen", "count"), [(".requires_grad_(False)", 0), ("", 1)])
def test_the_parts_of_a_frozen_network_are_frozen(frozen, count):
    """Those of its parts' parts, too: ``lift`` in ``validate_model.py`` of pi-vae-pytorch."""
    found = found_in(f"""
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(4, 4)
        def forward(self, x):
            return self.fc(x).relu()

    class Chain(nn.Module):
        def __init__(self):
            super().__init__()
            self.chain = nn.Sequential(*[Net() for _ in range(3)])
        def forward(self, x):
            return self.chain(x)

    def lift(x):
        return torch.tanh(Chain(){frozen}(x))

    x, net = lift(torch.randn(4, 4)), Net()
    for epoch in range(5):
        (net(x) * x).sum().backward()
    """)
    assert [code for code, *_ in found] == ["UC301"] * count


@pytest.mark.parametrize(("wanted", "count"), [("False", 0), ("True", 1)])
def test_a_weight_that_is_frozen_by_itself(wanted, count):
    """``plot_convergence.py`` of KPConv."""
    found = found_in(f"""
    def smooth(signal, n):
        conv = nn.Conv1d(1, 1, kernel_size=n, bias=False)
        conv.weight.requires_grad_({wanted})
        conv.weight *= 0
        return conv(signal)
    """)
    assert [code for code, *_ in found] == ["UC201"] * count


@pytest.mark.parametrize(("drawn", "count"), [("sample", 0), ("rsample", 1)])
def test_a_sample_has_no_history(drawn, count):
    """What reaches the next round is the sample alone: ``humanoid_agent.py`` of ai-walkers-ppo."""
    found = found_in(f"""
    class Agent:
        def __init__(self):
            self.actions = []
        def train(self, model, state):
            optimizer = torch.optim.Adam(model.parameters())
            while True:
                for _ in range(5):
                    dist, value = model(state)
                    self.actions.append(dist.{drawn}())
                actions = torch.cat(self.actions)
                for _ in range(4):
                    dist, value = model(state)
                    loss = (actions - value).pow(2).mean()
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
    """)
    assert [code for code, *_ in found][:1] == ["UC101"] * count


@pytest.mark.parametrize(("after", "count"), [("error = 0.0", 0), ("pass", 1)])
def test_a_loss_that_begins_anew_after_the_step(after, count):
    """Where it goes on there was no step: ``test_capacity.py`` of lstms.pth."""
    found = found_in(f"""
    net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
    opt, error = torch.optim.SGD(net.parameters(), 0.1), 0.0
    for at, x in enumerate(torch.randn(8, 2, 3)):
        error += net(x).square().mean()
        if (1 + at) % 2 == 0:
            opt.zero_grad()
            error.backward()
            opt.step()
            {after}
    """)
    assert [code for code, *_ in found][:1] == ["UC101"] * count


@pytest.mark.parametrize(("last", "count"), [("layer(x)", 0), ("F.relu(layer(x))", 1)])
@pytest.mark.parametrize("loop", ["for _ in range(2)", "if True"])
def test_the_last_turn_of_a_loop_within_another(loop, last, count):
    """The head of Conditional DETR: what its last layer returns is no activation's, in each turn."""
    body = f"""
    class Head(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList(nn.Linear(n, 4) for n in sizes)
        def forward(self, x):
            for i, layer in enumerate(self.layers):
                x = F.relu(layer(x)) if i < len(self.layers) - 1 else {last}
            return x
    head = Head()
    {loop}:
        box = head(torch.ones(5, 4))
        box[..., :2] += 1
        box.sigmoid().sum().backward()
    """
    assert [code for code, *_ in found_in(body)] == ["UC101"] * count


@pytest.mark.parametrize(("test", "count"), [("i == kept", 0), ("i == last", 1), ("i in kept", 1)])
@pytest.mark.parametrize("turns", ["range(4)", "range(1, 4)"])
def test_a_turn_of_a_loop_is_hardly_the_last(turns, test, count):
    """``x_backout`` of modded-nanogpt is an earlier block's result, another tensor than the last one's."""
    body = f"""
    net, x = nn.Linear(3, 3), torch.ones(3)
    for i in {turns}:
        x = torch.sin(net(x))
        if {test}:
            earlier = x
    y = torch.sin(earlier)
    x += 1
    (x + y).sum().backward()
    """
    assert [code for code, *_ in found_in(body, all_rules=True)] == ["UC101"] * count


@pytest.mark.parametrize(("renews", "count"), [
    ("(t - 1) < n_past", 0), ("kept or t - 1 < n_past", 0), ("t < n_past", 1), ("kept and t - 1 < n_past", 1),
    ("t > n_past", 1),
])  # fmt: skip
@pytest.mark.parametrize("lines", ["is_new = {}; if is_new:", "if {}:"])
def test_the_first_turn_is_below_any_number(lines, renews, count):
    """What every loop's first turn makes anew is never of the epoch before: guyleaf's NYCU-DL-2022-Summer."""
    body = f"""
    net = nn.Linear(3, 3)
    opt = torch.optim.Adam(net.parameters())
    def trained(xs, n_past, kept, skips):
        loss = 0
        for t, x in enumerate(xs, start=1):
            {lines.format(renews).replace("; ", chr(10) + 12 * " ")}
                skips = [net(x).tanh()]
            loss = loss + (net(x) + skips[0]).square().mean()
        loss.backward()
        opt.step()
        return skips
    def train(loader, n_past, kept):
        skips = [torch.zeros(3)]
        for _ in range(3):
            skips = trained(loader, n_past, kept, skips)
    """
    assert [code for code, *_ in found_in(body, all_rules=True)] == ["UC101"] * count
    assert found_in(body) == [], "a branch renews the list: on request"


def test_a_view_of_an_object_is_no_object():
    """It had no class: EchoTorch's tensors ended in an internal error."""
    found = found_in("""
    class Series:
        def __init__(self, made):
            self.made = made
    torch.reshape(Series(3), (-1,)).run()
    """)
    assert found == []


@pytest.mark.parametrize(("loop", "count"), [
    ("for loss in losses: loss.backward()", 0), ("for i in range(3): losses[i].backward()", 0),
    ("for _ in range(3): sum(losses).backward()", 1),
    ("for _ in range(3): feature.mean().backward()", 1),
])  # fmt: skip
def test_the_items_of_a_list_may_have_graphs_of_their_own(loop, count):
    """Each turn has another: mutual learning in ``sequence_mutual_trainer.py`` of FingerRec's repository."""
    found = found_in(f"""
    net, feature = nn.Sequential(nn.Linear(3, 3), nn.Tanh()), nn.Linear(3, 3)(torch.ones(3)).exp()
    losses = [(net(torch.ones(3)) * k).mean() for k in range(3)]
    {loop}
    """)
    assert [code for code, *_ in found] == ["UC301"] * count


@pytest.mark.parametrize(("given", "count"), [("Variable(made)", 0), ("made", 1)])
def test_a_variable_has_no_history(given, count):
    """Since torch 0.4, that is: tests/torch_facts has what torch does."""
    found = found_in(f"""
    from torch.autograd import Variable
    net = nn.Sequential(nn.Linear(3, 3), nn.Tanh())
    made = net(torch.ones(3))
    for _ in range(3):
        (net(torch.ones(3)) * {given}).mean().backward()
    """)
    assert [code for code, *_ in found] == ["UC301"] * count


@pytest.mark.parametrize(("flag", "count"), [("flag", 0), ("True", 1)])
def test_a_flag_decides_whether_gradients_are_recorded(flag, count):
    """It may be off: ``finetune.py`` of Few-shot-histology."""
    found = found_in(f"""
    def tune(model: nn.Linear, x, flag):
        body, head = nn.Linear(3, 3), nn.Linear(3, 3)
        with torch.set_grad_enabled({flag}):
            z = body(x)
        for _ in range(3):
            head(z).softmax(-1).mean().backward()
    """)
    assert [code for code, *_ in found] == ["UC301"] * count


@pytest.mark.parametrize(("state", "count"), [("hidden", 0), ("encoder(d)", 1)])
def test_a_network_that_is_not_read_may_cut_what_it_returned(state, count):
    """``OmniAnomaly`` of TranAD draws a state anew."""
    found = found_in(f"""
    def train(model, encoder, data):
        optimizer = torch.optim.Adam(list(model.parameters()) + list(encoder.parameters()))
        hidden = None
        for d in data:
            hidden = {state}
            made, hidden = model(d, hidden)
            first = made.square().mean()
            optimizer.zero_grad()
            first.backward(retain_graph={state == "encoder(d)"})
            optimizer.step()
            {"made.exp().mean().backward()" if state != "hidden" else "pass"}
    """)
    assert [code for code, *_ in found][:1] == ["UC101"] * count


@pytest.mark.parametrize(("part", "count"), [("math.sqrt(3)", 0), ("nn.Linear(3, 3)", 1)])
def test_a_module_of_no_layers_is_no_network(part, count):
    """``TC`` of FingerRec's repository moves clips, and nothing trains it."""
    found = found_in(f"""
    from lib import Base
    class Move(Base):
        def __init__(self):
            super().__init__()
            self.part = {part}

    def train(data):
        moved = Move()(data)
        for _ in range(3):
            (nn.Linear(3, 3)(torch.ones(3)) * moved).mean().backward()
    """)
    assert [code for code, *_ in found] == ["UC301"] * count


@pytest.mark.parametrize(("weight", "index", "count"), [
    ("self.layer.weight.data", "weight.lt(-1)", 0), ("self.layer.weight", "weight.lt(-1)", 1),
    ("self.layer.weight.data", ":2", 1), ("self.layer.weight.data", "0", 0),
])  # fmt: skip
def test_a_part_of_an_expanded_tensor(weight, index, count):
    """`util.py` of XNOR-Net-PyTorch: torch warns of a mask, and refuses its backward alone. A single
    element along the expanded dimension is a part without overlap: `lstmhelper.py` of FewShotLearning."""
    text = f"""
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.layer = nn.Linear(3, 3)
            def scale(self):
                weight = {weight}
                m = weight.norm(1, 1, keepdim=True).div(weight.nelement()).expand(3, 3)
                m[{index}] = 0
                return m
    """
    assert len(found_in(text)) == count


@pytest.mark.parametrize(("cut", "count"), [(".detach()", 0), ("", 1)])
def test_a_buffer_that_is_detached_after_it_was_filled(cut, count):
    """`ppo_trainer.py` of world-model-rl: the advantages' graph is left behind."""
    text = f"""
        def train(net, states):
            net = nn.Linear(3, 1)
            values, filled = net(states), torch.zeros(4)
            for t in range(4):
                filled[t] = values[t] * 2
            filled = filled{cut}
            for i in range(4):
                (net(states)[i] * filled[i]).mean().backward()
    """
    assert len(found_in(text)) == count


@pytest.mark.parametrize(("later", "body", "count"), [
    ("loss + 5 * c", "raise NotImplementedError", 1), ("loss.detach() + 5 * c", "pass", 0),
    ("loss.item() + 5 * c", "pass", 0), ("loss + 5 * c", "pass", 1), ("5 * c", "...", 0),
    ("loss + 5 * c", "return 1.0, 2.0, x", 0),
])  # fmt: skip
def test_a_step_between_the_backwards_of_one_loss(later, body, count):
    """`trainers.py` of OAMN: whose weights the optimizer steps isn't known, but the loss needs them. The
    method that makes the losses is a deriving class's."""
    found = found_in(f"""
    class Trainer:
        def losses(self, x):
            {body}
        def train(self, loader, optimizers):
            first, second = optimizers
            for x in loader:
                a, b, c = self.losses(x)
                loss = a + 0.5 * b
                first.zero_grad()
                loss.backward(retain_graph=True)
                first.step()
                second.zero_grad()
                later = {later}
                later.backward()
                second.step()
    """)
    assert [text for *_, text in found] == ["first.step()"] * count


@pytest.mark.parametrize(("given", "count"), [("d_feature", 0), ("loss", 1)])
def test_a_gradient_is_no_loss(given, count):
    """LRP-imagecaptioning-pytorch gives an encoder's result its gradient; an accelerator takes a loss."""
    found = found_in(f"""
    from lib import make
    def explain(states):
        made, w = make(), nn.Linear(3, 3)
        {given} = w(states[0]).exp()
        {given} += 1
        made.backward({given}.mean(), retain_graph=True)
    """)
    assert [code for code, *_ in found] == ["UC101"] * count


@pytest.mark.parametrize(("key", "expected"), [("('disp', 0)", 0), ("f'disp{0}'", 0), ("0, 0", 1)])
def test_a_key_with_a_text_is_a_dictionarys(key, expected):
    """``outputs[("disp", scale)] = …`` of monodepth2 and its copies writes to no tensor."""
    body = f"""
    net = nn.Linear(3, 3)
    def step(x, y):
        outputs = net(x).exp()
        outputs[{key}] = y
        outputs.sum().backward()
    """
    assert len(found_in(body)) == expected


def test_a_graph_that_is_kept_by_the_old_name():
    """``retain_variables`` became ``retain_graph``."""
    body = """
    net = nn.Linear(3, 3)
    loss = net(torch.ones(3)).exp().sum()
    loss.backward({kept})
    loss.backward()
    """
    assert found_in(body.format(kept="retain_variables=True")) == []
    assert len(found_in(body.format(kept=""))) == 1


def test_a_function_that_turns_gradients_on_within():
    """Then they are off outside of that block, where an attack's start value is set."""
    body = """
    class Attack:
        def perturb(self, net, x):
            delta = nn.Parameter(torch.zeros_like(x))
            delta.uniform_(-1, 1)
            for _ in range(3):
                {block}
                    loss = net(x + delta).sum()
    """
    assert found_in(body.format(block="with torch.enable_grad():")) == []
    assert len(found_in(body.format(block="if x.sum() > 0:"))) == 1
    decorated = body.replace("        def perturb", "        @torch.enable_grad()\n        def perturb")
    assert len(found_in(decorated.format(block="with torch.enable_grad():"))) == 1


def test_a_function_of_the_old_style():
    """torch refuses one whose ``forward`` is no static method, before it writes anything."""
    body = """
    class Mask(torch.autograd.Function):
        {decorator}
        def forward({first}, x, alpha):
            alpha.clamp_(0)
            return x * alpha
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.alpha = nn.Parameter(torch.ones(3))
        def forward(self, x):
            return Mask(){apply}(x, self.alpha)
    """
    assert found_in(body.format(decorator="", first="self", apply="")) == []
    new = body.format(decorator="@staticmethod", first="ctx", apply=".apply")
    assert [code for code, *_ in found_in(new)] == ["UC103"]


@pytest.mark.parametrize(("frozen", "count"), [("requires_grad_(False)", 0), ("requires_grad_()", 1)])
def test_a_leaf_that_is_frozen_in_place(frozen, count):
    """No graph is made of it then (`main_fedusd.py` of FedUSD)."""
    body = """
    x = torch.randn(3, 4, requires_grad=True)
    x.{}
    x[:, 0] = x[:, 0] / x[:, 0].abs().max()
    nn.Linear(4, 1)(x).sum().backward()
    """
    assert bool(found_in(body.format(frozen))) == bool(count)


@pytest.mark.parametrize(("second", "count"), [("self.b(x)", 0), ("self.b(x) + self.a(x)", 1)])
def test_a_step_changes_only_parts_that_have_a_gradient(second, count):
    """`zero_grad` leaves the second head without (`sac.py` of adiayn)."""
    body = """
    class Q(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(5, 1), nn.Linear(5, 1)
        def forward(self, x):
            return self.a(x), {second}
    critic = Q()
    optimizer = torch.optim.Adam(critic.parameters())
    x = torch.rand(4, 5, requires_grad=True)
    q1, q2 = critic(x)
    optimizer.zero_grad()
    q1.mean().backward(retain_graph=True)
    optimizer.step()
    optimizer.zero_grad()
    q2.mean().backward()
    """
    assert [code for code, *_ in found_in(body.format(second=second))] == ["UC101"] * count


@pytest.mark.parametrize(("test", "count"), [("x.dim() == 1", 0), ("training", 1)])
def test_a_shape_that_is_changed_for_some_shapes(test, count):
    """Which one comes is not known (`TD3.py` of CarRacing_agents)."""
    body = """
    def batched(x, training):
        if {}:
            x = x.unsqueeze_(0)
        return x
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(3, 2), nn.Linear(2, 1)
        def forward(self, x, training):
            return self.b(batched(torch.tanh(self.a(x)), training))
    """
    assert len(found_in(body.format(test))) == count


@pytest.mark.parametrize(("place", "count"), [("inside", 0), ("before", 1)])
def test_each_turn_makes_a_network(place, count):
    """It is another one than that of the turn before (`meta.py` of MAML-KalmanNet)."""
    made = "net = Learner()"
    body = """
    class Learner(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 3))
        def forward(self, x):
            return self.layers(x)
    def train(tasks):
        base, total = Learner(), torch.tensor(0.0)
        {before}
        for task in tasks:
            {inside}
            net.load_state_dict(base.state_dict())
            total = total + net(task).pow(2).mean()
        total.backward()
    """
    places = {"before": "pass", "inside": "pass", place: made}
    assert [code for code, *_ in found_in(body.format(**places))] == ["UC101"] * count


@pytest.mark.parametrize(("called", "count"), [(".init_hidden()", 0), ("(x)", 1)])
def test_a_method_of_an_unknown_network(called, count):
    """Only a call of it surely uses the weights (`imdb_test.py` of lstm-lottery-tickets)."""
    body = """
    import copy
    def train(model, optimizer, batches, x):
        for epoch in range(2):
            hidden = model{called}
            for batch in batches:
                optimizer.zero_grad()
                (model(batch) * hidden).mean().backward()
                optimizer.step()
    def main(models, batches, x):
        for model in models:
            pruned = copy.deepcopy(model)
            train(pruned, torch.optim.Adam(pruned.parameters()), batches, x)
    """
    assert bool(found_in(body.format(called=called))) == bool(count)


@pytest.mark.parametrize(("relu", "count"), [("False", 0), ("True", 1)])
def test_an_attribute_that_another_class_has_as_well(relu, count):
    """`self.relu` of the outer class is no assignment to the inner one's (`layers.py` of david-wb)."""
    body = """
    class Conv(nn.Module):
        def __init__(self, i, o, relu=True):
            super().__init__()
            self.conv = nn.Conv2d(i, o, 1)
            self.relu = None
            if relu:
                self.relu = nn.ReLU()
        def forward(self, x):
            x = self.conv(x)
            if self.relu is not None:
                x = self.relu(x)
            return x
    class Residual(nn.Module):
        def __init__(self):
            super().__init__()
            self.relu = nn.ReLU()
            self.last = Conv(2, 2, relu={})
        def forward(self, x):
            out = self.last(self.relu(x))
            out += x
            return out
    """
    assert len(found_in(body.format(relu))) == count


@pytest.mark.parametrize(("result", "count"), [("loss", 0), ("loss * 2", 1)])
@pytest.mark.parametrize("early", ["return x, 0, 0", "pass"])
def test_a_loss_that_was_differentiated_is_returned(result, count, early):
    """It is for a log; and only tuples of one length are unpacked (`BS_util.py` of deep hedging)."""
    body = """
    def attack(net, x):
        if x is None:
            {early}
        budget, sign = torch.ones(3, requires_grad=True), torch.ones(3, requires_grad=True)
        loss = net(x + budget * sign).sum()
        found = torch.autograd.grad(loss, budget, retain_graph=True)[0]
        with torch.no_grad():
            budget.copy_(budget + found)
        return found, {result}
    """
    assert len(found_in(body.format(early=early, result=result))) == count
    caller = """
    def train(net, x, optimizer):
        moved, _ = attack(net, x)
        loss = net(x + moved).sum()
        loss.backward()
    """
    assert found_in(body.format(early=early, result="loss") + caller) == []


LOSSES = """
net = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 1))
optimizer = torch.optim.SGD(net.parameters())
losses = []
for step in range(8):
    losses.append(net(torch.randn(5, 4)).pow(2).mean())
"""


@pytest.mark.parametrize(("last", "count"), [("[-1]", 0), ("[0]", 1)])
def test_the_last_item_of_a_list(last, count):
    """It is what was appended last (`CFair.py` of Learning-fair-representations-for-accuracy-parity)."""
    turn = f"loss = losses{last}\noptimizer.zero_grad()\nloss.backward()\noptimizer.step()\n"
    assert len(found_in(LOSSES + indent(turn, "    "))) == count


@pytest.mark.parametrize(("second", "count"), [("nn.LeakyReLU(inplace=True)", 0), ("nn.ReLU()", 1)])
def test_a_list_that_gets_one_of_two_modules(second, count):
    """They never follow one another (`models.py` of Naturalistic-Adversarial-Patch)."""
    body = """
    class Block(nn.Module):
        def __init__(self, name):
            super().__init__()
            self.layers = nn.ModuleList([nn.Conv2d(2, 2, 3)])
            if name == "relu":
                self.layers.append(nn.ReLU())
            else:
                self.layers.append({second})
            self.layers.append(nn.{last}(inplace=True))
        def forward(self, x):
            for layer in self.layers:
                x = layer(x)
            return x
    """
    assert found_in(body.format(second=second, last="Hardtanh").replace("self.layers.append(nn.H", "#")) == []
    assert len(found_in(body.format(second=second, last="Dropout"))) == count


@pytest.mark.parametrize(("wanted", "count"), [("wanted", 0), ("True", 1)])
def test_a_parameter_whose_gradient_an_argument_decides(wanted, count):
    """There may be no graph to be freed (`toy_exp.py` of hyperbolic-fully-connected)."""
    body = """
    def train(scale, wanted=False):
        k = nn.Parameter(torch.tensor(scale), requires_grad={})
        root = k.sqrt()
        net = nn.Linear(3, 1)
        for step in range(3):
            (net(torch.randn(2, 3)) * root).sum().backward()
    """
    assert len(found_in(body.format(wanted))) == count


@pytest.mark.parametrize(("wanted", "count"), [("False", 0), ("True", 1)])
def test_an_item_of_a_dictionary_that_is_frozen_in_place(wanted, count):
    """A dictionary's item is the tensor itself."""
    body = """
    batch = {{}}
    batch["x"] = torch.rand(3, 3, requires_grad=True)
    batch["x"].requires_grad_({})
    batch["x"][:, 0] = batch["x"][:, 0] / batch["x"][:, 0].abs().max()
    nn.Linear(3, 1)(batch["x"]).sum().backward()
    """
    assert bool(found_in(body.format(wanted))) == bool(count)


@pytest.mark.parametrize(("first", "count"), [("parts[0] * 2", 0), ("parts[1]", 1)])
def test_a_list_of_views_with_another_item(first, count):
    """An item that was set anew is none of those that one call returned."""
    body = """
    w = nn.Parameter(torch.rand(4, 4))
    parts = list((w * 2).chunk(2))
    parts[0] = {}
    parts[0] += 1
    """
    assert len(found_in(body.format(first))) == count


@pytest.mark.parametrize(("cut", "count"), [("net.cut()", 0), ("pass", 1)])
def test_a_property_that_is_set(cut, count):
    """What its setter does is followed: the state is the attribute behind it."""
    body = """
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.cell = nn.GRUCell(4, 4)
            self._h = torch.zeros(2, 4)
        @property
        def state(self):
            return self._h
        @state.setter
        def state(self, h):
            self._h = h
        def cut(self):
            self._h = self._h.detach()
        def forward(self, x):
            self.state = self.cell(x, self.state)
            return self.state.sum()
    net = Net()
    for step in range(4):
        {}
        net(torch.randn(2, 4)).backward()
    """
    assert len(found_in(body.format(cut))) == count


@pytest.mark.parametrize(("end", "count"), [("losses.clear()", 0), ("pass", 1)])
def test_a_list_that_is_cleared(end, count):
    """The next losses are those of the stepped weights."""
    fourth = f"optimizer.zero_grad()\nsum(losses).backward()\noptimizer.step()\n{end}\n"
    turn = "if len(losses) == 4:\n" + indent(fourth, "    ")
    assert len(found_in(LOSSES + indent(turn, "    "))) == count
    unknown = LOSSES.replace("torch.randn(5, 4)", "step").replace("range(8)", "loader")
    assert len(found_in(unknown + indent(turn, "    "), all_rules=True)) == count


@pytest.mark.parametrize(("read", "count"), [(".data", 0), (".data.detach()", 0), (".detach()", 1)])
def test_what_is_saved_through_data_has_a_counter_of_its_own(read, count):
    """torch doesn't see the write, so that the wrong gradient is no error."""
    text = f"""
    net, alpha = nn.Linear(3, 2), torch.ones(2, 2)
    for x in data:
        loss = net(x).mean() * alpha[0, 1]{read}
        alpha[0, 1] *= 2.0
        loss.backward()
    """
    assert len(found_in(dedent(text))) == count


@pytest.mark.parametrize(("first", "count"), [("q1", 0), ("(q1 + q2)", 1)])
def test_results_of_an_unknown_network_may_come_from_parts_of_their_own(first, count):
    """A step changes no part without a gradient: the second critic, until its loss is differentiated."""
    text = f"""
    class Trainer:
        def __init__(self, nets):
            self.critic = nets[0]
            self.opt = torch.optim.Adam(self.critic.parameters())
        def update(self, obs, target):
            unknown(obs).backward()
            q1, q2 = self.critic(obs)
            first, second = F.mse_loss({first}, target), F.mse_loss(q2, target)
            self.opt.zero_grad()
            first.backward(retain_graph=True)
            self.opt.step()
            self.opt.zero_grad()
            second.backward()
            self.opt.step()
    """
    assert len(found_in(dedent(text))) == count


@pytest.mark.parametrize(("result", "count"), [("g.argmin()", 0), ("g", 1)])
def test_a_function_that_returns_no_graph_chooses_an_action(result, count):
    """A state that it keeps is differentiated only if something runs backward after it."""
    text = f"""
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc, self.rnn = nn.Linear(4, 4), nn.GRUCell(4, 4)
        def forward(self, x, h):
            h_in = h.reshape(-1, 4)
            return self.fc(x), self.rnn(x, h_in)
    class Policy:
        def __init__(self, n):
            self.net, self.hidden, self.n = Net(), None, n
        def init_hidden(self, k):
            self.hidden = torch.zeros((k, self.n, 4))
        def guard(self, n, x, action, risk):
            if risk > 3:
                g, self.hidden[:, n, :] = self.net(x, self.hidden[:, n, :])
                action = {result}
            return action
    """
    assert len(found_in(dedent(text))) == count


@pytest.mark.parametrize(("other", "count"), [("image", 0), ("edge", 1)])
def test_parts_of_two_classes_that_have_one_name_in_their_constructors(other, count):
    """The step of one model changes no parameters of another one."""
    part = """
    class {}(nn.Module):
        def __init__(self):
            super().__init__()
            judge = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 1))
            self.add_module("judge", judge)
            self.opt = torch.optim.Adam(params=judge.parameters())
        def process(self, x):
            return self.judge(x).mean()
        def update(self, loss):
            loss.backward(retain_graph=True)
            self.opt.step()
    """
    text = f"""
    class Trainer:
        def __init__(self):
            self.edge, self.image = Edge(), Image()
        def train(self, data):
            for x in data:
                first, second = self.edge.process(x), self.{other}.process(x)
                self.edge.update(first)
                self.{other}.update(second)
    """
    parts = "".join(dedent(part.format(name)) for name in ("Edge", "Image"))
    assert len(found_in(parts + dedent(text))) == count


@pytest.mark.parametrize(("other", "count"), [("Model()", 0), ("edge", 1)])
def test_two_models_of_one_class(other, count):
    """What a constructor calls a part is another part in each object."""
    text = f"""
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            judge = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 1))
            self.add_module("judge", judge)
            self.opt = torch.optim.SGD(params=judge.parameters(), lr=0.1)
        def update(self, loss):
            loss.backward(retain_graph=True)
            self.opt.step()
    edge = Model()
    image = {other}
    for x in data:
        first, second = edge.judge(x).mean(), image.judge(x).mean()
        image.update(second)
        edge.update(first)
    """
    assert len(found_in(dedent(text))) == count


@pytest.mark.parametrize(("read", "count"), [("self.var.add(1)", 0), ("self.var", 1)])
def test_a_new_tensor_that_is_written_is_no_attribute(read, count):
    """An operation's result has memory of its own, whatever object's attribute it was computed from."""
    text = f"""
    class Norm(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(4, 4)
            self.register_buffer("var", torch.ones(4))
        def scale(self):
            return {read}.rsqrt_()
        def forward(self, x):
            y = self.fc(x)
            out = y * self.scale()
            with torch.no_grad():
                self.var.lerp_(y.var(0), 0.1)
            return out
    Norm()(torch.randn(8, 4)).square().sum().backward()
    """
    assert len(found_in(dedent(text))) == count


@pytest.mark.parametrize("otherwise", ["self.decoder(self.encoder(x))", "self.decoder(self.encoder(x)), 0"])
def test_another_form_of_a_result_in_evaluation(otherwise):
    """A network that is trained returns what it returns in training."""
    text = f"""
    class Coder(nn.Module):
        def __init__(self):
            super().__init__()
            self.encoder, self.decoder = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 4)), nn.Linear(4, 8)
        def forward(self, x):
            if self.training:
                mu = self.encoder(x)
                return self.decoder(mu), mu
            else:
                return {otherwise}
    model = Coder()
    opt = torch.optim.SGD(model.encoder.parameters(), lr=0.1)
    for x in data:
        out, mu = model(x)
        error = (out - x).square().mean()
        (error + mu.square().mean()).backward(retain_graph=True)
        opt.step()
        error.backward()
    """
    assert len(found_in(dedent(text))) == 1


@pytest.mark.parametrize(("part", "made", "count"), [
    pytest.param("head", "", 0, id="a part of the subclass"),
    pytest.param("body", "", 1, id="a part of the base"),
    pytest.param("head", "self.opt = torch.optim.Adam(self.parameters())", 1, id="made again after it"),
])  # fmt: skip
@pytest.mark.parametrize("at_top", [True, False])
def test_an_optimizer_that_a_base_makes(at_top, part, made, count):
    """It has no parameters that a subclass adds after ``super().__init__()``: text-autoencoders."""
    body = f"""
    class Base(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = nn.Linear(3, 3)
            self.opt = torch.optim.Adam(self.parameters())
        def step(self, loss):
            loss.backward(retain_graph=True)
            self.opt.step()
    class Net(Base):
        def __init__(self):
            super().__init__()
            self.head = nn.Linear(3, 3)
            {made}
        def step(self, x):
            y = self.{part}(x).tanh()
            super().step(self.body(x).mean() + self.head(x).mean() + y.mean())
            self.{part}(y).mean().backward()
    {"Net().step(torch.ones(2, 3))" if at_top else ""}
    """
    assert [code for code, *_ in found_in(body)] == ["UC101"] * count


@pytest.mark.parametrize(("cleared", "count"), [("net.decoder", 0), ("net.encoder", 1)])
def test_a_network_that_clears_its_gradients(cleared, count):
    """The next step leaves it alone until a backward reaches it (`wae_vgan_stage1.py` of MariaPdg)."""
    text = f"""
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.encoder, self.decoder = nn.Linear(4, 4), nn.Linear(4, 4)
        def forward(self, x):
            return self.decoder(torch.relu(self.encoder(x)))
    net = Net()
    opt = torch.optim.SGD(net.decoder.parameters(), lr=0.1)
    for x in data:
        y = net(x.requires_grad_())
        {cleared}.zero_grad()
        net.encoder(x).mean().backward()
        opt.step()
        y.mean().backward()
    """
    assert len(found_in(dedent(text))) == count


@pytest.mark.parametrize("after", ["pass", "net.eval()"])
def test_a_loss_that_training_alone_leaves_on_a_network(after):
    """Each turn makes it again if the network stays in training mode (DA-Net-Crowd-Counting): on request."""
    text = f"""
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.fine = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 1))
        def forward(self, x):
            final = self.fine(x)
            if self.training:
                self.loss = final.square().mean()
                return final
            else:
                return final
    net = Net()
    net.train()
    optimizer = torch.optim.Adam(net.parameters())
    for step in range(3):
        net(torch.randn(2, 4))
        optimizer.zero_grad()
        net.loss.backward()
        optimizer.step()
        {after}
    """
    assert found_in(dedent(text)) == []
    assert [code for code, *_ in found_in(dedent(text), all_rules=True)] == ["UC101"]


@pytest.mark.parametrize(("made", "count"), [("torch.zeros(6)", 0), ("memory.data", 1)])
def test_an_attribute_that_an_object_names_data(made, count):
    """It is no tensor's memory: each turn binds another tensor."""
    body = f"""
    class Memory:
        def __init__(self):
            self.data = torch.zeros(6)
    w = torch.ones(3, requires_grad=True)
    memory = Memory()
    for episode in range(2):
        memory.data = {made}
        memory.data[:3].add_(w.tanh())
        memory.data.square().sum().backward()
    """
    assert [code for code, *_ in found_in(dedent(body))] == ["UC301"] * count


@pytest.mark.parametrize(("last", "count"), [('"b"', 1), ("_", 0)])
def test_what_follows_cases_that_all_return(last, count):
    """It is reached if none of them matches."""
    body = f"""
    def update(net, optimizer, x, kind):
        first = net(x).mean()
        match kind:
            case "a":
                return None
            case {last}:
                return first
        loss = net(x).mean()
        loss.backward()
        optimizer.step()
        first.backward()
    def train(loader):
        net = nn.Linear(4, 1)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        for x in loader:
            update(net, optimizer, x, "c")
    """
    assert len(found_in(dedent(body))) == count


@pytest.mark.parametrize(("returned", "read", "count"), [
    ("[x, self.decoder(z), z]", "result[0]", 0), ("[x, self.decoder(z), z]", "result[1]", 1),
    ("list((x, self.decoder(z), z))", "result[1]", 1),
])  # fmt: skip
def test_an_input_that_a_network_hands_back_in_a_list(returned, read, count):
    """The step of the autoencoder doesn't change what went in (MotionAug-CVPR2022)."""
    body = f"""
    class VAE(nn.Module):
        def __init__(self):
            super().__init__()
            self.encoder, self.decoder = nn.Linear(4, 4), nn.Sequential(nn.Linear(4, 4), nn.Tanh())
        def forward(self, x):
            z = self.encoder(x)
            return {returned}
    vae, critic = VAE(), nn.Linear(4, 1)
    first, second = torch.optim.SGD(vae.parameters(), 0.1), torch.optim.SGD(critic.parameters(), 0.1)
    for _ in range(3):
        result = vae(torch.randn(2, 4))
        first.zero_grad()
        (result[0] - result[1]).square().mean().backward(retain_graph=True)
        first.step()
        second.zero_grad()
        critic({read}).mean().backward()
        second.step()
    """
    assert [code for code, *_ in found_in(body)] == ["UC101"] * count


@pytest.mark.parametrize(("read", "count"), [("result[0]", 0), ("result[1]", 1)])
def test_a_network_that_a_method_of_a_deriving_class_makes(read, count):
    """The base only calls ``build_model``: the trainers of MotionAug-CVPR2022."""
    body = f"""
    class VAE(nn.Module):
        def __init__(self):
            super().__init__()
            self.encoder, self.decoder = nn.Linear(4, 4), nn.Sequential(nn.Linear(4, 4), nn.Tanh())
        def forward(self, x):
            return [x, self.decoder(self.encoder(x))]
    class Trainer:
        def __init__(self):
            self.build_model()
    class Adversarial(Trainer):
        def build_model(self):
            self.model, self.critic = VAE(), nn.Linear(4, 1)
        def train(self, loader):
            first = torch.optim.SGD(self.model.parameters(), 0.1)
            second = torch.optim.SGD(self.critic.parameters(), 0.1)
            for x in loader:
                result = self.model(x)
                first.zero_grad()
                (result[0] - result[1]).square().mean().backward(retain_graph=True)
                first.step()
                second.zero_grad()
                self.critic({read}).mean().backward()
                second.step()
    """
    assert [code for code, *_ in found_in(body)] == ["UC101"] * count


@pytest.mark.parametrize(("each", "count"), [
    ("for client in self.clients", 0), ("for i, client in enumerate(self.clients)", 0),
    ("client = self.clients[0]\n            for _ in range(3)", 1),
])  # fmt: skip
def test_one_backward_for_each_object_of_a_list(each, count):
    """The loss of a client has a graph of its own (``split.py`` of KDD2021_CNFGNN)."""
    body = f"""
    class Client(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = nn.Sequential(nn.Linear(4, 4), nn.Tanh())
        def local_forward(self, x):
            self.y = self.net(x)
        def local_backward(self):
            self.y.square().mean().backward()
    class Server:
        def __init__(self):
            self.clients = nn.ModuleList([Client() for _ in range(3)])
        def step(self, x):
            for client in self.clients:
                client.local_forward(x)
            {each}:
                client.local_backward()
    """
    assert [code for code, *_ in found_in(body)] == ["UC301"] * count


WRITTEN_INPUT = """
class Scale(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, h):
        {body}
    @staticmethod
    def backward(ctx, grad):
        return grad, {gradient}
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 3)
        self.register_buffer("mean", torch.zeros(3))
    def forward(self, x):
        h = self.fc(x)
        y = Scale.apply(x, {given})
        return {result}
"""


@pytest.mark.parametrize(("body", "gradient", "given", "result", "count"), [
    ("h.mul_(2); return x + h", "grad * 2", "h", "y + h", 1),
    ("h.mul_(2); return x + h", "grad * 2", "h", "y", 0),
    ("h.mul_(2); return x + h", "grad * 2", "h.view(-1)", "y + h", 0),
    ("h.mul_(2); return x + h", "grad * 2", "self.mean", "y", 1),
    ("h.mul_(2); return x + h", "None", "self.mean", "y", 0),
    ("h.mul_(2); return x, h", "grad * 2", "h", "y", 1),
    ("y = h; y.mul_(2); return x, y", "grad * 2", "h", "y", 1),
])  # fmt: skip
def test_an_input_that_a_function_writes_and_nobody_reads(body, gradient, given, result, count):
    """Nor is a buffer's gradient wrong: CSPN_monodepth's statistics, OpenNMT's ``sparsemax``."""
    text = WRITTEN_INPUT.format(body=body, gradient=gradient, given=given, result=result)
    assert [code for code, *_ in found_in(text)] == ["UC103"] * count


@pytest.mark.parametrize(("test", "count"), [
    ("torch.is_grad_enabled()", 0), ("not torch.is_grad_enabled()", 1), ("x.is_contiguous()", 1),
])  # fmt: skip
def test_a_branch_without_gradients(test, count):
    """OpenFold's blocks add in place only where ``torch.is_grad_enabled()`` is false."""
    body = f"""
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(4, 4)
        def forward(self, x):
            h = torch.sigmoid(self.fc(x))
            if {test}:
                h = h + x
            else:
                h += x
            return h
    """
    assert [code for code, *_ in found_in(body)] == ["UC101"] * count


HOLDS_MLP = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.mlp = MLP()
    def forward(self, x):
        return self.mlp(x)
"""


@pytest.mark.parametrize(("lower", "count"), [("", 1), (".lower()", 1), (".strip()", 0)])
@pytest.mark.parametrize("use", ["MLP()(torch.ones(3)).sum().backward()", HOLDS_MLP], ids=["top", "part"])
def test_an_activation_that_a_text_chooses(lower, use, count):
    """The class of rlrd-aaai2022 compares its default in small letters."""
    body = f"""
class MLP(nn.Module):
    def __init__(self, activation="relu"):
        super().__init__()
        self.fc = nn.Linear(3, 4)
        if activation{lower} == "tanh":
            self.activation = torch.tanh
        elif activation{lower} == "relu":
            self.activation = torch.relu
    def forward(self, x):
        y = self.activation(self.fc(x))
        with torch.no_grad():
            y /= y.max()
        return y
{use}
"""
    assert [code for code, *_ in found_in(body)] == ["UC101"] * count


@pytest.mark.parametrize(("made", "kept", "count"), [
    ("[a, b]", "[cells[0].detach(), cells[1].detach()]", 0), ("(a, b)", "[c.detach() for c in cells]", 0),
    ("(a, b)", "[cells[0].detach(), cells[1].detach()]", 0), ("[a, b]", "[cells[0].detach(), cells[1]]", 1),
])  # fmt: skip
def test_state_in_a_list_that_a_step_detaches(made, kept, count):
    """The state of each layer is detached after the step of several turns, as in doom-net-pytorch."""
    body = f"""
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.two = nn.Linear(4, 4), nn.Linear(4, 4)
    def forward(self, x, cells):
        a, b = cells
        a = torch.tanh(self.one(x) + a)
        b = torch.tanh(self.two(a) + b)
        return {made}, b
net = Net()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
cells = [torch.zeros(3, 4), torch.zeros(3, 4)]
for batch in range(12):
    cells, y = net(torch.randn(3, 4), cells)
    loss = y.sum()
    if batch % 4 == 3:
        loss.backward()
        optimizer.step()
        cells = {kept}
"""
    assert [code for code, *_ in found_in(body)] == ["UC101"] * count


@pytest.mark.parametrize(("taken", "count"), [("", 0), (", test=False", 1), (", **options", 1)])
def test_a_keyword_that_a_class_does_not_take(taken, count):
    """It is given to another of the classes that an option chooses (Crazy-Jack's BigGAN-PyTorch)."""
    text = f"""
    class Early(nn.Module):
        def __init__(self):
            super().__init__()
            self.theta = nn.Linear(4, 4)
        def forward(self, x{taken}):
            before = torch.softmax(self.theta(x), dim=1)
            return self.theta(before), before
    class Late(nn.Module):
        def forward(self, x, test=False):
            return x * 2, x.mean()
    class Select(nn.Module):
        def __init__(self, mode="1"):
            super().__init__()
            if mode == "1":
                self.mask = Early()
            elif float(mode) >= 7:
                self.mask = Late()
        def forward(self, x):
            out, more = self.mask(x, test=True)
            more += 1
            return out, more
    """
    assert [code for code, *_ in found_in(dedent(text))] == ["UC101"] * count
