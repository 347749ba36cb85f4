"""A module with an unread base, in a list, or passed to another is followed as any other."""

from __future__ import annotations

from textwrap import dedent

import pytest
from test_check_programs import found_in

from checked_text import check_text


def blamed(*args, **options):
    return [statement for _, _, statement in found_in(*args, **options)]


BLOCKS = """
from unknown.runner import BaseModule
class Unit(Base):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 3)
    def forward(self, x):
        return F.relu(self.fc(x))
class Light(nn.Module):
    def forward(self, x, t):
        x[:, 0:2] = t
        return x
class Block(nn.Module):
    def __init__(self, middle):
        super().__init__()
        self.first, self.last, self.middle = Unit(), Unit(), middle
    def forward(self, x, t):
        x = self.first(x)
        x = self.middle(x, t)
        return self.last(x)
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.light = Light()
        self.inner = Block(self.light)
        self.block = Block(self.inner)
        self.units = nn.ModuleList()
        for _ in range(2):
            self.units.append(Unit())
    def forward(self, x, t):
        {}
        return x
"""


@pytest.mark.parametrize(
    ("base", "lines", "expected"),
    [
        ("BaseModule", "x = self.units[0](x)\n        x += t", ["x += t"]),
        ("unknown.Module", "x = self.units[0](x)\n        x += t", ["x += t"]),
        ("nn.Module", "x = self.block(x, t)", ["x[:, 0:2] = t"]),
        ("nn.Module", "for u in self.units: x = u(x)\n        x += t", ["x += t"]),
        (
            "nn.Module",
            "for i, u in enumerate(self.units):\n            x = u(x)\n            if i == 0: all = x\n"
            "            else: all += x",
            ["else: all += x"],
        ),
    ],
)
def test_modules_of_a_project(base, lines, expected):
    """A class with a ``forward`` is one, whatever its base is, and one that another is given is followed."""
    found = blamed(BLOCKS.replace("Base)", f"{base})").format(lines), all_rules=True)
    assert found == list(dict.fromkeys(["x[:, 0:2] = t", *expected]))


def test_a_part_that_is_one_of_unlike_ones():
    """The step of one network ends the graph of each: ``MultiScaleDiscriminator`` of a vocoder."""
    body = """
    class Score(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList([nn.Linear(2, 2), nn.Linear(2, 1)])
        def forward(self, x):
            kept = []
            for layer in self.layers:
                x = layer(x)
                kept.append(x)
            return kept
    g, d = nn.Linear(2, 2), Score()
    og, od = torch.optim.Adam(g.parameters()), torch.optim.Adam(d.parameters())
    for x in loader:
        scores = d(g(x))
        (d(x)[-1].mean() + 1).backward()
        od.step()
        loss = 0
        for score in scores:
            loss += -score[-1].mean()
        loss.backward()
        og.step()
    """
    assert blamed(body) == ["od.step()"]


def test_a_packed_sequence_is_no_tensor():
    """Its items can't be written, and a recurrent module returns one for one: ``rnn.py`` of translate."""
    body = """
    class Net(nn.Module):
        def __init__(self, width, count):
            super().__init__()
            self.layers = nn.ModuleList()
            for i in range(count):
                self.layers.append(nn.LSTM(4, 4, bidirectional=i == 0))
        def forward(self, x, lengths):
            packed = {}
            for i, layer in enumerate(self.layers):
                y, _ = layer(packed)
                if i > 1:
                    packed[0] = packed.clone()[0] + y[0]
                else:
                    packed = y
            return packed
    """
    assert blamed(body.format("torch.nn.utils.rnn.pack_padded_sequence(x, lengths)")) == []
    assert blamed(body.format("x")) == ["packed[0] = packed.clone()[0] + y[0]"]


def test_containers_of_other_libraries(tmp_path):
    """Those of mmcv are torch's own classes with another base."""
    body = """
    import torch.nn as nn
    from {} import ModuleList, Sequential
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.blocks = ModuleList()
            for _ in range(3):
                self.blocks.append(Sequential(nn.Linear(3, 3), nn.ReLU()))
        def forward(self, x, y):
            for block in self.blocks:
                x = block(x)
            x += y
            return x
    """
    for library, expected in (("mmcv.runner", 1), ("mmengine.model", 1), ("unknown", 0)):
        assert len(check_text(dedent(body.format(library)), "net.py")) == expected


