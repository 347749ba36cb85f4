"""What a file imports is read from the file that defines it, and told in the file that calls it."""

from __future__ import annotations

import os
from textwrap import dedent

import pytest

from checked_text import check_text
from unclobber.static.files import check_file, check_files

NETS = """
    import torch
    from torch import nn

    class Scalar(nn.Module):
        def __init__(self, value):
            super().__init__()
            self.constant = nn.Parameter(torch.tensor(value))
        def forward(self):
            return self.constant

    class Gate(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(4, 4)
        def forward(self, x):
            return torch.sigmoid(self.fc(x))

    def shifted(x):
        x += 1
        return x

    def torn(x):
        y = x.exp()
        y += 1
        return y
"""
LAYOUTS = {
    "beside": ("nets.py", "train.py", "from nets import {}"),
    "relative": ("lib/nets.py", "lib/train.py", "from .nets import {}"),
    "above": ("lib/nets.py", "tools/deep/train.py", "from lib.nets import {}"),
    "as a module": ("lib/nets.py", "lib/train.py", "from . import nets\nfrom lib.nets import {}"),
    "star": ("nets.py", "train.py", "from nets import *"),
    "handed on": ("lib/nets.py", "train.py", "from lib import {}"),
}


def found_in(folder, layout: str, body: str, names: str = "Scalar, Gate, shifted, torn", **options):
    """Code and text of the statement to blame, of a file that imports the networks."""
    defining, importing, line = LAYOUTS[layout]
    for path in (folder / defining, folder / importing):
        path.parent.mkdir(parents=True, exist_ok=True)
    (folder / defining).write_text(dedent(NETS))
    (folder / "lib").mkdir(exist_ok=True)
    (folder / "lib/__init__.py").write_text("from .nets import *\n")
    text = f"import torch\n{line.format(names)}\n{dedent(body)}"
    found = check_text(text, str(folder / importing), **options)
    return [(one.code, (one.writes[0] if one.writes else one.needed).site.statement) for one in found]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_an_imported_class_is_read(tmp_path, layout):
    """A network's forward keeps its result, wherever the import finds it."""
    body = """
    def fit(x):
        gate = Gate()
        g = gate(x)
        g += 1
        g.sum().backward()
    """
    assert found_in(tmp_path, layout, body) == [("UC101", "g += 1")]


def test_names_that_a_file_takes_from_another_ones_imports(tmp_path):
    """``from utils import *`` brings ``torch``, too: ``train.py`` of Anomaly_Prediction."""
    (tmp_path / "utils.py").write_text("import torch\nfrom torch import nn\n")
    text = "from utils import *\ny = nn.Linear(3, 3)(torch.ones(3)).exp()\ny += 1\ny.sum().backward()\n"
    assert [one.code for one in check_text(text, str(tmp_path / "train.py"))] == ["UC101"]


def test_a_module_that_returns_its_parameter_keeps_nothing(tmp_path):
    """Its product keeps the exponential, which no step changes (CQL's ``log_alpha_prime``)."""
    body = """
    class Trainer:
        def __init__(self):
            self.scale = Scalar(1.0)
            self.optimizer = torch.optim.Adam(self.scale.parameters())
        def fit(self, loss):
            alpha = torch.clamp(torch.exp(self.scale()), max=10.0)
            first, second = (alpha * loss).mean(), (alpha * (loss - 1)).mean()
            first.backward(retain_graph=True)
            self.optimizer.step()
            second.backward()
    """
    assert found_in(tmp_path, "beside", body) == []


def test_what_another_file_does_is_told_at_the_call(tmp_path):
    """A write in an imported function is blamed on its call."""
    body = """
    def fit(w: torch.Tensor):
        y = torch.sigmoid(w @ w.requires_grad_())
        shifted(y)
        torn(w).sum().backward()
        return y
    """
    torn = ("UC101", "torn(w).sum().backward()")
    assert found_in(tmp_path, "beside", body, all_rules=True) == [("UC101", "shifted(y)"), torn]


def test_a_caller_says_that_the_argument_of_a_function_has_a_graph(tmp_path):
    """``rescale_flow`` of irr writes to the chunks of what a network of another file has computed."""
    (tmp_path / "flows.py").write_text(
        "import torch\ndef rescale(flow, by):\n    u, v = flow.chunk(2, 1)\n    u *= by\n    return u + v\n"
    )
    made = "import torch\nfrom flows import rescale\nnet = torch.nn.Conv2d(3, 2, 3)\n"
    (tmp_path / "train.py").write_text(f"{made}def step(x):\n    return rescale(net(x), 2.0)\n")
    home, train = check_files([str(tmp_path / name) for name in ("flows.py", "train.py")])
    assert home.findings == ()
    assert [one.code for one in train.findings] == ["UC203"]
    assert [(frame.line, frame.function) for frame in train.findings[0].writes[0].site.below] == [
        (4, "rescale")
    ]


