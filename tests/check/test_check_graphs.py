"""A network's graph is followed through wrappers, tuples, lists, attributes and losses from elsewhere."""

from __future__ import annotations

from textwrap import dedent

import pytest
from test_check_evidence import GAN
from test_check_programs import HEAD, found_in

from checked_text import check_text

STEP = [("UC101", "medium", "og.step()")]

NETS = """
    class Disc(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.last = nn.Linear(3, 3), nn.Linear(3, 1)
        def forward(self, x):
            h = self.first(x)
            return self.last(h), [h]
"""


@pytest.mark.parametrize(
    "make",
    [
        "nn.DataParallel(Gen()), nn.parallel.DistributedDataParallel(Disc(), device_ids=[0])",
        "Gen(), nn.SyncBatchNorm.convert_sync_batchnorm(Disc())",
    ],
)
def test_a_wrapped_network(make):
    """The wrapper is the network itself."""
    assert found_in(GAN.format(make=make, other="score")) == STEP


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("d(g(x))[0]", STEP),
        ("d.forward(g(x))[0]", STEP),
        ("d(g(x))[1][0]", STEP),
        ("d(g(x).detach())[0]", []),
        ("sum(v for v in unknown(d(g(x))[0]).values())", STEP),
        ("hinge(d(g(x))[0]) + 0.5 * hinge(d(g(x))[0], True)", STEP),
        ("hinge(d(pool.query(g(x)))[0])", []),
    ],
)
def test_what_a_network_returns(value, expected):
    """Each tensor of a tuple has the graph; an unknown function before a network may cut it."""
    body = f"""
    g, d = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3)), Disc()
    og = torch.optim.Adam(g.parameters())
    for x in loader:
        loss = {value}
        g(x).sum().backward()
        og.step()
        loss.backward()
    """
    assert found_in(NETS + body) == expected


def test_parameters_in_lists():
    """A list of parameters is that of the networks that it was made of."""
    body = """
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(3, 3), nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
            params = list(self.a.parameters()) + list(self.b.parameters())
            self.opt = torch.optim.Adam([p for p in params if p.requires_grad])
        def update(self, x):
            y = self.b(self.a(x))
            y.sum().backward(retain_graph=True)
            self.opt.step()
            y.mean().backward()
    """
    assert found_in(body) == [("UC101", "medium", "self.opt.step()")]


def test_items_of_a_dictionary_are_replaced_one_by_one():
    """A computed key leaves each item its own graph."""
    body = """
    a, b = nn.Linear(3, 3), nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 1))
    opt = torch.optim.SGD(b.parameters(), lr=0.1)
    for x in loader:
        losses = {"d": b(x), "g": b(a(x))}
        for k in losses.keys():
            losses[k] = torch.mean(losses[k])
        losses["d"].backward(retain_graph=True)
        opt.step()
        losses["g"].backward()
    """
    assert found_in(body) == [("UC101", "medium", "opt.step()")]


@pytest.mark.parametrize(("name", "expected"), [("critic_optim", 1), ("opt_critic", 1), ("other_optim", 0)])
def test_an_optimizer_that_is_passed_in_belongs_to_the_network_of_its_name(name, expected):
    """Backward has reached that network just before: ``train_model`` of pg_travel."""
    body = f"""
    def train_model(actor, critic, actor_optim, {name}, states):
        loss = actor(states).mean() + critic(states).mean()
        {name}.zero_grad()
        loss.backward(retain_graph=True)
        {name}.step()
        actor_optim.zero_grad()
        loss.backward()
        actor_optim.step()
    """
    assert found_in(body) == [("UC101", "medium", f"{name}.step()")] * expected


TRAINER = """
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.enc, self.dec = nn.Linear(3, 3), nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
            self.opt = torch.optim.Adam(self.dec.parameters())
        def forward(self, x):
            {forward}
        def update(self, x):
            self.dec(x).sum().backward()
            {step}
            self.out.mean().backward()
"""


def test_what_forward_leaves_on_the_object():
    """Its graph is older than a step of the next method: ``update_EG`` of DRIT."""
    late = TRAINER.format(forward="self.out = self.dec(self.enc(x))", step="self.opt.step()")
    assert found_in(late) == [("UC101", "medium", "self.opt.step()")]
    again = TRAINER.format(
        forward="self.out = self.dec(self.enc(x))", step="self.opt.step(); self.forward(x)"
    )
    assert found_in(again) == []


def test_a_loss_that_forward_returns_after_a_step():
    """The caller may run backward from it; from one that was used here only if its graph was kept for that:
    ``LossWithGAN_STE`` of EraseNet."""
    forward = """d = self.dec(x)
            loss = d.pow(2).mean()
            loss.backward(retain_graph=True)
            self.opt.step()
            return {}"""
    returned = TRAINER.format(forward=forward.format("-d.mean()"), step="pass")
    assert found_in(returned) == []  # it may be for a log: IntroVAE
    assert found_in(returned, all_rules=True) == [("UC101", "medium", "self.opt.step()")]
    used = TRAINER.format(forward=forward.format("loss"), step="pass")
    assert len(found_in(used, all_rules=True)) == 1
    assert found_in(used.replace("retain_graph=True", ""), all_rules=True) == []


