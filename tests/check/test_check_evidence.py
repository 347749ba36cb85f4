"""What a check takes for a network, a graph or a list comes from where it was made, and not from its name."""

from __future__ import annotations

import pytest
from test_check_programs import found_in

GAN = """
    def train(loader):
        g, d = {make}
        og = torch.optim.Adam(g.parameters())
        od = torch.optim.Adam(d.parameters())
        for x in loader:
            score = d(g(x))
            loss = score.mean()
            loss.backward(retain_graph=True)
            og.step()
            other = {other}.pow(2).mean()
            other.backward()
            od.step()
"""


@pytest.mark.parametrize("make", ["Gen(), Disc()", "build('g'), build('d')", "loader.one, loader.two"])
def test_what_an_optimizer_trains_is_a_network(make):
    """A value whose ``parameters()`` are trained is a network, wherever it comes from."""
    found = found_in(GAN.format(make=make, other="score"))
    assert found == [("UC101", "medium", "og.step()")]
    assert found_in(GAN.format(make=make, other="d(g(x).detach())")) == []


AGENT = """
    class Agent:
        def __init__(self, actor, critic, optimizer_class):
            self.actor, self.critic = actor, critic
            self.actor_optimizer = optimizer_class(self.actor.parameters(), lr=0.1)
            self.critic_optimizer = optimizer_class(self.critic.parameters(), lr=0.1)
        def fit(self, obs, target):
            actor_loss = -self.critic(obs, self.actor(obs)).mean()
            critic_loss = (self.critic(obs, obs) - target).pow(2).mean()
            {steps}
"""
BACKWARD_FIRST = (
    "actor_loss.backward(); self.actor_optimizer.step(); critic_loss.backward(); self.critic_optimizer.step()"
)


def test_an_optimizer_of_a_class_that_was_passed_in():
    """What is made of ``parameters()`` and is called an optimizer steps."""
    steps = "critic_loss.backward(); self.critic_optimizer.step(); actor_loss.backward()"
    assert [code for code, *_ in found_in(AGENT.format(steps=steps))] == ["UC101"]
    assert found_in(AGENT.format(steps=BACKWARD_FIRST)) == []


@pytest.mark.parametrize("body", [
    pytest.param("""
        from models import *
        critic = MultiDiscriminator()
        for x in loader:
            critic.compute_loss(x, 1).backward()
            critic.compute_loss(x, 0).backward()
        """, id="a class by its name"),
    pytest.param("""
        def ppo(make_actor_critic, data):
            ac = make_actor_critic(3)
            for i in range(8):
                ac.v(data).mean().backward()
                ac.pi(data).mean().backward()
        """, id="a factory by its name"),
    pytest.param("""
        class Agent:
            def fit(self, batch):
                losses, stats = self.compute_loss(batch)
                losses.policy.backward()
                losses.value.backward()
        """, id="items of a named tuple"),
    pytest.param("""
        class Agent:
            def fit(self, batch):
                losses = self.compute_losses(batch)
                losses["q1"].backward()
                losses["q2"].backward()
        """, id="items of a dictionary"),
    pytest.param("""
        from utils import repackage_hidden
        def train(model, optimizer, chunks, h):
            for x in chunks:
                h = repackage_hidden(h)
                y, h = model(x, h)
                optimizer.zero_grad()
                y.sum().backward()
                optimizer.step()
        """, id="a state that a function of another file detaches"),
    pytest.param("""
        def update(critic, buffer):
            values = critic(buffer.states)
            torch.set_grad_enabled(True)
            for state in buffer:
                (critic(state) - values).mean().backward()
            torch.set_grad_enabled(False)
        """, id="gradients are turned on later"),
])  # fmt: skip
def test_no_graph_is_shared(body):
    """Two backwards are told only where they surely meet in one graph."""
    assert found_in(body) == []