def test_what_the_file_of_a_function_says_by_itself(tmp_path):
    """It is said once, at home; of the calling file alone it is said at the call."""
    made = "w = torch.ones(2, requires_grad=True)\n    y = w.exp()\n    y += 1\n    return y\n"
    (tmp_path / "own.py").write_text(f"import torch\ndef made():\n    {made}")
    (tmp_path / "train.py").write_text("import torch\nfrom own import made\nmade().sum().backward()\n")
    home, train = check_files([str(tmp_path / name) for name in ("own.py", "train.py")])
    assert [one.writes[0].site.source for one in home.findings] == ["y += 1"]
    assert train.findings == ()
    (alone,) = check_files([str(tmp_path / "train.py")])[0].findings
    assert alone.writes[0].site.source == "made()"


@pytest.mark.parametrize(("kind", "expected"), [("Gate", ["UC101"]), ("Other", [])])
def test_the_class_of_an_argument_is_its_annotation(kind, expected, tmp_path):
    """``train_vae.py`` of SAiD divides what a network that it is given has computed, in place."""
    body = f"""
    def fit(gate: {kind}, x):
        g = gate(x)
        g /= 2
        g.sum().backward()
    """
    assert [code for code, _ in found_in(tmp_path, "beside", body)] == expected


@pytest.mark.parametrize(("times", "expected"), [(3, ["net(x)"]), (1, [])])
def test_a_layer_of_another_file_that_writes_to_what_its_call_before_saved(times, expected, tmp_path):
    """The noise that a Bayesian layer draws anew in each call."""
    (tmp_path / "layers.py").write_text(
        dedent("""
        import torch
        from torch import nn

        class Noisy(nn.Module):
            def __init__(self):
                super().__init__()
                self.sigma = nn.Parameter(torch.ones(3))
                self.register_buffer("eps", torch.empty(3))
            def forward(self, x):
                self.eps.normal_()
                return x * (self.sigma * self.eps)
    """)
    )
    text = "import torch\nfrom layers import Noisy\nnet, loss, x = Noisy(), 0.0, torch.ones(3)\n"
    text += f"for _ in range({times}):\n    loss = loss + net(x).sum()\nloss.backward()\n"
    found = check_text(text, str(tmp_path / "train.py"))
    assert [finding.writes[0].site.source for finding in found] == expected


def test_a_write_in_another_file_is_named_with_its_line(tmp_path):
    """The name that the tensor has there stands nowhere in this file, so the message leaves it out."""
    (tmp_path / "util.py").write_text("import torch\n\ndef scale_(t):\n    t.mul_(2)\n")
    made = "import torch\nfrom util import scale_\nw = torch.ones(2, requires_grad=True)\n"
    text = f"{made}g = w.sigmoid()\nscale_(g)\ng.sum().backward()\n"
    (finding,) = check_text(text, str(tmp_path / "train.py"))
    assert "a tensor is overwritten after `sigmoid` saved its result" in finding.message
    (frame,) = finding.writes[0].site.below
    assert (frame.path, frame.line, frame.function) == (str(tmp_path / "util.py"), 4, "scale_")
    assert finding.saved.site.below == ()


def test_a_place_of_another_file_is_the_call_of_this_one(tmp_path):
    """Also where the other file's classes are first read while the call is followed."""
    (tmp_path / "agents.py").write_text(
        dedent("""
        import torch
        from torch import nn

        class Critic(nn.Module):
            def __init__(self):
                super().__init__()
                self.h, self.q = nn.Linear(4, 4), nn.Linear(4, 1)
            def forward(self, x):
                return self.q(self.h(x))

        class Agent(nn.Module):
            def __init__(self):
                super().__init__()
                self.critic = Critic()
                self.optimizer = torch.optim.Adam(self.critic.parameters(), lr=1e-3)
                self.other = torch.optim.Adam(self.critic.parameters(), lr=1e-3)
            def losses(self, x):
                q = self.critic(x)
                return q.pow(2).mean(), -q.mean()
    """)
    )
    text = dedent("""
        import torch
        from agents import Agent

        agent = Agent()
        for _ in range(3):
            first, second = agent.losses(torch.randn(4, 4))
            first.backward(retain_graph=True)
            agent.optimizer.step()
            second.backward()
    """)
    (finding,) = check_text(text, str(tmp_path / "train.py"))
    assert finding.saved.site.source == "agent.losses(torch.randn(4, 4))"