@pytest.mark.parametrize(
    ("before", "expected"),
    [
        ("a(x).sum().backward()", 1),
        ("unknown(x).backward()", 1),
        ("b(x).sum().backward()", 0),
        ("a(x).sum().backward(); opt.zero_grad()", 0),
        ("pass", 0),
    ],
)
def test_a_step_changes_only_what_a_backward_has_reached(before, expected):
    """Parameters without a gradient are left out: ``coma_agent.py`` of deep-marl-toolkit."""
    body = f"""
    a, b = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3)), nn.Linear(3, 3)
    opt = torch.optim.SGD(a.parameters(), lr=0.1)
    y = a(x)
    {before}
    opt.step()
    y.sum().backward()
    """
    assert found_in(body) == [("UC101", "medium", "opt.step()")] * expected


def test_the_step_of_a_schedulers_list_is_none_of_an_optimizer():
    """What a list holds is told apart by the list's name: the training of MASSL-segmentation-framework."""
    body = """
    def train(net, optimizers, schedulers, x):
        schedulers[0].step()
        optimizers[0].zero_grad()
        loss = net(x).sum()
        loss.backward(retain_graph=True)
        optimizers[0].step()
        return loss
    """
    assert found_in(body, all_rules=True) == [("UC101", "medium", "optimizers[0].step()")]
    late = body.replace("return loss", "schedulers[0].step()")
    assert found_in(late, all_rules=True) == [("UC101", "medium", "optimizers[0].step()")]


@pytest.mark.parametrize(("stepped", "expected"), [("qf", 1), ("vf", 0)])
def test_a_list_of_networks_is_one_on_request(stepped, expected):
    """Each optimizer of a list steps for the network of its place: the ensembles of ``iv_rl``."""
    body = f"""
    class Trainer:
        def __init__(self, make):
            self.qf, self.vf = make(), make()
            self.qf_optimizer = [torch.optim.Adam(self.qf[i].parameters()) for i in range(2)]
            self.vf_optimizer = [torch.optim.Adam(self.vf[i].parameters()) for i in range(2)]
        def train(self, x):
            for i in range(2):
                policy_loss = -self.qf[i](x).mean()
                loss = self.{stepped}[i](x).square().mean()
                self.{stepped}_optimizer[i].zero_grad()
                loss.backward()
                self.{stepped}_optimizer[i].step()
                policy_loss.backward()
    """
    assert found_in(body) == []
    found = [("UC101", "medium", f"self.{stepped}_optimizer[i].step()")] * expected
    assert found_in(body, all_rules=True) == found


def test_a_called_attribute_is_no_method_of_a_base():
    """A loss that ``__init__`` sets puts nothing back that another attribute holds."""
    body = """
    class Model(Base):
        def __init__(self, build):
            super().__init__()
            self.net, self.criterion = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3)), build()
            self.opt = torch.optim.Adam(self.net.parameters())
        def update(self, x):
            self.fake = self.net(x)
            {call}
            self.fake.sum().backward(retain_graph=True)
            self.opt.step()
            self.fake.mean().backward()
    """
    assert found_in(body.format(call="self.criterion(x)")) == [("UC101", "medium", "self.opt.step()")]
    assert found_in(body.format(call="self.reset(x)")) == []


@pytest.mark.parametrize(
    ("loop", "expected"),
    [
        ("total += loss(a)\n        step(a)", 1),  # MAML by hand, with one backward for all tasks
        ("step(a)\n        total = loss(a)", 0),
        ("loss(a).backward()\n        step(a)", 0),
        ("total += loss(a)\n        step(b)", 0),
        ("with torch.no_grad(): y = loss(a)\n        step(a)\n        total = loss(b) + y", 0),  # a target
    ],
)
def test_parameters_are_written_between_use_and_backward(loop, expected):
    """Under ``no_grad``, as an optimizer's step does."""
    body = f"""
    a, b = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3)), nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
    def loss(net):
        return net(x).square().mean()
    def step(net):
        with torch.no_grad():
            for p in net.parameters():
                p -= 0.1 * p
    total = x.sum()
    for _ in range(2):
        {loop}
    total.backward()
    """
    assert found_in(body) == [("UC101", "medium", "p -= 0.1 * p")] * expected
    for modules in ("children()", "modules()"):
        by_module = body.replace("for p in net.parameters()", f"for m in net.{modules}")
        by_module = by_module.replace("p -= 0.1 * p", "m.weight.div_(2)")
        assert found_in(by_module) == [("UC101", "medium", "m.weight.div_(2)")] * expected


def test_an_attribute_that_is_replaced_by_a_parameter_is_one():
    """``mi.bias`` of a detector, whatever module it is: the initial biases of YOLOv5."""
    body = """
    class Head(nn.Module):
        def _initialize_biases(self):
            for mi, _ in zip(self.m, self.stride):
                b = mi.bias{}.view(3, -1)
                b[:, 4] += 1
                mi.bias = {}(b.view(-1), requires_grad=True)
    """
    found = [("UC202", "high", "b[:, 4] += 1")]
    assert found_in(body.format("", "torch.nn.Parameter")) == found
    assert found_in(body.format(".detach()", "torch.nn.Parameter")) == []
    assert found_in(body.format("", "make")) == []


