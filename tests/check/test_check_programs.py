"""What a check finds in small programs, each beside its harmless twin."""

from __future__ import annotations

from textwrap import dedent, indent

import pytest

from checked_text import check_text

HEAD = "import torch\nfrom torch import nn\nimport torch.nn.functional as F\n"


def found_in(body: str, *, all_rules: bool = False) -> list[tuple[str, str | None, str]]:
    """Code, confidence and the text of the statement to blame."""
    found = check_text(HEAD + dedent(body), "program.py", all_rules=all_rules)
    places = [(one, one.writes[0].site if one.writes else one.needed.site) for one in found]
    return [(one.code, one.confidence, site.statement.split("\n")[0]) for one, site in places]


MODULE = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)
        self.act = nn.Sigmoid()
        self.drop = nn.Dropout(0.5{inplace})
    def forward(self, x, training=True):
        h = self.act(self.fc(x))
        {line}
        return h
"""


@pytest.mark.parametrize(("line", "expected"), [
    pytest.param("h += 1", ["h += 1"], id="a result is overwritten"),
    pytest.param("h = h + 1", [], id="out of place"),
    pytest.param("h @= x", [], id="a product, which binds the name again"),
    pytest.param("h[:, 0] += 1", ["h[:, 0] += 1"], id="a part of it"),
    pytest.param("h.view(-1).mul_(2)", ["h.view(-1).mul_(2)"], id="through a view"),
    pytest.param("h.clone().mul_(2)", [], id="a copy"),
    pytest.param("h = h.reshape(-1); h += 1", [], id="perhaps a copy"),
    pytest.param("x += 1", ["x += 1"], id="the input, which the weight's gradient needs"),
    pytest.param("h.clamp_(0, 1)", ["h.clamp_(0, 1)"], id="a method"),
    pytest.param("torch.relu_(h)", ["torch.relu_(h)"], id="a function"),
    pytest.param("F.relu(h, inplace=True)", ["F.relu(h, inplace=True)"], id="an argument"),
    pytest.param("torch.exp(x, out=h)", ["torch.exp(x, out=h)"], id="out="),
    pytest.param("with torch.no_grad(): h *= 2", ["with torch.no_grad(): h *= 2"], id="without gradients"),
    pytest.param("y = torch.einsum('ij,ij->i', [h, x]); x += 1; h = y", [
        "y = torch.einsum('ij,ij->i', [h, x]); x += 1; h = y"], id="one of two that einsum multiplies"),
    pytest.param("y = h + 1; h = torch.einsum('ij->i', y); y += 1", [], id="the only one of einsum"),
    pytest.param("h = torch.zeros(4); h += 1", [], id="another tensor by the same name"),
    pytest.param("h = F.relu(h); h = F.relu(h, inplace=True)", [
        "h = F.relu(h); h = F.relu(h, inplace=True)"], id="a second relu in place"),
])  # fmt: skip
def test_in_a_forward(line, expected):
    """A module's own result is kept by the sigmoid, and forward's result goes to whoever trains."""
    found = found_in(MODULE.format(inplace="", line=line))
    assert [(code, confidence) for code, confidence, _ in found] == [("UC101", "medium")] * len(expected)
    assert [text in line for *_, text in found] == [True] * len(expected)


SAVED_BY_CALLS = """
from torch.utils.checkpoint import checkpoint
class Near(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, width):
        ctx.save_for_backward(x)
        return (x > width).float()
    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * x, None
class Squash(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        y = x.tanh()
        ctx.save_for_backward(y)
        return y
    @staticmethod
    def backward(ctx, grad):
        (y,) = ctx.saved_tensors
        return grad * (1 - y * y)
near = Near.apply
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)
        self.near = Near.apply
    def forward(self, x, width):
        h = self.fc(x) + 1
        {line}
        return h, y