REARRANGED = """
from einops import rearrange
class Attention(nn.Module):
    def __init__(self, heads):
        super().__init__()
        self.heads = heads
        self.to_qkv = nn.Linear(8, 24)
    def forward(self, x):
        q, k, v = self.to_qkv(x).chunk(3, dim=-1)
        q, k, v = map(lambda t: rearrange(t, "{}", h=self.heads), (q, k, v))
        q *= 2
        return q @ k.transpose(-1, -2) @ v
"""


@pytest.mark.parametrize(
    ("pattern", "is_view"),
    [
        ("b n (h d) -> b h n d", True),
        ("b (h d) x y -> b h (x y) d", True),
        ("b n (h d) -> (b h) n d", False),  # which copies, unless there is one head
        ("b x y (h d) -> (b x) h y d", False),  # a view only if the parts are not those of `x`
    ],
)
def test_parts_that_einops_rearranges(pattern, is_view):
    """A pattern that merges only neighbours makes a view of the part: ``nystrom_attention.py`` and
    ``bottleneck_transformer_pytorch.py`` of lucidrains."""
    assert blamed(REARRANGED.format(pattern)) == ["q *= 2"] * is_view


@pytest.mark.parametrize(("pattern", "expected"), [("n d -> b n d", {"UC202"}), ("n d -> (b n) d", set())])
def test_what_einops_repeats(pattern, expected):
    """A new axis of its own copies nothing: ``tnt.py`` of transformer-in-transformer."""
    body = f"""
from einops import repeat
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.token = nn.Parameter(torch.randn(5, 4))
    def forward(self, n, b):
        tokens = repeat(self.token[:n], "{pattern}", b=b)
        tokens += 1
        return tokens
"""
    found = check_text(f"import torch\nfrom torch import nn\n{body}", "net.py")
    assert {one.code for one in found} == expected


BLOCK = """
import torch
from torch import nn
from mmcv.cnn import ConvModule, build_activation_layer, build_conv_layer, build_norm_layer
class Block(nn.Module):
    def __init__(self, width, act_cfg=dict(type="ReLU")):
        super().__init__()
        self.norm = build_norm_layer(dict(type="GN"), width)[1]
        self.conv = {made}
        self.act = build_activation_layer(act_cfg)
    def forward(self, x):
        y = {used}
        y += x
        return y
"""


@pytest.mark.parametrize(
    ("made", "used", "expected"),
    [
        ("ConvModule(width, width, 1)", "self.conv(x)", 1),  # `FusedSemanticHead` of mmdetection
        ("ConvModule(width, width, 1, inplace=False)", "self.conv(x)", 1),
        ("ConvModule(width, width, 1, act_cfg=None)", "self.conv(x)", 0),
        ("ConvModule(width, width, 1, act_cfg=act_cfg)", "self.conv(x)", 1),
        ("ConvModule(width, width, 1, act_cfg=dict(type='GELU'))", "self.conv(x)", 0),  # it saves its input
        ("ConvModule(width, width, 1, act_cfg=dict(type='Swish'))", "self.conv(x)", 0),  # not read
        ("ConvModule(width, width, 1, act_cfg=chosen())", "self.conv(x)", 0),
        ("ConvModule(width, width, 1, **chosen())", "self.conv(x)", 0),
        ("ConvModule(width, width, 1, order=('act', 'conv', 'norm'))", "self.conv(x)", 0),
        ("build_conv_layer(None, width, width, 1)", "self.act(self.norm(self.conv(x)))", 1),  # of mmflow
        ("build_conv_layer(None, width, width, 1)", "self.norm(self.conv(x))", 0),
        ("build_conv_layer(None, width, width, 1)", "self.conv(x)", 0),
    ],
)
def test_layers_that_openmmlabs_packages_make(made, used, expected):
    """Their configurations say which activation ends them, and so whether the result is saved."""
    assert len(check_text(BLOCK.format(made=made, used=used), "block.py")) == expected


ACTIVATIONS = """
def function(name):
    if name == "relu":
        return F.relu
    if name == "gelu":
        return F.gelu
    raise ValueError(name)
class Layer(nn.Module):
    def __init__(self, name):
        super().__init__()
        self.first, self.last = nn.Linear(3, 3), nn.Linear(3, 3)
        self.drop = nn.Dropout(0.1, inplace=True)
        self.act = {}
    def forward(self, x):
        return self.last(self.drop(self.act(self.first(x))))
"""