def test_a_network_that_is_not_followed_may_return_a_list():
    """Each item has memory of its own: ``Yolo_loss`` of pytorch-YOLOv4; and each head parts of its own."""
    body = """
    class Loss(nn.Module):
        def forward(self, xs):
            loss = 0
            for i, y in enumerate(xs):
                y[..., 2:4] *= 2
                loss += F.mse_loss(y, self.target, reduction="sum")
            return loss
    class Agent(nn.Module):
        def __init__(self):
            super().__init__()
            self.actor, self.critic = nn.Linear(3, 3), nn.Linear(3, 1)
        def forward(self, x):
            return self.actor(x), self.critic(x)
    def train(net, agent, loader):
        agent, criterion = Agent(), Loss()
        opt = torch.optim.Adam(agent.actor.parameters())
        for x in loader:
            loss, (policy, value) = criterion({}(x)), agent(x)
            policy.sum().backward()
            opt.step()
            loss.backward()
            value.sum().backward()
    """
    assert found_in(body.format("Elsewhere()")) == []


def test_what_another_case_replaces():
    """The second chain of tests names the case in which the value is used: ``main.py`` of ACGAN-PyTorch."""
    body = """
    g, d = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3)), nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 1))
    opt = torch.optim.Adam(d.parameters())
    for x in loader:
        aux = d(g(x).detach())
        aux.mean().backward(retain_graph=True)
        opt.step()
        {}
        aux.mean().backward()
    """
    assert found_in(body.format("if kind == 'ac': aux = d(g(x))")) == []
    assert found_in(body.format("if kind == 'ac': aux = aux + 1")) == [("UC101", "medium", "opt.step()")]


def test_a_flag_that_is_set_after_construction():
    """``inplace`` counts as it was set last."""
    body = """
    class Gate(nn.Module):
        def __init__(self):
            super().__init__()
            self.proj, self.act, self.drop = nn.Linear(4, 4), nn.Sigmoid(), nn.Dropout(0.1{})
            self.drop.inplace = {}
        def forward(self, x):
            return self.drop(self.act(self.proj(x))) * x
    """
    assert found_in(body.format("", "True")) != []
    assert found_in(body.format(", inplace=True", "False")) == []
    every = body.replace(
        "self.drop.inplace = {}",
        """for m in self.modules():
                if isinstance(m, nn.{}):
                    m.inplace = True""",
    )
    assert found_in(every.format("", "Dropout")) != []
    assert found_in(every.format("", "ReLU")) == []
    nested = (
        every.replace("nn.Linear(4, 4), nn.Sigmoid(), nn.Dropout(0.1{})", "1, 2, 3")
        .replace(
            "for m",
            "self.net = nn.Sequential(nn.Linear(4, 4), nn.Sigmoid(), nn.Dropout(0.1))\n            for m",
        )
        .replace("self.drop(self.act(self.proj(x)))", "self.net(x) + self.net(x + 1)")
    )
    # Told once, where the chain is made: `BDRAR`, which calls its chains up to four times.
    assert [code for code, *_ in found_in(nested.format("Dropout"))] == ["UC101"]
    assert found_in(nested.format("ReLU")) == []


@pytest.mark.parametrize(("targets", "expected"), [
    ("loss, *_", 0), ("_, loss, *_", 1), ("*_, loss, n", 1), ("loss, old, n", 0), ("loss, *a, b, c, d", 1),
])  # fmt: skip
def test_results_that_a_starred_target_takes_apart(targets, expected):
    """Before and after the star each has its own place: ``wae_ssm`` of sliced_score_matching."""
    body = f"""
    def both(net, opt, x):
        first = net(x).mean()
        first.backward(retain_graph=True)
        opt.step()
        return net(x).mean(), first, 3
    net = nn.Sequential(nn.Linear(3, 3), nn.ReLU(), nn.Linear(3, 3))
    opt = torch.optim.SGD(net.parameters(), 0.1)
    {targets} = both(net, opt, torch.ones(2, 3))
    loss.backward()
    """
    assert len(found_in(body)) == expected


def test_a_list_of_modules_that_is_rebuilt_by_arguments():
    """``Block`` of Xception, public in dozens of copies: its first module is out of place, or gone."""
    body = """
    class Block(nn.Module):
        def __init__(self, relu_first):
            super().__init__()
            rep = [nn.ReLU(inplace=True), nn.Linear(3, 3)]
            if not relu_first:
                rep = rep[1:]
            {}
            self.rep = nn.Sequential(*rep)
        def forward(self, x):
            return self.rep(x)
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc, self.block = nn.Linear(3, 3), Block(False)
        def forward(self, x):
            return self.block(F.relu(self.fc(x)))
    """
    assert found_in(body.format("else:\n                rep[0] = nn.ReLU()")) == []


def test_a_loop_over_a_tensor_unbinds_it():
    """torch refuses to write to its rows: ``masked_softmax`` of yet-another-vectornet."""
    body = """
    def masked(scores, lengths):
        for at, row in enumerate({}):
            row[int(lengths[at]):] = -1e6
        return scores.softmax(-1)
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(3, 3)
        def forward(self, x, lengths):
            return masked(self.fc(x), lengths)
    """
    assert [code for code, *_ in found_in(body.format("scores.view(-1, 3)"))] == ["UC203"]
    assert found_in(body.format("[scores[0], scores[1]]")) == []