"""


@pytest.mark.parametrize(("line", "expected"), [
    pytest.param("y = Near.apply(h, 1.0); h[y > 0] = 0", True, id="its input, by a mask"),
    pytest.param("y = Near.apply(h, width); width += h", False, id="an input that it doesn't save"),
    pytest.param("y = Near.apply(h.clone(), 1.0); h -= y", False, id="a copy is saved"),
    pytest.param("y = near(h, 1.0); h -= y", True, id="by a name of the file"),
    pytest.param("y = self.near(h, 1.0); h -= y", True, id="by an attribute"),
    pytest.param("y = Squash.apply(h); h -= y", False, id="its input, of which it saves another tensor"),
    pytest.param("y = Squash.apply(h); y *= 2", True, id="its result"),
    pytest.param("y = near(h, 1.0); y *= 2", False, id="a result that it doesn't save"),
    pytest.param("y = h; h += checkpoint(self.fc, h, use_reentrant=False)", True, id="a checkpoint's input"),
    pytest.param("y = checkpoint(self.fc, h, use_reentrant=False); y += h", False, id="its result"),
])  # fmt: skip
def test_what_a_function_or_a_checkpoint_saves(line, expected):
    """The tensors that `forward` names in `save_for_backward`, and each input of a checkpoint."""
    found = found_in(SAVED_BY_CALLS.format(line=line))
    assert [(code, confidence) for code, confidence, _ in found] == [("UC101", "medium")] * expected


@pytest.mark.parametrize(("inplace", "count"), [(", inplace=True", 1), ("", 0)])
def test_a_module_that_writes(inplace, count):
    assert len(found_in(MODULE.format(inplace=inplace, line="h = self.drop(h)"))) == count


@pytest.mark.parametrize("line", [
    "with torch.no_grad(): h = h * 1; h += 1",
    "h = torch.argmax(h, -1); h += 1",
    "_, i = h.topk(2); i += 1",
    "if training:\n            h = h + 1\n        else:\n            h = h * 2",
])  # fmt: skip
def test_what_has_no_gradient(line):
    """Integers, the indices of topk, what is computed without a graph."""
    assert found_in(MODULE.format(inplace="", line=line)) == []


def test_an_attribute_that_may_be_none_decides_no_branch():
    """`block.py` of MAE-DFER: the weights of a layer, of which most configurations have none."""
    body = """
    class Net(nn.Module):
        def __init__(self, scale):
            super().__init__()
            self.norm = nn.LayerNorm(4)
            if scale:
                self.gamma = nn.Parameter(torch.ones(4))
            else:
                self.gamma = None
        def forward(self, x):
            if self.gamma is None:
                h = x[:, 0]
                y = self.norm(h)
                x[:, 0] = {value}
                return x
            return x * self.gamma
    """
    assert len(found_in(body.format(value="y"))) == 1
    assert found_in(body.replace("x[:, 0] = {value}", "x = x + y")) == []


@pytest.mark.parametrize("decorator", ["@torch.no_grad()", "@torch.inference_mode()"])
def test_decorated(decorator):
    """A decorator that turns gradients off leaves nothing to find in its function."""
    body = f"""
    net = nn.Linear(3, 3)
    {decorator}
    def compute(x):
        y = net(x).exp()
        y += 1
        return y
    """
    assert found_in(body) == []
    assert found_in(body.replace(decorator, "")) != []


def test_a_function_that_is_only_called_without_gradients():
    """The callers' contexts count, where all of them are in the file."""
    body = """
    net = nn.Linear(3, 3)
    def step(x):
        y = net(x).exp()
        y += 1
        return y
    def show(x):
        with torch.no_grad():
            return step(x)
    """
    assert found_in(body) == []
    assert found_in(body + "def train(x): return step(x)\n    ") != []