@pytest.mark.parametrize(
    ("act", "is_kept"),
    [
        ("function('relu')", True),
        ("function('gelu')", False),  # which keeps its input
        ("function(name)", False),
        ("lambda t: t.tanh()", True),
        ("lambda t: t + 1", False),
    ],
)
def test_an_activation_that_is_a_function(act, is_kept):
    """``get_activation_fn("relu")`` returns torch's own."""
    line = ["return self.last(self.drop(self.act(self.first(x))))"]
    assert blamed(ACTIVATIONS.format(act)) == line * is_kept


@pytest.mark.parametrize(
    "call", ["super().forward(x)", "super(Causal, self).forward(x)", "self.inner.forward(x)"]
)
def test_forward_of_a_module_of_torchs(call):
    """A class derived from a convolution keeps what that keeps: the decoder of diffusers' KVAE."""
    program = """
    class Causal(nn.Conv1d):
        def __init__(self):
            super().__init__(3, 3, 1)
            self.inner = nn.Conv1d(3, 3, 1)
        def forward(self, x):
            return {}
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv, self.first = Causal(), nn.Linear(3, 3)
        def forward(self, x):
            x = self.first(x)
            y = self.conv(x)
            x += y
            return x
    """
    assert blamed(dedent(program).format(call), all_rules=True) == ["x += y"]


@pytest.mark.parametrize(
    "line",
    [
        "a, b = torch.linalg.eigh(w)",
        "a, b = torch.qr(w)",
        "b, _, a = torch.linalg.svd(w)",
        "b, _, a = w.svd()",
    ],
)
def test_several_results_of_a_composed_function(line):
    """Each is kept: a clone stands before such a write in Laplace, and in gpytorch's fantasies."""
    program = (
        f"def f():\n    w = torch.ones(3, 3, requires_grad=True)\n    {line}\n    a -= 1.0\n    return a @ b"
    )
    assert blamed(program) == ["a -= 1.0"]


@pytest.mark.parametrize(("copied", "count"), [("drop1(x)", 1), ("drop2(x)", 0)])
def test_a_chain_that_a_default_function_makes_with_an_activation_of_a_dictionary(copied, count):
    """``FPNBottleneckBlock`` of pytorch-toolbelt: its name says norm, and its last part isn't known."""
    body = f"""
    ACTS = {{RELU: nn.ReLU, MISH: Mish}}

    def norm_act(width, act="relu"):
        return nn.Sequential(nn.BatchNorm2d(width), ACTS[act.lower()]())

    class Block(nn.Module):
        def __init__(self, width, make=norm_act):
            super().__init__()
            self.conv = nn.Conv2d(3, width, 3)
            self.bn1 = make(width)
            self.drop1, self.drop2 = nn.Dropout2d(0.5, inplace=True), nn.Dropout2d(0.5)
        def forward(self, x):
            x = self.bn1(self.conv(x))
            x = self.{copied}
            return x.sigmoid()
    """
    text = "import torch\nfrom torch import nn\n" + dedent(body)
    assert len(check_text(text, "program.py", all_rules=True)) == count
    assert check_text(text, "program.py") == []


FILLED = """
class Net(nn.Module):
    def __init__(self, count):
        super().__init__()
        self.parts, layers = nn.ModuleList([]), []
        for i in range(count):
            layers.append(nn.Conv2d(3, 3, 1))
            if {last}:
                layers.append(nn.ReLU())
            if i == 0:
                self.parts.append(nn.Sequential(nn.Conv2d(3, 3, 1), nn.ReLU()))
            else:
                self.parts.append(nn.Sequential(nn.Conv2d(3, 3, 1), nn.BatchNorm2d(3), {end}))
        self.chain = nn.Sequential(*layers)
    def forward(self, x, y):
        {forward}
        return x
"""


@pytest.mark.parametrize(("last", "expected"), [
    ("i != (count - 1)", []), ("i < len(count) - 1", []), ("True", ["x += y"]),
])  # fmt: skip
def test_a_chain_whose_last_part_is_left_out(last, expected):
    """The last turn of the loop that fills it appends no activation (``hw2/cnn.py`` of royvelich)."""
    body = FILLED.format(last=last, end="nn.ReLU()", forward="x = self.chain(x)\n        x += y")
    assert blamed(body) == expected