@pytest.mark.parametrize("body", [
    pytest.param("""
        class Detect(nn.Module):
            def __init__(self):
                super().__init__()
                self.m = nn.ModuleList(nn.Conv2d(c, 8, 1) for c in (4, 8))
            def forward(self, x):
                for i in range(2):
                    x[i] = self.m[i](x[i])
                    x[i] = x[i].sigmoid()
                return x
        """, id="feature maps by number"),
    pytest.param("""
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.backbone, self.spp = build(), nn.Conv2d(8, 8, 1)
            def forward(self, x):
                features = self.backbone(x)
                features[-1] = self.spp(features[-1])
                return features
        """, id="the last feature map"),
    pytest.param("""
        def indices(n, more):
            order = list(torch.randperm(n))
            order += order[:more]
            return order
        """, id="a list of a tensor's elements"),
])  # fmt: skip
def test_a_list_of_tensors_is_no_tensor(body):
    """What is indexed by a number, or made by ``list``, may be a list, whose items are bound anew."""
    assert found_in(body) == []


@pytest.mark.parametrize(("emptied", "codes"), [("del self.losses[:]", []), ("pass", ["UC301"])])
def test_a_list_that_is_emptied(emptied, codes):
    """What `del losses[:]` took out of a list is not used by a later round."""
    body = f"""
        class Agent:
            def __init__(self, net):
                self.net, self.losses = net, []
                self.optimizer = torch.optim.Adam(self.net.parameters())
            def train(self, loader):
                for x in loader:
                    self.losses.append(self.net(x).mean())
                    torch.stack(self.losses).sum().backward()
                    self.optimizer.step()
                    {emptied}
    """
    assert [code for code, *_ in found_in(body)] == codes


def test_rows_of_a_parameter_by_random_numbers_are_a_copy():
    """What integers index is gathered, so it may be changed in place."""
    body = """
        w = nn.Parameter(torch.zeros(3, 4))
        rows = w[torch.randint(3, (2,))].unsqueeze_(-1)
    """
    assert found_in(body) == []


def test_a_parameter_is_used_where_it_is_read():
    """A weight that each round reads anew is not overwritten by the last round's step."""
    loop = """
        layer = nn.Linear(4, 4)
        opt = torch.optim.SGD(layer.parameters(), 0.1)
        {before}
        for x in torch.randn(3, 5, 4):
            {inside}
            loss = F.linear(x, w).pow(2).mean()
            opt.zero_grad()
            loss.backward()
            opt.step()
    """
    assert found_in(loop.format(before="", inside="w = layer.weight.clone()")) == []
    assert found_in(loop.format(before="w = layer.weight * 2", inside="")) != []


SCALAR = """
    class Scalar(nn.Module):
        def __init__(self):
            super().__init__()
            self.constant = nn.Parameter(torch.tensor(1.0))
        def forward(self):
            return {returned}
    scale = Scalar()
    opt = torch.optim.SGD(scale.parameters(), 0.1)
    y = scale().exp() * torch.randn(3)
    opt.step()
    y.sum().backward()
"""


def test_a_module_that_returns_its_parameter_saves_nothing():
    """``exp`` keeps its result, so a step of the parameter does no harm."""
    assert found_in(SCALAR.format(returned="self.constant")) == []


def test_a_chain_of_conditions_names_all_cases():
    """After ``if mode == 'a' … elif mode == 'b'`` no value of the round before is left."""
    body = """
        def train(net, args, loader):
            opt = torch.optim.Adam(net.parameters())
            for x in loader:
                if args.mode == "a":
                    y = net(x)
                {second}
                y.sum().backward()
                opt.step()
    """
    assert found_in(body.format(second='elif args.mode == "b":\n                    y = net(x + 1)')) == []


def test_a_condition_that_holds_again():
    """Names have the values that they got where the same condition held before."""
    body = """
        def train(net, recurrent, loader):
            opt = torch.optim.Adam(net.parameters())
            for x, start in loader:
                if recurrent:
                    h = start
                for part in x:
                    if recurrent:
                        y, h = net(part, h)
                    else:
                        y = net(part)
                y.sum().backward()
                opt.step()
    """
    assert found_in(body) == []