def test_a_function_that_calls_itself_and_is_only_called_without_gradients():
    """`convert_model` of optimum-habana goes through a tree of modules."""
    body = """
    def convert(model, off):
        for child in model.children():
            new = nn.Linear(3, 3)
            new.weight.copy_(child.weight)
            convert(child, off)
    """
    assert found_in(body) != []
    called = "def main(model):\n        with torch.no_grad():\n            convert(model, True)\n    "
    assert found_in(body + called) == []
    assert found_in(body + called + "def train(model): convert(model, False)\n    ") != []


def test_exclusive_branches():
    """One branch saves and the other writes: never both."""
    body = """
    net = nn.Linear(3, 3)
    def step(x, flag):
        y = net(x)
        if flag:
            z = y.pow(2)
        else:
            z = y + 1
        if {condition}:
            y += 1
        return z
    """
    assert found_in(body.format(condition="not flag")) == []
    assert [code for code, *_ in found_in(body.format(condition="flag"), all_rules=True)] == ["UC101"]


def test_a_not_before_an_or_negates_its_first_part_alone():
    """If `b` holds, both branches run: the first one saves, the second one writes."""
    body = """
    net = nn.Linear(3, 3)
    def step(x, a, b):
        y = net(x)
        if not a or b:
            z = y.pow(2)
        else:
            z = y + 1
        if {condition}:
            y += 1
        return z
    """
    assert [code for code, *_ in found_in(body.format(condition="a or b"), all_rules=True)] == ["UC101"]
    assert found_in(body.format(condition="not (not a or b)"), all_rules=True) == []


LEAF = "w = torch.ones(3, requires_grad=True)\n"


@pytest.mark.parametrize(("body", "expected"), [
    (LEAF + "w.add_(1)", [("UC201", "high", "w.add_(1)")]),
    (LEAF + "with torch.no_grad():\n    w.add_(1)", []),
    (LEAF + "w.data.add_(1)", []),
    ("w = torch.ones(3)\nw.add_(1)\nw.requires_grad_()", []),
    ("lin = nn.Linear(2, 2)\nlin.weight.fill_(0)", [("UC201", "high", "lin.weight.fill_(0)")]),
    ("lin = nn.Linear(2, 2)\nnn.init.zeros_(lin.weight)", []),
    ("lin = nn.Linear(2, 2)\nlin.weight.requires_grad = False\nlin.weight.fill_(0)", []),
    (LEAF + "w[0] = 1", [("UC202", "high", "w[0] = 1")]),
    (LEAF + "(w * 1)[0] = 1", []),
    (LEAF + "a, b = (w * 2).chunk(2)\na.mul_(2)", [("UC203", "high", "a.mul_(2)")]),
    (LEAF + "a, b = (w * 2).chunk(2)\na = a * 2", []),
    ("a, b = torch.ones(4).chunk(2)\na.mul_(2)", []),
    (LEAF + "y = w * 2\nwith torch.no_grad():\n    v = y[:1]\nv.mul_(2)", [("UC204", "high", "v.mul_(2)")]),
    ("x = torch.ones(1, 3).expand(2, 3)\nx.add_(1)", [("UC207", "high", "x.add_(1)")]),
    ("x = torch.ones(1, 3).expand(2, 3).clone()\nx.add_(1)", []),
    (LEAF + "with torch.inference_mode():\n    b = torch.ones(3)\nb.add_(1)", [
        ("UC206", "high", "b.add_(1)")]),
    (LEAF + "y = w.exp()\ny.sum().backward()\ny.sum().backward()", [
        ("UC301", "medium", "y.sum().backward()")]),
    (LEAF + "y = w.exp()\ny.sum().backward(retain_graph=True)\ny.sum().backward()", []),
    (LEAF + "y = w * 2\ny.sum().backward()\ny.add_(1)", []),
    (LEAF + "y = w.exp()\ny.add_(1)", []),
    ("x = torch.ones(4)\nx[1:] -= x[:-1]", [("UC207", "medium", "x[1:] -= x[:-1]")]),
    ("x = torch.ones(4)\nx[1:] -= x[:-1].clone()", []),
    ("def f(x):\n    x[1:] -= x[:-1]", []),  # an array may
    ("def f(x):\n    x -= x[:, :1]", []),
    ("def f(x):\n    x -= x.transpose(0, 1)", []),
    ("x = torch.ones(2, 2)\nx += x.T", [("UC207", "medium", "x += x.T")]),
    ("x = torch.ones(2, 2)\nx.mul_(x.transpose(-1, 0))", [("UC207", "medium", "x.mul_(x.transpose(-1, 0))")]),
    ("x = torch.ones(2, 2)\nx += x.T.clone()", []),
    ("x = torch.ones(2, 2)\nx += x.transpose(0, 1) * x.sum(1)", []),
    ("x = torch.ones(8)\nn = len(x)\nx.narrow(0, 2, n - 2).add_(x.narrow(0, 0, n - 2))", [
        ("UC207", "medium", "x.narrow(0, 2, n - 2).add_(x.narrow(0, 0, n - 2))")]),
    ("x = torch.ones(8)\nx.narrow(0, 4, 4).add_(x.narrow(0, 0, 4))", []),
    ("x = torch.ones(3, dtype=torch.bool)\nx[x] = torch.ones(3) > 1", [
        ("UC207", "high", "x[x] = torch.ones(3) > 1")]),
    ("x = torch.ones(3, dtype=torch.bool)\nx[x] = False", []),
    ("x = torch.ones(4, 4)\nx -= x[:1]", [("UC102", "high", "x -= x[:1]")]),
])  # fmt: skip
def test_refused_on_the_spot_or_not_at_all(body, expected):
    assert found_in(body) == expected