def test_a_step_in_another_case_than_the_forward():
    """Also where a function that both cases call steps in a loop: ``mnist.py`` of DSW."""
    body = """
    def distance(net, opt, x):
        for _ in range(3):
            net(x.detach()).mean().backward()
            opt.step()
        return net(x).mean()
    net, gen = nn.Linear(3, 3), nn.Linear(3, 3)
    opt = torch.optim.Adam(net.parameters())
    for x in loader:
        if kind == "one":
            loss = distance(net, opt, gen(x))
        {} kind == "two":
            loss = {}distance(net, opt, gen(x))
        loss.backward()
    """
    assert found_in(body.format("elif", "")) == []
    assert [code for code, *_ in found_in(body.format("if", "loss + "), all_rules=True)] == ["UC101"]


@pytest.mark.parametrize(("function", "line", "expected"), [
    ("forward", "x /= x.norm()", 1), ("forward", "x = x / x.norm()", 0), ("loss", "x /= x.norm()", 1),
    ("schedule", "x /= x.norm()", 1), ("forward", "y = x.norm(); a = 1; b = 2; c = 3; x /= y", 1),
    # `ClipBoxes` of EfficientDet, and what is made without a history, on whatever device
    ("forward", "x[:, 0] = x[:, 0].clamp(min=0); x[:, 1] = x[:, 1].clamp(min=0)", 1),
    ("forward", "x = torch.arange(3).float(); x = x.cuda(); x.mul_(-3).exp_().mul_(2)", 0),
])  # fmt: skip
def test_an_argument_that_is_overwritten_almost_at_once(function, line, expected):
    """It mostly needs no gradient, so that it is told on request alone; ``L2Norm`` of PytorchSSD has one."""
    body = f"""
    def {function}(x):
        {line.replace("; ", chr(10) + " " * 8)}
        return x
    """
    assert found_in(body) == []
    assert len(found_in(body, all_rules=True)) == expected


def test_a_name_that_only_holds_a_word_for_evaluation():
    """``geometric`` is no ``metric``: the capsules' ``geometric_transform``."""
    body = """
    class Net(nn.Module):
        def {}(self, x):
            y = self.fc(x).exp()
            y += 1
            return y
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(3, 3)
    """
    assert found_in(body.format("geometric_loss")) == [("UC101", "medium", "y += 1")]
    assert found_in(body.format("metric_loss")) == []
    assert found_in(body.format("forward_test")) == []  # as mmocr and mmdetection name what needs no gradient


PARTS = """
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.body, self.head = nn.Linear(3, 3), nn.Sequential(nn.Linear(3, 3), nn.ReLU(), nn.Linear(3, 1))
        def forward(self, x):
            return self.head(self.body(x))
"""
EARLY = """
    for x in loader:
        y = net(x)
        y.sum().backward(retain_graph=True)
        opt.step()
        y.mean().backward()
"""


@pytest.mark.parametrize(
    ("weights", "expected"),
    [
        ("[net.head[0].weight, net.head[0].bias]", 1),
        ("[{'params': [layer.weight for layer in net.head]}]", 1),
        ("[other.weight]", 0),
        ("[p for m in [other, net.head] for p in m.parameters()]", 1),
        ("[p for m in [other, nn.Linear(3, 3)] for p in m.parameters()]", 0),
    ],
)
def test_single_weights_are_given_to_an_optimizer(weights, expected):
    """Each belongs to its module, in whatever list it comes: ``get_optimizer`` of mstn, ``style_params`` of
    SagNet."""
    made = f"""
    net, other = Net(), nn.Linear(3, 3)
    opt = torch.optim.SGD({weights}, lr=0.1)
    """
    assert found_in(PARTS + made + EARLY) == [("UC101", "medium", "opt.step()")] * expected


def test_globals_that_functions_bind():
    """What one function sets, the next one uses: ``init_model`` and ``train`` of SagNet."""
    body = """
    def init():
        {}
        net = Net()
        opt = torch.optim.SGD(net.parameters(), lr=0.1)
    def train(x):
        y = net(x)
        y.sum().backward(retain_graph=True)
        opt.step()
        y.mean().backward()
    init()
    train(torch.ones(2, 3))
    """
    assert found_in(PARTS + body.format("global net, opt")) == [("UC101", "medium", "opt.step()")]
    assert found_in(PARTS + body.format("pass")) == []


def test_an_optimizer_of_an_unknown_class():
    """It is one if the file clears its gradients: Muon; a moving average is none."""
    body = """
    net = Net()
    adam = Muon({}.parameters())
    for x in loader:
        y = net(x)
        adam.{}()
        y.sum().backward(retain_graph=True)
        adam.step()
        y.mean().backward()
    """
    assert found_in(PARTS + body.format("net", "zero_grad")) == [("UC101", "medium", "adam.step()")]
    assert found_in(PARTS + body.format("net", "update")) == []
    assert found_in(PARTS + body.format("other", "zero_grad")) == []