def test_files_that_import_one_another(tmp_path):
    """A circle of imports ends, and a name that none defines stays unknown."""
    (tmp_path / "a.py").write_text("import torch\nfrom b import *\nfrom b import Missing\n")
    (tmp_path / "b.py").write_text("import torch\nfrom a import *\n")
    assert check_text((tmp_path / "a.py").read_text() + "Missing()(other(1))\n", str(tmp_path / "a.py")) == []


def test_a_changed_file_is_read_again(tmp_path):
    """The source of another file counts as it is at the check."""
    body = "def fit(x):\n    gate = Gate()\n    g = gate(x)\n    g += 1\n    g.sum().backward()\n"
    assert found_in(tmp_path, "beside", body, "Gate") != []
    (tmp_path / "nets.py").write_text(dedent(NETS).replace("torch.sigmoid(self.fc(x))", "self.fc(x)"))
    assert check_text(f"import torch\nfrom nets import Gate\n{body}", str(tmp_path / "train.py")) == []


WIDE = "\n".join(f"        h{i} = self.a(h{i}) + self.b(h{i}) * {i}" for i in range(40))
TOOLS = f"""
import torch
from torch import nn

class Wide(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)
    def forward_a(self, x):
        {"; ".join(f"h{i} = x" for i in range(40))}
{WIDE}
        return h1 + h2

class Layer(nn.Module):
    def __init__(self, act="relu"):
        super().__init__()
        self.fc = nn.Linear(4, 4)
        if act == "relu":
            self.act = nn.ReLU()
        elif act == "gelu":
            self.act = nn.GELU()
        else:
            self.act = None
    def forward(self, x):
        x = self.fc(x)
        if self.act is not None:
            x = self.act(x)
        return x

def train(nets, optimizers, loader):
    [encoder, head] = nets
    [optimizer, other] = optimizers
    for x in loader:
        features = encoder(x)
        head(features).mean().backward(retain_graph=True)
        optimizer.step()
        features.pow(2).mean().backward()
        other.step()
"""


def in_train(tmp_path, body, **options):
    (tmp_path / "tools.py").write_text(TOOLS)
    text = f"import torch\nfrom torch import nn\nimport tools\n{dedent(body)}"
    return check_text(text, str(tmp_path / "train.py"), **options)


@pytest.mark.parametrize(("trained", "lines"), [("e.parameters()", [33]), ("h.parameters()", [])])
def test_a_step_in_a_function_of_another_file(tmp_path, trained, lines):
    """It is told at the call, which brings the networks and optimizers: Unlearning_for_MRI_harmonisation."""
    found = in_train(
        tmp_path,
        f"""
    e, h = nn.Linear(4, 4), nn.Linear(4, 1)
    one, other = torch.optim.Adam({trained}), torch.optim.Adam(h.parameters())
    tools.train([e, h], [one, other], loader)
    """,
    )
    first = TOOLS.split("\n").index("        optimizer.step()") + 1
    assert [one.writes[0].site.below[0].line for one in found] == [first] * len(lines)


def test_a_method_of_a_network_that_is_not_followed(tmp_path):
    """It computes with the network's parts: `forward_a` of DCDA."""
    body = """
    net = tools.Wide()
    opt = torch.optim.Adam(net.parameters())
    for x in loader:
        y = net.forward_a(x){}
        y.mean().backward(retain_graph=True)
        opt.step()
        y.sum().backward()
    """
    assert [one.code for one in in_train(tmp_path, body.format(""))] == ["UC101"]
    assert in_train(tmp_path, body.format(".detach().requires_grad_()")) == []


@pytest.mark.parametrize(("act", "expected"), [("", 1), ("'gelu'", 0), ("'none'", 0)])
def test_a_module_that_an_argument_chooses(tmp_path, act, expected):
    """As for the layers of NWPU-MOC's pyramid, whose sums overwrite what ReLU keeps."""
    found = in_train(
        tmp_path,
        f"""
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = tools.Layer({act})
        def forward(self, x):
            y = self.layer(x)
            y += x
            return y
    """,
        all_rules=True,
    )
    assert len(found) == expected