FUNCTION = """
class Scale(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        {forward}
    @staticmethod
    def backward(ctx, grad):
        {backward}
"""


@pytest.mark.parametrize(("forward", "backward", "expected"), [
    ("return x * 2", "return grad * 2", []),
    ("x.mul_(2)\n        return x", "return grad * 2", [("UC103", "medium", "x.mul_(2)")]),
    ("x.mul_(2).round_()\n        return x", "return grad * 2", [("UC103", "medium", "x.mul_(2).round_()")]),
    ("x: torch.Tensor = x.clone()\n        x.mul_(2)\n        return x", "return grad * 2", []),
    ("(x := x.clone()).mul_(2)\n        x.add_(1)\n        return x", "return grad * 2", []),
    ("ctx.mark_dirty(x)\n        x.mul_(2)\n        return x", "return grad * 2", []),
    ("ctx.mark_dirty(x)\n        return x.mul_(2).add_(1)", "return grad * 2", []),
    ("ctx.mark_dirty(x)\n        y = x.mul_(2)\n        return y, 1", "return grad * 2", []),
    ("ctx.mark_dirty(x)\n        y = x.mul_(2).exp()\n        return y", "return grad", [
        ("UC103", "high", "return y")]),
    ("ctx.mark_dirty(x)\n        x.mul_(2)\n        return x + 1", "return grad", [
        ("UC103", "high", "x.mul_(2)")]),
    ("ctx.save_for_backward(x)\n        return x.exp()",
     "(x,) = ctx.saved_tensors\n        x.exp_()\n        return grad * x", []),  # which one backward may
    ("ctx.save_for_backward(x.clone())\n        return x.exp()",
     "(x,) = ctx.saved_tensors\n        x.exp_()\n        return grad * x", []),
    ("ctx.save_for_backward(x)\n        return x.exp()",
     "(x,) = ctx.saved_tensors\n        return grad * x.exp()", []),
    ("ctx.save_for_backward(x)\n        return x.exp()",
     "(x,) = ctx.saved_tensors\n        x **= 2\n        return grad * x", []),
    ("ctx.save_for_backward(x)\n        return x.exp()",
     "(x,) = ctx.saved_tensors\n        x @= x\n        return grad * x", []),
])  # fmt: skip
def test_custom_functions(forward, backward, expected):
    """`check` follows what a custom Function saves and writes."""
    assert found_in(FUNCTION.format(forward=forward, backward=backward)) == expected