def test_what_forward_leaves_of_a_network_that_is_passed_in():
    """Its parameters are read, so that it is a network: ``GAN_model`` of ganimator."""
    body = """
    class Model:
        def __init__(self, gen, {}):
            self.gen, self.opt = gen, torch.optim.Adam({}.parameters())
        def forward(self, x):
            self.fake = self.gen(x)
        def update(self, x):
            criterion(self.fake).backward(retain_graph=True)
            self.opt.step()
            criterion(self.fake, x).backward()
    """
    assert found_in(body.format("other", "gen")) == [("UC101", "medium", "self.opt.step()")]
    assert found_in(body.format("other", "other")) == []


def test_what_one_change_ends_is_one_finding():
    """Two writes over one save, and two calls of one function, are told together."""
    writes = """
    y = nn.Linear(3, 3)(torch.ones(2, 3)).exp()
    y.add_(1)
    y[0] = 0
    y.sum().backward()
    """
    (found,) = check_text(HEAD + dedent(writes), "program.py")
    assert [write.site.source for write in found.writes] == ["y.add_(1)", "y[0] = 0"]


def test_an_item_that_is_replaced_before_it_is_read():
    """It has no graph of the round before: ``S2Decoder`` of Two-stage-VAE-pytorch."""
    body = """
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.ModuleList([nn.Linear(3, 3) for i in range(2)])
            self.hidden = [torch.zeros(3) for i in range(2)]
        def forward(self, x):
            for i in range(2):
                self.hidden[i] = self.fc[i](x)
                x = self.hidden[i]
            return {}
    net = Model()
    opt = torch.optim.SGD(net.parameters(), lr=0.1)
    for x in loader:
        net(x).sum().backward()
        opt.step()
    """
    assert found_in(body.format("x")) == []


@pytest.mark.parametrize(("made", "expected"), [("new(1, 8).zero_()", []), ("mean(1)", [("UC101", 1)])])
def test_a_state_that_is_made_like_a_weight_has_no_history(made, expected):
    """As in the agents of PyMARL: a state of the episode before is kept, but not its graph."""
    text = f"""
    import torch
    from torch import nn
    class Actor(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc, self.rnn = nn.Linear(8, 8), nn.GRUCell(8, 8)
        def init_hidden(self):
            return self.fc.weight.{made}
        def forward(self, x, h):
            return self.rnn(self.fc(x), h)
    class Agent:
        def __init__(self):
            self.actor = Actor()
            self.optimizer = torch.optim.Adam(self.actor.parameters())
            self.hidden = self.actor.init_hidden()
        def learn(self, x):
            loss = self.actor(x, self.hidden).mean()
            loss.backward()
            self.optimizer.step()
    agent = Agent()
    for x in xs:
        agent.learn(x)
    """
    assert [(one.code, len(one.writes)) for one in check_text(dedent(text), "agent.py")] == expected


@pytest.mark.parametrize(("test", "count"), [
    ("x if i == 0 else out[i - 1]", 1),
    ("out[i - 1] if i else x", 1),
    ("out[i - 1] if i > 0 else x", 1),
    ("x if not i else out[i - 1]", 1),
    ("out[i - 1] if i == 0 else x", 0),  # not after the first turn, which overwrites nothing
    ("out[i - 1] if i < 1 else x", 0),
])  # fmt: skip
@pytest.mark.parametrize("loop", ["i in range(3)", "i in range(0, n)", "i, _ in enumerate(x)"])
def test_the_first_turn_of_a_loop_is_told_from_later_ones(loop, test, count):
    """A recurrence that fills a buffer: from the second turn on each reads what the one before wrote."""
    found = found_in(
        f"""
    net = nn.Linear(3, 3)
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(3, 3)
        def forward(self, x, n):
            x, out = self.fc(x), torch.zeros(3, 3)
            for {loop}:
                old = {test}
                out[i] = old * old.sin()
            return out
    """,
        all_rules=True,
    )
    assert [code for code, *_ in found] == ["UC101"] * count


STATE = """
    {kind}
    def train(start):
        w = nn.Parameter(torch.ones(5))
        {before}
        for i in range(3):
            {within}
            for _ in range(4):
                state.h = state.h + w * state.h
            loss = state.h.square().mean()
            loss.backward()
"""
PLAIN = "class State:\n        def __init__(self, h):\n            self.h = h"
FIELDS = "import dataclasses\n    @dataclasses.dataclass\n    class State:\n        h: torch.Tensor"


@pytest.mark.parametrize(("kind", "before", "within", "count"), [
    *[(kind, "state = State(start.clone())", "pass", 1) for kind in (PLAIN, FIELDS)],
    *[(kind, "pass", "state = State(start.clone())", 0) for kind in (PLAIN, FIELDS)],
    *[(kind, "state = State(start)", "state = State(state.h.detach())", 0) for kind in (PLAIN, FIELDS)],
    (FIELDS, "state = State(start)", "state = State(state.h)", 1),
])  # fmt: skip
def test_a_loop_makes_an_object_anew(kind, before, within, count):
    """Its attributes are not those of the object that had the name in the turn before."""
    found = found_in(STATE.format(kind=kind, before=before, within=within))
    assert [code for code, *_ in found] == ["UC301"] * count