def write_tree(folder, files: dict[str, str]) -> None:
    for name, text in files.items():
        (folder / name).write_text(dedent(text))


def test_an_optimizer_in_a_file_without_torch(tmp_path):
    """A wrapper of one needs none: ``ScheduledOptim``, public in dozens of copies."""
    schedule = """
        class Scheduled:
            def __init__(self, optimizer):
                self._optimizer = optimizer
            def step_and_update(self):
                self._optimizer.step()
        """
    body = """
        import torch
        from torch import nn
        from schedule import Scheduled
        net = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
        opt = Scheduled(torch.optim.Adam({}.parameters()))
        y = net(torch.ones(2, 3))
        y.sum().backward(retain_graph=True)
        opt.step_and_update()
        y.mean().backward()
        """
    write_tree(tmp_path, {"schedule.py": schedule})
    for given, expected in (("net", ["opt.step_and_update()"]), ("other", [])):
        found = check_text(dedent(body.format(given)), str(tmp_path / "train.py"))
        assert [one.writes[0].site.statement for one in found] == expected


def test_a_network_that_another_file_calls(tmp_path):
    """It is one there, too, though only this file reads its parameters: ``train_epoch`` of bg-resample-ood.
    And both calls of the function are told together."""
    trainer = """
        import torch
        def train_epoch(model, loss, optimizer, x):
            y = model(x)
            loss(y).backward(retain_graph=True)
            optimizer.step()
            loss(y, x).backward()
        """
    body = """
        import torch, models
        from trainer import train_epoch
        model = models.__dict__[name]()
        opt = torch.optim.Adam({}.parameters())
        train_epoch(model, torch.mean, opt, torch.ones(2, 3))
        train_epoch(model, torch.mean, opt, torch.zeros(2, 3))
        """
    write_tree(tmp_path, {"trainer.py": trainer})
    (found,) = check_text(dedent(body.format("model")), str(tmp_path / "train.py"))
    assert [(write.site.line, write.site.below[0].line) for write in found.writes] == [(6, 6), (7, 6)]
    assert check_text(dedent(body.format("other")), str(tmp_path / "train.py")) == []


def test_one_function_that_several_files_call(tmp_path):
    """What it does to the networks of each is one finding, with a write at each call."""
    (tmp_path / "tools.py").write_text(TOOLS)
    body = """
    import torch
    from torch import nn
    import tools
    e, h = nn.Linear(4, 4), nn.Linear(4, 1)
    one, other = torch.optim.Adam(e.parameters()), torch.optim.Adam(h.parameters())
    tools.train([e, h], [one, other], loader)
    """
    for name in ("a.py", "b.py"):
        (tmp_path / name).write_text(dedent(body))
    results = check_files([str(tmp_path / name) for name in ("a.py", "b.py", "tools.py")])
    (found,) = [finding for result in results for finding in result.findings]
    assert [os.path.basename(write.site.path) for write in found.writes] == ["a.py", "b.py"]


def test_the_state_of_a_network_of_another_file(tmp_path):
    """In training mode alone it computes a loss, which is the last turn's in evaluation: on request."""
    counter = """
        import torch.nn as nn
        class Counter(nn.Module):
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
        """
    body = """
        import torch
        from counter import Counter
        net = Counter()
        net.train()
        optimizer = torch.optim.Adam(net.parameters())
        for step in range(3):
            net(torch.randn(2, 4))
            optimizer.zero_grad()
            net.loss.backward()
            optimizer.step()
            net.eval()
        """
    write_tree(tmp_path, {"counter.py": counter})
    path = str(tmp_path / "train.py")
    assert [len(check_text(dedent(body), path, all_rules=every)) for every in (False, True)] == [0, 1]


@pytest.mark.parametrize(
    ("called", "count"),
    [
        ("with torch.no_grad():\n    print(net.encode(torch.randn(2, 4)))\n", 0),
        ("with torch.no_grad():\n    net.encode(torch.randn(2, 4))\nnet.encode(torch.randn(2, 4))\n", 1),
        ("net.encode(torch.randn(2, 4)).sum().backward()\n", 1),
        ("print(net)\n", 1),
    ],
)
@pytest.mark.parametrize(
    ("written", "code"), [("out += 1", "UC101"), ("self.own.weight.fill_(0)", "UC201")], ids=["save", "leaf"]
)
def test_a_function_that_other_files_call_without_gradients(tmp_path, called, count, written, code):
    """Nothing is recorded where all calls turn gradients off (`models.py` of Model-Inversion-SplitNN)."""
    body = f"""
    import torch
    from torch import nn
    class Own(nn.Linear):
        pass
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.part, self.own = nn.Sequential(nn.Linear(4, 4), nn.Tanh()), Own(4, 4)
        def encode(self, x):
            out = self.part(x)
            {written}
            return out
    """
    (tmp_path / "nets.py").write_text(dedent(body))
    (tmp_path / "use.py").write_text(f"import torch\nfrom nets import Net\nnet = Net()\n{called}")
    # A file that doesn't have the module's name calls another `encode`.
    (tmp_path / "words.py").write_text('print("torch".encode("ascii"))\n')
    paths = [str(tmp_path / name) for name in ("nets.py", "use.py", "words.py")]
    assert [each.code for result in check_files(paths) for each in result.findings] == [code] * count
    assert [each.code for each in check_files(paths, all_rules=True)[0].findings] == [code]