@pytest.mark.parametrize("around", ["if torch:", "with torch.device('cpu'):", "for _ in range(1):"])
def test_functions_inside_of_a_statement_of_the_top(around):
    """They are followed as those of the top itself, but not those of a loop."""
    body = f"""
    {around}
        class Net(nn.Module):
            def forward(self, x):
                y = torch.relu(x * 2)
                y += 1
                return y
    """
    expected = [] if around.startswith("for") else ["y += 1"]
    assert [where for *_, where in found_in(body)] == expected


def test_on_request():
    """What is too often no fault is told only where everything is asked for."""
    body = """
    def f(x: torch.Tensor):
        y = x.exp()
        y += 1
        return y
    """
    assert found_in(body) == []
    assert found_in(body, all_rules=True) == [("UC101", "medium", "y += 1")]


@pytest.mark.parametrize(
    "body",
    [
        """
        def f(x: torch.Tensor, image_size=None):
            y = x.clone()
            y[:, 0] = y[:, 0] / image_size[1]
            return y
        """,
        """
        def f(parts, n):
            sums = [None] * n
            sums[0] = parts[0]
            for i in range(1, n):
                sums[i] = parts[i] + F.interpolate(sums[i - 1], scale_factor=2)
            return sums
        """,
        """
        def f(old, new):
            new.weight.data[:2] = old.weight.data[:2]
        """,
    ],
    ids=["a size is a number", "a list of a length", "through .data"],
)
def test_not_even_on_request(body):
    assert found_in(body, all_rules=True) == []


def test_a_function_of_a_name_that_trains_nothing_weighs_less():
    body = """
    net = nn.Linear(3, 3)
    def generate(x):
        y = net(x).exp()
        y += 1
        return y
    """
    assert found_in(body) == []
    assert [confidence for _, confidence, _ in found_in(body, all_rules=True)] == ["medium"]


def test_a_function_goes_on_after_groups_of_exceptions():
    """``except*`` is followed as ``except`` is."""
    attempt = "try: g()\n    except* ValueError: return x"
    body = f"def f(x):\n    y = x.sigmoid()\n    {attempt}\n    y += 1\n    return y\n"
    assert [text for *_, text in found_in(body, all_rules=True)] == ["y += 1"]


@pytest.mark.parametrize("text", [
    "import torch\nx = " + "(" * 80 + "1" + ")" * 80,
    "import torch\nasync def f():\n    async with a as b:\n        async for c in b:\n            await c\n",
    "import torch\nmatch torch:\n    case {'a': [1, *_]}:\n        pass\n",
    "import torch\ndef f(x):\n    for torch.i in x: pass\n    for x[torch] in x: pass\n",
    "import torch\nclass A(A): pass\nclass B(A, B): pass\nA().b.c()\n",
    "import torch\ndef f(*a, **k): return f(*a, **k)\nf(*[1], **{})\n",
    "import torch\nx = lambda *a: (yield)\n[*x] = y = z.w[...] = {**x}\ndel x, y\n",
    "import torch\nwhile True:\n    try:\n        break\n    finally:\n        continue\n",
    "import torch\nx: int\nx += 1\nglobal_ = [i for i in x if i for j in i]\n",
])  # fmt: skip
def test_any_python_is_followed(text):
    check_text(text, "a.py", all_rules=True)


LOSS = """
class {name}(nn.Module):
    def __init__(self, weight=None):
        super().__init__()
        {part}
    def forward(self, {arguments}):
        log_p = F.log_softmax({of}, dim=1)
        known = target != 255
        target = target.clamp(min=0)
        log_p *= known
        return log_p.gather(1, target).mean()
"""