@pytest.mark.parametrize(("end", "expected"), [("nn.ReLU()", ["x += y"]), ("nn.BatchNorm2d(3)", [])])
def test_any_one_of_chains_that_begin_and_end_alike(end, expected):
    """Such as the branches of selective kernels (``SK_model.py`` of COLA-Net)."""
    forward = "for i, part in enumerate(self.parts):\n            x = part(x)\n            x += y"
    assert blamed(FILLED.format(last="False", end=end, forward=forward)) == expected


@pytest.mark.parametrize(("conv", "expected"), [("acted", ["xs[i - 1] += xs[i]"]), ("convs[0]", [])])
def test_items_of_a_list_that_operations_of_one_kind_keep(conv, expected):
    """Feature maps, each of which a convolution's ReLU keeps (``fpnf.py`` of mmocr)."""
    body = f"""
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.convs = nn.ModuleList([nn.Conv2d(3, 3, 1) for _ in range(3)])
        def acted(self, x):
            return F.relu(self.convs[0](x))
        def forward(self, xs):
            xs = [F.relu(conv(x)) for x, conv in zip(xs, self.convs)]
            for i in range(2, 0, -1):
                xs[i - 1] += xs[i]
                xs[i - 1] = self.{conv}(xs[i - 1])
            return xs
    """
    assert blamed(body) == expected


@pytest.mark.parametrize(("stands", "expected"), [("nn.BatchNorm1d", ["x += y"]), ("other", [])])
def test_a_norm_that_stands_for_none(stands, expected):
    """As in torchvision's ResNet: ``res_block_1d.py`` of Advanced-SEGAN."""
    body = f"""
    class Block(nn.Module):
        def __init__(self, width, norm_layer=None):
            super().__init__()
            if norm_layer is None:
                norm_layer = {stands}
            self.conv, self.norm, self.relu = nn.Conv1d(3, width, 1), norm_layer(width), nn.ReLU()
        def forward(self, x, y):
            x = self.relu(self.norm(self.conv(x)))
            if hasattr(self, "down"):
                y = self.down(y)
                y = y.detach()
                x += y
            return x
    """
    assert blamed(body) == expected


@pytest.mark.parametrize(
    ("before", "expected"), [("layer - 1", []), ("layer", ["states[layer][:, i] = made"])]
)
def test_another_item_of_a_list(before, expected):
    """The states of stacked recurrent layers, each of which reads those of the layer below."""
    body = f"""
    w = torch.ones(3, 3, requires_grad=True)
    states = [torch.zeros(2, 4, 3) for _ in range(2)]
    for layer in range(1, 2):
        for i in range(4):
            made = states[{before}][:, i] @ w
            states[layer][:, i] = made
    states[-1].sum().backward()
    """
    assert blamed(body) == expected


@pytest.mark.parametrize(("tanh", "count"), [("nn.ReLU(inplace=True)", 1), ("nn.Tanh()", 0)])
def test_a_write_that_an_argument_chooses(tanh, count):
    """Of two activations that may follow another one, both must write for a flag without a request."""
    text = """
    class Net(nn.Module):
        def __init__(self, act):
            super().__init__()
            if act == "relu":
                self.act = nn.ReLU(inplace=True)
            else:
                self.act = {}
        def forward(self, x):
            return self.act(torch.sigmoid(x))
    """
    assert len(blamed(dedent(text.format(tanh)))) == count


@pytest.mark.parametrize(("last", "count"), [("c", 1), ("d", 0)])
@pytest.mark.parametrize("names", ["['a', 'b', 'c']", "('a', 'b', 'c')"])
def test_layers_whose_names_stand_in_a_list(names, last, count):
    """Each name is a turn of the loop, in which the layer of that name is called."""
    body = f"""
    class Coder(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b, self.c, self.d = (nn.Linear(4, 4) for _ in range(4))
            self.layers = {names}
        def forward(self, x):
            for name in self.layers:
                x = getattr(self, name)(x)
            return x
    coder = Coder()
    opt = torch.optim.Adam(coder.{last}.parameters())
    y = coder(torch.randn(3, 4))
    y.sum().backward(retain_graph=True)
    opt.step()
    y.square().sum().backward()
    """
    assert blamed(body) == ["opt.step()"] * count