def test_frozen_parameters_are_no_leaves():
    """A function that sets ``requires_grad`` of all parameters to False is followed."""
    body = """
        def toggle(net, on):
            for p in net.parameters():
                p.requires_grad_(on)
        def average(target, source):
            toggle(target, {on})
            for p, q in zip(target.parameters(), source.parameters()):
                p.copy_(q)
    """
    assert found_in(body.format(on="False")) == []
    assert [code for code, *_ in found_in(body.format(on="True"))] == ["UC201"]


@pytest.mark.parametrize(("body", "blamed"), [
    pytest.param("""
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.layers = nn.ModuleList([nn.Conv2d(3, 3, 3) for _ in range(3)])
            def features(self, x):
                out = []
                for layer in self.layers:
                    x = torch.relu(layer(x))
                    out.append(x)
                return out
            def forward(self, x):
                low, middle, high = self.features(x)
                high += low
                return high
        """, "high += low", id="one of the results in a list"),
    pytest.param("""
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.blocks = nn.ModuleList()
                for i in range(3):
                    self.blocks.append(nn.Sequential(nn.Linear(3, 3), nn.ReLU()))
            def forward(self, x):
                for block in self.blocks:
                    y = block(x)
                    y += x
                    x = y
                return x
        """, "y += x", id="modules that a loop appends"),
    pytest.param("""
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.conv = nn.Conv1d(4, 4, 3)
                self.conv = nn.Sequential(nn.utils.weight_norm(self.conv, dim=2), nn.GELU())
            def forward(self, x):
                x = x.clone()
                y = self.conv(x.transpose(1, 2))
                x += y
                return x
        """, "x += y", id="a module whose weight is normalised"),
    pytest.param("""
        qkv = nn.Linear(3, 6)
        def forward(mode, x):
            if mode:
                q, k = qkv(x).chunk(2, dim=-1)
            else:
                q = k = x.clone()
            q *= 2
            return q @ k
        """, "q *= 2", id="one of several views in one branch"),
    pytest.param("""
        class Sparse(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x, dim):
                top, _ = x.max(dim=dim, keepdim=True)
                x -= top
                return x.clamp(min=0)
            @staticmethod
            def backward(ctx, grad):
                return grad, None
        """, "x -= top", id="an augmented assignment in a Function"),
    pytest.param("""
        class Router(nn.Module):
            def __init__(self):
                super().__init__()
                self.layer = nn.Linear(3, 3)
            def top(self, scores):
                if self.k == 1:
                    return scores.max(dim=-1)
                return torch.topk(scores, self.k, dim=-1)
            def forward(self, x):
                weights, at = self.top(self.layer(x).softmax(dim=-1))
                if self.p:
                    weights /= torch.norm(
                        weights, p=self.p, dim=-1, keepdim=True)
                return weights, at
        """, "weights /= torch.norm(", id="a norm in a statement of two lines: `router.py` of megablocks"),
    pytest.param("""
        class Coupling(nn.Module):
            def __init__(self):
                super().__init__()
                self.f = nn.Linear(3, 3)
            def forward(self, z):
                first, last = z.chunk(2, dim=1)
                last += self.f(first)
                return torch.cat((first, last), 1)
        """, "last += self.f(first)", id="a part of an argument"),
])  # fmt: skip
def test_is_found(body, blamed):
    """Faults of public code that a check missed are told at their lines."""
    assert blamed in [text for *_, text in found_in(body, all_rules=True)]


EMBEDS = """
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed, self.vision = nn.Embedding(9, 4), nn.Linear(2, 4)
        def forward(self, ids, pixels):
            embeds = self.embed(ids){clone}
            embeds[ids == 0] = self.vision(pixels)
            return embeds
"""