def test_a_package_that_imports_all_names_of_many_files(tmp_path):
    """Of transformers' three hundred models a few are read, and none after the name's own."""
    (tmp_path / "models").mkdir()
    stars = "".join(f"from .m{n} import *\n" for n in range(40))
    (tmp_path / "models" / "__init__.py").write_text(f"import torch\n{stars}")
    for n in range(40):
        (tmp_path / "models" / f"m{n}.py").write_text(
            f"import torch\nclass Net{n}(torch.nn.Module):\n    pass\n"
        )
    for name, most in (("Net3", 5), ("Net39", 17)):
        text = (
            f"import torch\nfrom models import {name}\nnet = {name}()\nnet(torch.ones(2)).sum().backward()\n"
        )
        (tmp_path / "train.py").write_text(text)
        read = check_file(str(tmp_path / "train.py")).read
        models = [path for path in read if os.path.basename(path).startswith("m") and path.endswith(".py")]
        assert 0 < len(models) <= most


@pytest.mark.parametrize(("drawn", "codes"), [("multinomial(1)", []), ("log_softmax(-1)", ["UC101"])])
def test_a_long_network_that_draws_samples(tmp_path, drawn, codes):
    """Which of its results has a graph isn't known then: the actions of DACT are integers."""
    lines = "\n".join(f"        x = x + self.layer(x) * {n} - self.layer(x) / {n}" for n in range(1, 30))
    actor = (
        "import torch\n\n\nclass Actor(torch.nn.Module):\n"
        "    def __init__(self):\n        super().__init__()\n        self.layer = torch.nn.Linear(4, 4)\n\n"
        f"    def forward(self, x):\n{lines}\n        return x.softmax(-1).{drawn}, x.log_softmax(-1)\n"
    )
    train = """
        import torch
        from actor import Actor

        net = Actor()
        opt = torch.optim.Adam(net.parameters())
        action, _ = net(torch.ones(2, 4))
        for _ in range(2):
            _, logs = net(action)
            (logs.mean() + action.sum()).backward(retain_graph=True)
            opt.step()
        """
    write_tree(tmp_path, {"actor.py": actor})
    found = check_text(dedent(train), str(tmp_path / "train.py"))
    assert [one.code for one in found] == codes


CHOSEN = """
    from torch import nn
    class Block(nn.Module):
        def __init__(self, a, b, act="relu"):
            super().__init__()
            layers = [nn.Linear(a, b)]
            if act == "relu":
                layers += [nn.ReLU()]
            elif act == "tanh":
                layers += [nn.{}()]
            self.block = nn.Sequential(*layers)
        def forward(self, x):
            return self.block(x)
    class Gate(nn.Module):
        def __init__(self):
            super().__init__()
            self.up1, self.up2 = Block(3, 8), Block(8, 3, act="Tanh")
        def forward(self, x):
            return self.up2(self.up1(x))
"""
STEPPED = """
    gate, judge = Gate(), torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3))
    opt = torch.optim.Adam(gate.parameters())
    for x in data:
        fake = gate(x)
        fake.mean().backward(retain_graph=True)
        opt.step()
        judge(fake).abs().mean().backward()
"""


@pytest.mark.parametrize(("last", "flags"), [("Tanh", [("UC101", "opt.step()")]), ("Unknown", [])])
def test_a_graph_goes_through_any_activation_that_an_argument_chooses(tmp_path, monkeypatch, last, flags):
    """Both branches give a layer of torch's, so that the weights below it are surely needed."""
    monkeypatch.setattr("test_check_imports.NETS", CHOSEN.format(last))
    assert found_in(tmp_path, "beside", STEPPED, names="Gate") == flags