@pytest.mark.parametrize(("loop", "advice"), [
    ("for x in data:\n    h = net(h)\n    loss = h.sum()", "detach what one turn"),
    ("h = net(h)\nfor k in (1, 2):\n    loss = k * h.sum()", "call step() after"),
])  # fmt: skip
def test_advice_on_a_step_says_whether_a_loop_carries_the_graph(loop, advice):
    text = f"""{HEAD}
net = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
opt = torch.optim.SGD(net.parameters(), 0.1)
h = torch.ones(4)
{loop}
    loss.backward(retain_graph=True)
    opt.step()
"""
    (found,) = check_text(text, "train.py")
    assert found.fixes[0].title.startswith(advice)


def test_a_network_goes_on_with_what_it_returned_by_a_keyword(tmp_path):
    """It may cut that off itself: the carried state of a hierarchical reasoning model."""
    body = """
    def train(net, loader):
        optimizer = torch.optim.Adam(net.parameters())
        carry = None
        for x in loader:
            carry, loss = net(x, {}carry)
            loss.backward()
            optimizer.step()
    """
    assert found_in(body.format("carry=")) == found_in(body.format("")) == []


@pytest.mark.parametrize(
    ("goes_on", "expected"),
    [
        ("for s in state: s.detach_()", 0),
        ("for s in state: s.detach_().zero_()", 0),
        ("state = tuple(s.detach() for s in state)", 0),
        ("state = tuple(s.detach_().zero_() for s in state)", 0),  # no views: a pair of tensors
        ("pass", 1),
    ],
)
def test_the_state_of_an_lstm_is_a_pair(goes_on, expected):
    """What is cut of it is cut where the loop carries it."""
    body = f"""
    rnn = nn.LSTM(3, 3)
    state = None
    for x in loader:
        out, state = rnn(x, state)
        out.mean().backward()
        {goes_on}
    """
    assert [code for code, *_ in found_in(body)] == ["UC301"] * expected


def test_a_sample_that_a_network_returns_has_no_graph():
    """A baseline of sampled rewards carries nothing from one turn to the next."""
    body = """
    class Policy(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(4, 3)
        def forward(self, x):
            p = self.fc(x).log_softmax(-1)
            a = torch.distributions.Categorical(logits=p).sample()
            return torch.stack([a], 1), {second}
    policy = Policy()
    opt = torch.optim.Adam(policy.parameters())
    baseline = 0
    for x in loader:
        a, p = policy(x)
        reward = x.gather(1, {index}).sum(1)
        baseline = 0.9 * baseline + 0.1 * reward.mean()
        loss = ((reward - baseline) * p.sum(1)).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
    """
    assert found_in(body.format(second="p", index="a")) == []
    assert found_in(body.format(second="p", index="a * p")) != []


@pytest.mark.parametrize("outputs", ["out, x", "outputs=out, inputs=x"])
@pytest.mark.parametrize(("option", "expected"), [("create_graph=True", 1), ("retain_graph=True", 0)])
def test_a_penalty_on_gradients_that_have_a_graph(outputs, option, expected):
    """The norm keeps its result for the backward of the penalty."""
    body = f"""
    net = nn.Sequential(nn.Linear(3, 3), nn.Tanh())
    x = torch.randn(2, 3, requires_grad=True)
    out = net(x).sum()
    norm = torch.autograd.grad({outputs}, {option})[0].norm(dim=1)
    norm -= 1
    (out + norm.square().mean()).backward()
    """
    assert found_in(body) == [("UC101", "high", "norm -= 1")] * expected


@pytest.mark.parametrize(("inputs", "expected"), [("", 1), ("inputs=list(critic.parameters())", 0)])
def test_a_backward_that_stops_at_its_inputs(inputs, expected):
    """It need not pass the weights that were stepped (`maddpg.py` of a public actor-critic)."""
    body = f"""
    actor, critic = nn.Linear(3, 3), nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 1))
    opt = torch.optim.SGD(actor.parameters(), lr=0.1)
    for x in loader:
        action = actor(x)
        actor(x).mean().backward()
        opt.step()
        critic(action).mean().backward({inputs})
    """
    assert [code for code, *_ in found_in(body)] == ["UC101"] * expected


def test_a_part_that_is_made_to_need_a_gradient_is_not_written():
    """``requires_grad_`` and ``detach_`` of a view change no element (`hgn_simple.py` of hamiltonian_rl)."""
    body = """
    net = nn.Linear(3, 4)
    for x in loader:
        p, q = net(x).chunk(2, dim=-1)
        start = p[:, 0].requires_grad_(True)
        (start * q[:, 0]).sum().backward()
    """
    assert found_in(body) == []


@pytest.mark.parametrize(
    ("create", "expected"), [("create_graph=self.training", 0), ("create_graph=False", 1)]
)
def test_a_graph_that_may_be_kept(create, expected):
    """A second backward goes through what the first surely freed (`phgn_lstm.py` of hamiltonian_rl)."""
    body = f"""
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Sequential(nn.Linear(3, 3), nn.Tanh(), nn.Linear(3, 3))
        def forward(self, x):
            energy = self.fc(x).exp()
            slope = torch.autograd.grad(energy.sum(), x, {create})[0]
            return energy.sum() + slope.sum()
    net = Net()
    net(torch.randn(2, 3, requires_grad=True)).backward()
    """
    assert [code for code, *_ in found_in(body)] == ["UC301"] * expected