def test_an_embedding_that_is_written_by_a_mask():
    """With ``enable_input_require_grads()`` the embedding's result is a leaf."""
    assert found_in(EMBEDS.format(clone="")) == [
        ("UC201", "medium", "embeds[ids == 0] = self.vision(pixels)")
    ]
    assert found_in(EMBEDS.format(clone=".clone()")) == []


LOADED = """
    class Own(nn.GroupNorm):
        pass
    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm = {layer}(2, 4)
            {start}
        def {name}(self, weights):
            self.norm.weight.copy_(weights)
"""


@pytest.mark.parametrize("layer", ["nn.GroupNorm", "Own"])
def test_a_parameter_that_another_files_caller_may_write_without_gradients(layer):
    """TransUNet calls ``load_from`` of another file under ``no_grad``."""
    assert found_in(LOADED.format(layer=layer, name="load_from", start="pass")) == []
    assert found_in(LOADED.format(layer=layer, name="load_from", start="pass"), all_rules=True) != []
    start = "self.load_from(torch.ones(4))"
    found = found_in(LOADED.format(layer=layer, name="load_from", start=start))
    assert [code for code, *_ in found] == ["UC201"]
    found = found_in(LOADED.format(layer=layer, name="forward", start="pass"))
    assert [code for code, *_ in found] == ["UC201"]


POINTER = """
    class Pointer(nn.Module):
        def __init__(self):
            super().__init__()
            self.score = nn.Linear(4, 4)
        def step(self, x, mask):
            log_p = torch.log_softmax(self.score(x), 1)
            probs = log_p.exp()
            probs[mask] = 0.0
            return log_p, probs
        def forward(self, x, mask):
            log_p, probs = self.step(x, mask)
            return {result}
"""


def test_a_result_that_the_callers_do_not_return():
    """The pointer network of attention-learn-to-route draws from the probabilities alone."""
    assert found_in(POINTER.format(result="log_p, probs.multinomial(1)")) == []
    found = found_in(POINTER.format(result="log_p, probs"), all_rules=True)
    assert found == [("UC101", "medium", "probs[mask] = 0.0")]


def test_a_buffer_that_takes_a_graph_over_to_the_next_call():
    """A state that is streamed is not trained: ``realtime_forward`` of ddsp_pytorch."""
    body = """
    class Synth(nn.Module):
        def __init__(self):
            super().__init__()
            self.gru = nn.GRU(4, 4)
            self.register_buffer("state", torch.zeros(1, 1, 4))
        def realtime_forward(self, x):
            out, state = self.gru(x, self.state)
            self.state.copy_({source})
            return out
    """
    assert found_in(body.format(source="state")) == []
    assert found_in(body.format(source="torch.zeros(1, 1, 4)")) != []


def test_a_buffer_that_takes_a_graph_before_a_backward():
    """A bank of memories that each forward writes to: torch refuses the first backward."""
    body = """
    class Memory(nn.Module):
        def __init__(self):
            super().__init__()
            self.key = nn.Linear(4, 8)
            self.register_buffer("bank", torch.zeros(8, 4))
        def forward(self, x):
            scores = self.key(x)
            read = scores @ self.bank
            self.bank += scores.t() @ x
            return read
    """
    assert found_in(body) == []
    found = found_in(body + "Memory()(torch.ones(2, 4)).sum().backward()\n")
    assert found == [("UC101", "high", "self.bank += scores.t() @ x")]


def test_a_chain_whose_parts_its_arguments_choose():
    """The last block of EfficientNet is made without an activation, which its class has by default."""
    body = """
    class Block(nn.Sequential):
        def __init__(self, width, activation=nn.ReLU):
            layers = [nn.Conv2d(width, width, 1), nn.BatchNorm2d(width)]
            if activation is not None:
                layers.append(activation())
            super().__init__(*layers)
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.block = nn.Sequential(Block(4), Block(4{last}))
        def forward(self, x):
            y = self.block(x)
            y += x
            return y
    Net()(torch.ones(1, 4, 2, 2)).sum().backward()
    """
    assert found_in(body.format(last="")) == [("UC101", "high", "y += x")]
    assert found_in(body.format(last=", activation=None"), all_rules=True) == []