@pytest.mark.parametrize(("name", "part", "arguments", "of", "count"), [
    pytest.param("SoftLoss", "pass", "x, target", "x", 1, id="what it predicts"),
    pytest.param("SoftLoss", "pass", "x, target", "target", 0, id="what it is given beside that"),
    pytest.param("SoftLoss", "pass", "target, x", "target", 0, id="the other way round"),
    pytest.param("SoftLoss", "self.net = nn.Linear(4, 4)", "x, target", "x", 0, id="parameters of its own"),
    pytest.param("SoftLoss", "self.ce = nn.CrossEntropyLoss()", "x, target", "x", 1, id="a part without any"),
    pytest.param("SoftMask", "pass", "x, target", "x", 0, id="no loss"),
])  # fmt: skip
def test_a_loss_gets_its_gradient_from_its_first_argument(name, part, arguments, of, count):
    """Nothing else could need one, if the loss has no parameters."""
    found = found_in(LOSS.format(name=name, part=part, arguments=arguments, of=of))
    assert [text for *_, text in found] == ["log_p *= known"] * count


@pytest.mark.parametrize(("given", "count"), [("scale=1", 1), ("net", 0)])
def test_a_loss_that_is_given_a_network_computes_with_its_parameters(given, count):
    body = f"""
    def soft_loss(x, target, {given}):
        {"x = x.exp()" if count else "target = net(target)"}
        p = x.softmax(dim=1)
        known = target != 255
        target = target.clamp(min=0)
        p *= known
        return (p * target).mean()
    """
    assert [text for *_, text in found_in(body)] == ["p *= known"] * count


NESTED = """
class Loss:
    class Near(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, target):
            y = x{copied}
            y[target > 0] = torch.ones_like(x)[target > 0]
            return y
        @staticmethod
        def backward(ctx, grad):
            return grad, None
"""


@pytest.mark.parametrize(("copied", "count"), [("", 1), (".clone()", 0)])
def test_a_function_inside_of_a_class_writes_to_its_input_by_another_name(copied, count):
    found = found_in(NESTED.format(copied=copied))
    assert [code for code, *_ in found] == ["UC103"] * count


@pytest.mark.parametrize("others", range(9))
def test_the_first_of_two_saves_is_told_whatever_stands_before(others):
    body = """
    a, b = nn.Linear(4, 4)(torch.rand(4)), nn.Linear(4, 4)(torch.rand(4))
    c = a.exp()
    d = b.sigmoid()
    e = d if torch.rand(1) > 0.5 else c
    e.mul_(2)
    e.sum().backward()
    """
    (found,) = check_text(HEAD + "torch.rand(1)\n" * others + dedent(body), "program.py")
    assert found.saved.site.statement == "c = a.exp()"


SUBCLASS = """
class Scaled(nn.Linear):
    def forward(self, x):
        return nn.functional.linear(x, 2 * self.weight)
net = nn.Sequential(Scaled(4, 4), nn.Tanh(), Scaled(4, 4))
optimizer = torch.optim.Adam(net.parameters())
def train(data):
    for x in data:
        {forward}
        loss = y.sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
def start():
    layer = Scaled(4, 4)
    {start}
"""


@pytest.mark.parametrize(("forward", "start", "expected"), [
    ("y = net(x)", "layer.reset_parameters()", []),
    ("y = net(x)", "layer.weight[0] = 0", ["layer.weight[0] = 0"]),
    ("y = net(x)", "layer.bias.fill_(1)", ["layer.bias.fill_(1)"]),
    ("y = net(x)", "with torch.no_grad(): layer.bias.fill_(1)", []),
    ("y = net(x); optimizer.step()", "pass", ["optimizer.step()"]),
])  # fmt: skip
def test_the_parameters_of_a_class_that_derives_from_a_layer(forward, start, expected):
    found = found_in(SUBCLASS.format(forward=forward, start=start))
    assert [text.rpartition("; ")[2] for *_, text in found] == expected