def test_np_is_numpy_where_nothing_imports_it():
    """As where a star import brings it."""
    body = """
    class Plot:
        def __init__(self):
            self.buffer = {make}(500)
        def add(self, value):
            self.buffer[:-1] = self.buffer[1:]
    """
    assert found_in(body.format(make="np.zeros")) == []
    assert found_in(body.format(make="torch.zeros")) != []


@pytest.mark.parametrize(("first", "expected"), [("t == 0", 0), ("t == 1", 1)])
def test_each_loop_has_a_first_turn(first, expected):
    """Also in a later turn of the loop around it (`bptt_train.py` of spikingPC)."""
    body = f"""
    net = nn.LSTMCell(3, 3)
    opt = torch.optim.SGD(net.parameters(), lr=0.1)
    h = c = torch.zeros(2, 3)
    for x in loader:
        loss = 0
        for t in range(4):
            if {first}:
                h, c = torch.zeros(2, 3), torch.zeros(2, 3)
            h, c = net(x, (h, c))
            loss = loss + h.mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
    """
    assert bool(found_in(body)) is bool(expected)


@pytest.mark.parametrize(("given", "expected"), [("z.detach()", []), ("z", ["disc_step.step()"])])
def test_a_weight_is_kept_for_an_input_with_a_graph_alone(given, expected):
    """A module whose input needs no gradient isn't named for the whole network (``train.py`` of h3lio5)."""
    body = f"""
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.enc, self.disc = nn.Linear(4, 6), nn.Linear(6, 3)
        def forward(self, x):
            z = self.enc(x)
            p = self.disc({given}).softmax(1)
            return (p - 1).pow(2).sum(), z.pow(2).sum() + p.log().sum()
    net = Net()
    disc_step = torch.optim.SGD(net.disc.parameters(), lr=0.1)
    for x in loader:
        first, second = net(x)
        first.backward(retain_graph=True)
        disc_step.step()
        second.backward()
    """
    assert [text for *_, text in found_in(body)] == expected


@pytest.mark.parametrize(
    ("read", "expected"), [("self.keys", ["self.keys[:2] = k"]), ("self.keys.clone()", [])]
)
def test_a_bank_of_keys_that_is_updated_after_the_product(read, expected):
    """Whether the queries need a gradient isn't known: an unread network made them (``MoCo_loss.py``)."""
    body = f"""
    class Contrast(nn.Module):
        def __init__(self, make):
            super().__init__()
            self.net = make()
            self.register_buffer("keys", torch.randn(8, 4))
        @torch.no_grad()
        def enqueue(self, k):
            self.keys[:2] = k
        def forward(self, x, k):
            logits = torch.mm(self.net(x), {read}.t())
            self.enqueue(k)
            return logits
    """
    assert [text for *_, text in found_in(body)] == expected


@pytest.mark.parametrize(("end", "expected"), [
    ("u", ["inner += net(inner)"]), ("u.detach()", []), ("torch.ones(3)", [])
])  # fmt: skip
def test_a_view_that_is_written_by_its_name(end, expected):
    """Its base has the history of what is written, too: a solver's ``inner = u[1:-1]; inner += ...``."""
    body = f"""
    net = nn.Sequential(nn.Linear(3, 3), nn.Sigmoid(), nn.Linear(3, 3))
    def step(x):
        u = torch.zeros(5) + x
        inner = u[1:-1]
        inner += net(inner)
        return ({end}).sum()
    step(torch.ones(5)).backward()
    """
    assert [text for *_, text in found_in(body)] == expected


@pytest.mark.parametrize(("count", "expected"), [(1, []), (2, ["h[0] = (before @ w)[0]"])])
def test_a_loop_of_a_single_turn(count, expected):
    """Whether a name or the loop says it: nothing reads what a turn before wrote."""
    body = f"""
    w, h, n = torch.randn(3, 3, requires_grad=True), torch.zeros(1, 3), {count}
    for i in range(n):
        before = h if i > 0 else torch.ones(1, 3)
        h[0] = (before @ w)[0]
    h.sum().backward()
    """
    assert [text for *_, text in found_in(body)] == expected


@pytest.mark.parametrize(
    ("shared", "second", "made"),
    [
        ("h = net(x)", "(h * 2)", "net(x)"),
        ("h = net(x).exp()\ns = h + 1\n_ = net(x)", "(s * h)", "net(x).exp()"),
        ("def encoded(x):\n    return net(x)\nh = encoded(x)", "(h * 2)", "net(x)"),
        ("from enc import Enc\nh = Enc()(x)", "(h * 2)", "Enc()(x)"),
    ],
)
def test_where_the_graph_is_made_that_a_second_backward_needs(shared, second, made, tmp_path):
    """The last node through which both go, by a place of the checked file."""
    enc = dedent(NETS).replace("Disc", "Enc").replace("return self.last(h), [h]", "return self.last(h)")
    (tmp_path / "enc.py").write_text(HEAD + enc)
    text = f"{HEAD}net = nn.Linear(3, 3)\nx = torch.ones(3)\n{shared}\nh.sum().backward()\n"
    (found,) = check_text(f"{text}{second}.sum().backward()\n", str(tmp_path / "train.py"))
    assert (found.code, dict(found.labels)["saved"]) == ("UC301", "both backwards go through this")
    assert found.saved.site.source == made