@pytest.mark.parametrize(("default", "count"), [("nn.ReLU()", 1), ("nn.Sigmoid()", 1), ("nn.SiLU()", 0)])
def test_a_module_that_is_the_default_of_an_argument(default, count):
    """Callers mostly leave it, so that its class is known: ``Wav2VecSemantic.py`` of corti."""
    body = f"""
    class Context(nn.Module):
        def __init__(self, activation):
            super().__init__()
            self.conv, self.activation = nn.Conv1d(4, 4, 1), activation
        def forward(self, x):
            y = self.activation(self.conv(x))
            y += x
            return y
    class Net(nn.Module):
        def __init__(self, activation={default}):
            super().__init__()
            self.context = Context(activation)
        def forward(self, x):
            return self.context(x)
    """
    assert len(found_in(body)) == count


TABLE = """
    ACTIVATIONS = {{"relu": nn.ReLU, "gelu": nn.GELU}}
    class Layer(nn.Module):
        def __init__(self, name):
            super().__init__()
            act = {act}
            self.body = nn.Sequential(nn.Linear(4, 8), {made}, nn.Dropout(0.1, inplace=True))
        def forward(self, x):
            return self.body(x)
    Layer("{key}")(torch.randn(16, 4)).sum().backward()
"""


@pytest.mark.parametrize(
    ("act", "made", "found"),
    [
        ("None", "ACTIVATIONS[name]()", ["medium"]),
        ("ACTIVATIONS[name]", "act()", ["medium"]),
        ("nn.ReLU if torch.rand(1) > 0 else nn.GELU", "act()", ["medium"]),
        ("None", 'ACTIVATIONS["relu"]()', ["high"]),
        ("None", 'ACTIVATIONS["gelu"]()', []),
    ],
)
def test_an_activation_from_a_table_of_classes(act, made, found):
    """``ACTIVATION_DICT`` of cxtrack3d: any one of them is followed, and what only one does is less sure."""
    key = "gelu" if "gelu" in made else "relu"
    assert [each[1] for each in found_in(TABLE.format(act=act, made=made, key=key))] == found


POOLED = """
    class Pool:
        def __init__(self, size):
            self.size = size
        def query(self, images):
            if self.size == 0:
                return images
            return torch.cat([images{copied}, images{copied}])
    g, d = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4)), nn.Linear(4, 1)
    stepper, pool = torch.optim.SGD(g.parameters(), lr=0.1), Pool(50)
    fake = g(torch.rand(2, 4))
    fake.mean().backward(retain_graph=True)
    stepper.step()
    d(pool.query(fake)).mean().backward()
"""


def test_a_pool_that_gives_back_copies_unless_it_is_empty():
    """The pool of pix2pix and joliGEN: with its size, which is 50 by default, no graph comes back."""
    assert found_in(POOLED.format(copied=".data")) == []
    assert found_in(POOLED.format(copied="")) == [("UC101", "medium", "stepper.step()")]


def test_a_model_that_a_method_sets_up():
    """pix2pix makes its models by their names, and then calls ``initialize``."""
    body = """
    class Model:
        def {name}(self):
            self.net = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4))
            self.stepper = torch.optim.SGD(self.net.parameters(), lr=0.1)
        def train(self, x):
            first, second = self.net(x), self.net(x + 1)
            first.mean().backward()
            self.stepper.step()
            second.mean().backward()
    """
    for name, found in (("initialize", ["UC101"]), ("set_up", [])):
        assert [code for code, *_ in found_in(body.format(name=name))] == found