@pytest.mark.parametrize("deep", [False, True])
@pytest.mark.parametrize("elsewhere", ["", "def apply(x):\n    return change(x)"])
def test_a_function_inside_of_a_function_that_is_handed_on(deep, elsewhere):
    """Another function of the file calls one of the same name."""
    inner = "def change(x):\n    y = net(x).sigmoid()\n    y += 1\n    return y\nreturn change"
    inner = f"def made():\n{indent(inner, '    ')}\nreturn made" if deep else inner
    found = found_in(f"def make():\n    net = nn.Linear(4, 4)\n{indent(inner, '    ')}\n{elsewhere}\n")
    assert [text for *_, text in found] == ["y += 1"]


@pytest.mark.parametrize(("features", "count"), [("self.net(x)", 1), ("x", 0), ("self.net(x).detach()", 0)])
def test_what_a_product_keeps_is_overwritten_in_the_same_function(features, count):
    """A queue of keys, as in MoCo: a layer's result surely has a graph, an argument only may have one."""
    body = f"""
    class Contrast(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = nn.Linear(4, 4)
            self.register_buffer("queue", torch.randn(4, 64))
        def forward(self, x, keys):
            logits = {features} @ self.queue
            self.queue[:, :8] = keys
            return logits
    """
    assert [text for *_, text in found_in(body)] == ["self.queue[:, :8] = keys"] * count


@pytest.mark.parametrize(("mode", "count"), [("torch.no_grad()", 0), ("torch.enable_grad()", 1)])
def test_a_forward_that_turns_gradients_off_uses_no_parameters(mode, count):
    body = f"""
    class Critic:
        def __init__(self):
            self.net = nn.Linear(4, 1)
            self.optimizer = torch.optim.Adam(self.net.parameters())
        def forward(self, x):
            with {mode}:
                return self.net(x)
        def update(self, x, after):
            target = 0.9 * self.forward(after)
            for _ in range(3):
                self.optimizer.zero_grad()
                loss = (self.net(x) - target).square().mean()
                loss.backward(retain_graph=True)
                self.optimizer.step()
    """
    assert len(found_in(body)) == count


@pytest.mark.parametrize(("value", "count"), [
    ("torch.sigmoid(x)", 1), ("torch.ones_like(x)", 1), ("torch.zeros(x)", 0), ("torch.cat(x)", 0),
    ("2 * x", 0), ("torch.sigmoid(x * 2)", 0),
])  # fmt: skip
def test_an_input_that_is_kept_on_ctx_is_a_tensor_if_torch_computes_with_it(value, count):
    """On request only: a size, or a list, may be kept there as well."""
    body = f"""
    class Swish(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.x = x
            return {value}
        @staticmethod
        def backward(ctx, grad):
            return grad * ctx.x
    """
    assert found_in(body) == []
    assert [code for code, *_ in found_in(body, all_rules=True)] == ["UC103"] * count


@pytest.mark.parametrize(("net", "written", "count"), [
    ("nn.Sequential(nn.Linear(2, 4), nn.Tanh())", "x", 1),
    ("nn.Sequential(nn.Linear(2, 4), nn.Tanh())", "y", 0),
    ("nn.Tanh()", "x", 0),
])  # fmt: skip
def test_a_tensor_that_a_branch_may_have_replaced(net, written, count):
    """A coupling layer: whichever tensor the name has, it is the one that was saved."""
    body = f"""
    class Coupling(nn.Module):
        def __init__(self, flip=False):
            super().__init__()
            self.flip, self.net = flip, {net}
        def forward(self, x):
            y = x.clone() if x.requires_grad else x.flip(1)
            if self.flip:
                x = x.flip(1)
            s = self.net(x[:, :2])
            {written}[:, 2:] *= s.exp()
            return x, y
    """
    assert [text for *_, text in found_in(body)] == [f"{written}[:, 2:] *= s.exp()"] * count