@pytest.mark.parametrize(("condition", "expected"), [("shared", 1), ("not shared", 0)])
def test_a_network_that_an_expression_chooses(condition, expected):
    """What one branch of a conditional expression used meets no backward under the other one's condition:
    ``gail_agent.py`` of lionelblonde's repositories."""
    body = f"""
    actor, critic = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 1)), nn.Linear(3, 1)
    opt = torch.optim.Adam(actor.parameters())
    def update(x, shared):
        value = actor(x) if shared else critic(x)
        loss = value.pow(2).mean()
        (actor(x).mean() + x.mean()).backward()
        opt.step()
        if {condition}:
            loss.backward()
    """
    assert len(found_in(body)) == expected


@pytest.mark.parametrize(("given", "expected"), [("fake", 1), ("fake.detach()", 0)])
@pytest.mark.parametrize("names", ["['g', 'd']", "self.names"])
def test_losses_by_their_names(names, given, expected):
    """``dict(zip(names, losses))``, as pix2pixHD has it, keeps them apart."""
    body = f"""
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.names = ['g', 'd']
            self.g, self.d = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3)), nn.Linear(3, 1)
            self.opt = torch.optim.Adam(self.g.parameters())
        def step(self, x):
            fake = self.g(x)
            losses = dict(zip({names}, (self.d(fake).mean(), self.d({given}).pow(2).mean())))
            losses['g'].backward(retain_graph=True)
            self.opt.step()
            losses['d'].backward()
    """
    assert len(found_in(body)) == expected


@pytest.mark.parametrize("end", ["raise NotImplementedError", "raise ValueError"])
def test_a_factory_that_knows_some_names(end):
    """It is read although its last line says that it isn't implemented for others."""
    body = f"""
    def parser(name):
        if name == "linear":
            return lambda: nn.Linear(3, 3)
        {end}
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.stack = parser("linear")()
        def forward(self, x):
            y = self.stack(x).exp()
            y += 1
            return y
    """
    assert [code for code, *_ in found_in(body)] == ["UC101"]


@pytest.mark.parametrize(("right", "code"), [
    ("return a + a.clamp_(0)", "UC102"),
    ("return a + F.relu(a, inplace=True)", "UC102"),
    ("return a + b.clamp_(0)", None),
    ("a + a.clamp_(0)", None),  # a value that nobody reads (HNUIDG-Fault-Diagnosis-)
])  # fmt: skip
def test_an_operand_that_the_other_one_rewrites(right, code):
    """Only if the text shows that it is the same one: two parts of a tensor may lie apart."""
    body = f"""
    net = nn.Linear(3, 8)
    class Model(nn.Module):
        def forward(self, x):
            h = net(x)
            a, b = h[:, :4], h[:, 4:]
            {right}
    """
    assert [code for code, *_ in found_in(body)] == [code] * (code is not None)


@pytest.mark.parametrize(("load", "count"), [("torch.load(path)", 1), ("torch.tensor(path)", 0)])
def test_a_network_that_one_branch_loads(load, count):
    """It is what the other branch makes: ``gan_training.py`` of IFT6135HW3."""
    body = f"""
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(3, 3)
            self.opt = torch.optim.Adam(self.fc.parameters())
    if path:
        model = {load}
    else:
        model = Net()
    y = model.fc(model.fc(torch.ones(3)))
    y.mean().backward(retain_graph=True)
    model.opt.step()
    y.sum().backward()
    """
    assert [code for code, *_ in found_in(body)] == ["UC101"] * count


GRADIENTS = """
net = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 1))
head = nn.Linear(1, 1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
loss = head(net(torch.randn(4, 2))).square().mean()
"""


@pytest.mark.parametrize(
    ("wanted", "count"),
    [("[*net.parameters(), *head.parameters()]", 1), ("head.parameters()", 0), ("head.weight", 0)],
)
@pytest.mark.parametrize(
    "before", ["(loss * 2).backward()\n", "loss.backward(retain_graph=True)\noptimizer.step()\n"]
)
def test_gradients_of_all_that_a_loss_was_computed_with(before, wanted, count):
    """`autograd.grad` for all parameters needs the graph as `backward` does."""
    after = f"found = torch.autograd.grad(loss, {wanted})\n"
    assert len(found_in(GRADIENTS + before + after)) == count


@pytest.mark.parametrize(("wanted", "count"), [("w", 1), ("(w, other)", 1), ("y", 0)])
def test_gradients_of_a_leaf(wanted, count):
    """Those of a leaf need what was computed with it."""
    body = f"""
    w, other = torch.randn(3, requires_grad=True), torch.randn(3, requires_grad=True)
    y = w.exp()
    loss = (y * other).sum()
    y += 1
    found = torch.autograd.grad(loss, {wanted})
    """
    assert len(found_in(body)) == count


@pytest.mark.parametrize(("kept", "count"), [("None, True", 0), ("None, False", 1), ("", 1)])
def test_a_graph_that_is_kept_by_position(kept, count):
    """The second argument of a backward says so, too."""
    body = f"""
    w = torch.ones(3, requires_grad=True)
    loss = w.exp().sum()
    loss.backward({kept})
    loss.backward()
    """
    assert len(found_in(body)) == count