def test_a_step_that_changes_no_saved_weight():
    """The first layer keeps no weight if its input needs no gradient, nor is a frozen one changed."""
    body = """
    def train(loader):
        first, second = nn.Linear(1, 1), nn.Linear(1, 1)
        z = second(first(torch.ones(1, 1)) ** 2)
        {frozen}
        optimizer = torch.optim.SGD([*first.parameters(), *second.parameters()], lr=0.1)
        z.sum().backward(retain_graph=True)
        optimizer.step()
        z.sum().backward()
    """
    frozen = "for p in second.parameters(): p.requires_grad = False"
    assert found_in(body.format(frozen=frozen)) == []
    assert found_in(body.format(frozen="pass")) == [("UC101", "medium", "optimizer.step()")]


def test_a_list_that_one_branch_empties():
    """What it held before is not surely there: ``ac.py`` of Popular-RL-Algorithms."""
    body = """
    net = nn.Linear(3, 3)
    optimizer = torch.optim.Adam(net.parameters())
    losses = []
    for x in loader:
        losses.append(net(x).exp().sum())
        loss = torch.stack(losses).sum()
        loss.backward()
        optimizer.step()
        {emptied}
    """
    assert found_in(body.format(emptied="if x.done: del losses[:]")) == []
    assert found_in(body.format(emptied="pass")) != []


def test_values_under_computed_keys_are_unlike():
    """The old values of one key say nothing of another: ``ppo.py`` of spinning-up-basic."""
    body = """
    critic = nn.Sequential(nn.Linear(3, 3), nn.ReLU(), nn.Linear(3, 1))
    optimizer = torch.optim.Adam(critic.parameters())
    batch = {k: torch.cat([row[k] for row in rows]) for k in rows[0]}
    for epoch in range(5):
        if epoch > 0: batch["value"] = critic(state)
    for _ in range(5):
        loss = (batch["value"] - batch["goal"]).pow(2).mean()
        loss.backward()
        optimizer.step()
        batch["value"] = critic(state)
    """
    assert found_in(body) == []


def test_a_step_before_the_backward_of_an_unknown_functions_result():
    """Backward runs from it, so that its graph is its only argument's, also where a factor has none."""
    body = """
    from losses import hinge
    g, d = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3)), nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 1))
    optimizer = torch.optim.Adam(d.parameters())
    for x in loader:
        loss = {loss}
        optimizer.step()
        loss.backward()
    """
    assert found_in(body.format(loss="hinge(d(g(x)))")) == [("UC101", "medium", "optimizer.step()")]
    assert found_in(body.format(loss="x.weight * hinge(d(g(x)))")) == [
        ("UC101", "medium", "optimizer.step()")
    ]
    assert found_in(body.format(loss="hinge(d(g(x)), g(x))")) == []


def test_a_step_between_backwards_that_an_unknown_function_may_connect():
    """On request: ``postprocess`` of MolGAN may cut the graph or not."""
    body = """
    from unknown import postprocess, scores
    g, d = nn.Linear(3, 3), nn.Linear(3, 1)
    g_optimizer = torch.optim.Adam(g.parameters())
    def train(x):
        made = {made}
        loss, value = scores(d(made), x), d(postprocess(made, x)).mean()
        loss.backward(retain_graph=True)
        g_optimizer.step()
        value.backward()
    """
    step = [("UC101", "medium", "g_optimizer.step()")]
    assert found_in(body.format(made="g(x)")) == []
    assert found_in(body.format(made="g(x)"), all_rules=True) == step
    assert found_in(body.format(made="g(x).detach()"), all_rules=True) == []


def test_a_loop_of_one_turn():
    """``for _ in range(1)`` has no second turn that would free a graph again: ``advGAN.py``."""
    body = """
    net = nn.Linear(3, 3)
    shared = net(x).exp()
    for _ in range({turns}):
        shared.sum().backward()
    """
    assert found_in(body.format(turns=1)) == []
    assert [code for code, *_ in found_in(body.format(turns=2))] == ["UC301"]