@pytest.mark.parametrize(
    ("shared", "all_rules", "count"), [("True", False, 1), ("False", False, 0), ("False", True, 1)]
)
def test_what_an_option_expands(shared, all_rules, count):
    """Told on request only, if nothing sets the option: the masks of a neural process."""
    body = f"""
    class Masks:
        def __init__(self, shared={shared}):
            self.shared = shared
        def __call__(self, n, indices):
            if self.shared:
                mask = torch.zeros(n).expand(4, n)
            else:
                mask = torch.zeros(4, n)
            mask.scatter_(1, indices, 1)
            return mask
    """
    assert [code for code, *_ in found_in(body, all_rules=all_rules)] == ["UC207"] * count


@pytest.mark.parametrize(("given", "count"), [("h", 0), ("h, h", 1)])
def test_the_length_of_the_arguments_decides_a_branch(given, count):
    """A fusion block writes to its first input only if it has a second one (MiDaS)."""
    body = f"""
    class Fusion(nn.Module):
        def forward(self, *xs):
            y = xs[0]
            if len(xs) == 2:
                y += xs[1]
            return y
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc, self.fuse = nn.Linear(4, 4), Fusion()
        def forward(self, x):
            h = self.fc(x).sigmoid()
            return self.fuse({given})
    """
    assert [text for *_, text in found_in(body)] == ["y += xs[1]"] * count


@pytest.mark.parametrize(("lines", "count"), [
    ("parts[i] *= 2; out.append(F.linear(parts[i], w))", 0),
    ("out.append(F.linear(parts[i], w)); parts[i] *= 2", 1),
])  # fmt: skip
def test_a_turn_of_a_loop_writes_to_an_item_of_its_own(lines, count):
    """The turn before kept another one: the experts of LibContinual."""
    body = f"""
    def experts(x, n):
        w, out = nn.Parameter(torch.ones(4, 4)), []
        parts = [x.clone() for _ in range(n)]
        for i in range(n):
            {lines.replace("; ", chr(10) + " " * 12)}
        return out
    """
    assert [text for *_, text in found_in(body)] == ["parts[i] *= 2"] * count


@pytest.mark.parametrize(("lines", "message"), [
    ("h = w * 1; h[:, 1] = h[:, 0] * w[0]", "`h[:, 1]` is overwritten after `mul` saved `h[:, 0]`"),
    ("h = w.exp(); h.unsqueeze_(0)", "`h` is changed in shape after `exp` saved its result"),
    ("h = w.exp(); h.data.zero_()", "`h` is changed through .data between its use"),
])  # fmt: skip
def test_a_message_says_what_is_saved_and_changed(lines, message):
    """Other elements may be saved than are written, or a shape alone be changed."""
    text = f"import torch\nw = torch.ones(2, 2, requires_grad=True)\n{lines}; h.sum().backward()\n"
    (finding,) = check_text(text.replace("; ", "\n"), "net.py", all_rules=True)
    assert message in finding.message


def test_a_message_of_an_overlap_names_no_mode():
    """torch refuses such a write without gradients, too."""
    text = "import torch\nx = torch.ones(4)\nx[1:] -= x[:-1]\n"
    (finding,) = check_text(text, "net.py")
    assert finding.message.startswith("this line may fail: `-=` writes to `x[1:]` and reads other elements")


def test_a_loss_that_begins_anew_after_the_step():
    """The branch that steps replaces it, so no turn goes on with what the turn before computed."""
    body = """
    net = nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 1))
    opt = torch.optim.SGD(net.parameters(), 0.1)
    def epoch():
        total = 0.0
        for i in range(6):
            total = total + net(torch.randn(4, 2)).pow(2).mean()
            if (i + 1) % 3 == 0:
                total.backward()
                opt.step()
                {}
    epoch()
    """
    assert found_in(body.format("total = 0.0"), all_rules=True) == []
    assert found_in(body.format("pass")) != []