def test_a_class_that_is_first_met_in_a_second_turn():
    """Its ``__init__`` has loops of two turns all the same, because it is followed once for all who ask."""
    body = """
    def train(data):
        seen = None
        for x in data:
            if seen is not None:
                Net(3).net(x).sum().backward()
            seen = x
    class Net(nn.Module):
        def __init__(self, n):
            super().__init__()
            layers = []
            for _ in range(n):
                layers.append(nn.ReLU(inplace=True))
                layers.append(nn.Sigmoid())
            self.net = nn.Sequential(*layers)
    """
    blamed = [text for _, _, text in found_in(body)]
    assert blamed == ["layers.append(nn.ReLU(inplace=True))"]


@pytest.mark.parametrize(("body", "right", "wrong"), [
    pytest.param("""
        def train(net, kind, loader):
            opt = torch.optim.Adam(net.parameters())
            for x in loader:
                y = net(x)
                if kind in [1, 2]:
                    if kind == 1:
                        loss = y.mean()
                    if kind == 2:
                        loss = y.pow(2).mean()
                else:
                    loss = y.exp().mean()
                {}
                opt.step()
        """, "loss.backward()", "opt.step(); loss.backward()", id="tests in a row that name all cases"),
    pytest.param("""
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.fc = nn.Linear(4, 4)
            def forward(self, x):
                f = torch.sigmoid(self.fc(x))
                if self.training:
                    {}
                else:
                    f *= 0.5
                return f
        """, "f = f * 0.5", "f *= 0.5", id="a write in eval alone"),
    pytest.param("""
        class Layer(nn.Module):
            def __init__(self):
                super().__init__()
                self.weight = nn.Parameter(torch.randn(4, 4))
            def forward(self, x):
                with torch.no_grad():
                    self.weight.copy_(self.weight / 2)
                return x @ self.weight
        def train(x):
            layer = Layer()
            net = nn.Sequential({})
            net(nn.Linear(4, 4)(x)).sum().backward()
        """, "Layer(), Layer()", "layer, layer", id="each layer has its own weight"),
    pytest.param("""
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.a, self.b = nn.LSTM(4, 4), nn.LSTM(4, 4)
            def forward(self, x, lengths):
                packed = {}
                for layer in (self.a, self.b):
                    y, _ = layer(packed)
                    packed[0] = packed[0] + y[0]
                return packed
        """, "pack_padded_sequence(x, lengths)", "x.clone()", id="a packed sequence"),
    pytest.param("""
        class Gen(nn.Module):
            def __init__(self):
                super().__init__()
                self.fc = nn.Linear(4, 4)
            def forward(self, x):
                return self.fc(x)
        def make():
            net = Gen()
            return net
        def train(loader):
            g, d = make(), make()
            opt_g, opt_d = torch.optim.Adam(g.parameters()), torch.optim.Adam(d.parameters())
            for x in loader:
                fake = g(x)
                d(fake.detach()).mean().backward()
                {}.step()
                d(fake).mean().backward()
        """, "opt_d", "opt_g", id="networks of one function"),
    pytest.param("""
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.conv = nn.Conv2d(3, 3, 1)
            def forward(self, x, code=None, alpha=None, is_code=False):
                x = x.clone()
                if is_code:
                    codes = x
                else:
                    codes = self.conv(x){}
                for i in range(2):
                    codes[:, i] = alpha * code[:, i] + (1 - alpha) * codes[:, i]
                return codes
        """, "", ".sigmoid()", id="a value of another branch"),
])  # fmt: skip
def test_what_does_not_meet(body, right, wrong):
    """A save and a write count where one tensor surely has both: each of these was told of public code."""
    assert found_in(body.format(right)) == []
    assert [code for code, *_ in found_in(body.format(wrong), all_rules=True)] == ["UC101"]


@pytest.mark.parametrize(("body", "right", "wrong"), [
    pytest.param("""
        class Attention(nn.Module):
            def __init__(self):
                super().__init__()
                self.weight = nn.Parameter(torch.randn(8, 4))
            def project(self, x, **kwargs):
                return F.linear(x, kwargs.get("weight", {})[:8])
            def forward(self, x):
                q, k = self.project(x).chunk(2, dim=-1)
                q *= 0.5
                return q @ k.t()
        """, "None", "self.weight", id="the default of a mapping's item"),
    pytest.param("""
        class Block(nn.Module):
            def __init__(self, n):
                super().__init__()
                self.fc = nn.Linear(4, 4)
            def forward(self, x):
                return {}
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                blocks = []
                for i in range(3):
                    blocks.append(Block(i))
                    blocks.append(Block(2 * i))
                self.blocks = nn.ModuleList(blocks)
                self.drop = nn.Dropout(0.5, inplace=True)
            def forward(self, x):
                for i in range(3):
                    x = self.drop(self.blocks[2 * i](x))
                return x
        """, "self.fc(x)", "torch.relu(self.fc(x))", id="any one of the blocks of one class"),
    pytest.param("""
        from einops import reduce
        class Attention(nn.Module):
            def __init__(self):
                super().__init__()
                self.fc = nn.Linear(4, 4)
            def forward(self, x):
                x = self.fc(x)
                x -= reduce(x, "... d -> ... 1", "{}")
                return x.softmax(dim=-1)
        """, "mean", "max", id="a reduction by its name"),
    pytest.param("""
        class Attention(nn.Module):
            def __init__(self):
                super().__init__()
                self.conv = nn.Conv2d(3, 8, 1)
            def forward(self, x):
                q, k = self.conv(x).split([4, 4], dim=1)
                b, c, h, w = q.size()
                shape = {}
                q = q.reshape(shape)
                q *= 0.5
                return q, k
        """, "(b, c * h, w)", "(b, 2, c // 2, h, w)", id="a new shape that only divides"),
    pytest.param("""
        class Pool(nn.Module):
            def __init__(self):
                super().__init__()
                self.stem = nn.Conv2d(3, 3, 1)
                for i in range(3):
                    self.add_module(f"block{{i}}", nn.Sequential(nn.{}, nn.Conv2d(3, 3, 1)))
            def forward(self, x):
                x = path = self.stem(x)
                for i in range(3):
                    path = self.__getattr__(f"block{{i}}")(path)
                    x += path
                return x
        """, "Dropout(0.5)", "Conv2d(3, 3, 1)", id="a part by a computed name"),
    pytest.param("""
        def train(net, old, tasks):
            total = 0
            for x in tasks:
                loss = net(x).mean()
                total = total + loss
                {}
            total.backward()
            torch.optim.SGD(net.parameters()).step()
        """, "net.eval()", "net.load_state_dict(old)", id="other parameters are loaded"),
    pytest.param("""
        net = nn.Linear(4, 4)
        def test(x):
            h = net(x).sigmoid()
            h += 1
            {}
        """, "return h", "h.sum().backward()", id="a backward in a function that is called a test"),
])  # fmt: skip
def test_what_meets(body, right, wrong):
    """A fault is found by what was read in public code, and what lies next to it is none."""
    assert found_in(body.format(right)) == []
    assert len(found_in(body.format(wrong), all_rules=True)) == 1


@pytest.mark.parametrize(
    ("network", "expected"), [("net", ["q.clamp_(min=0)"]), ("ema_model", []), ("target", [])]
)
def test_a_network_that_follows_another_is_not_trained(network, expected):
    """`q_learner.py` of q-transformer: its loss clamps what an averaged copy returns."""
    body = f"""
        class Learner(nn.Module):
            def __init__(self, net, ema_model, target):
                super().__init__()
                self.net, self.ema_model, self.target = net, ema_model, target
            def forward(self, x):
                q = self.{network}(x).amax(dim=-1)
                q.clamp_(min=0)
                return F.mse_loss(self.net(x), q)
    """
    assert [statement for _, _, statement in found_in(body, all_rules=True)] == expected
