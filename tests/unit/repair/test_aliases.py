"""Who else may hold the tensor that a name stands for."""

from __future__ import annotations

from textwrap import dedent

import pytest
from rewriting import marked

from unclobber.repair._syntax import root_place
from unclobber.repair.fixers import FIXERS
from unclobber.repair.fixers._aliases import held_elsewhere, is_element

ALONE = {
    "computed here": """
        def f(x):
            h = x.exp()
            h += 1  # <-
            return h
    """,
    "computed along the last dimension": """
        def f(x):
            h = torch.softmax(x, -1)
            h += 1  # <-
            return h
    """,
    "computed along the last dimension by a method": """
        def f(x):
            h = x.softmax(-1)
            h += 1  # <-
            return h
    """,
    "computed along the dimension 1, which equals True": """
        def f(x):
            h = torch.softmax(x, 1)
            h += 1  # <-
            return h
    """,
    "read for its values": """
        def f(self, x):
            h = torch.sigmoid(self.fc(x))
            y = torch.cat([x, h[:1] * 2]) + h.mean(dim=0, keepdim=True)
            print(h.shape, f"{h}", len(h), float(h[0].sum()))
            h *= 2  # <-
            return h, y
    """,
    "written before": """
        def f(x):
            h = F.linear(x, w)
            h[0] = 1
            h.mul_(2)
            x.add_(h)
            h += 1  # <-
            return h
    """,
    "put into another tensor in place": """
        def f(x, at):
            h = torch.relu(x)
            total = torch.zeros_like(x).index_add_(0, at, h)
            h /= 2  # <-
            return h, total
    """,
    "bound anew in each turn": """
        h = torch.zeros(3)
        for x in xs:
            h = torch.tanh(cell(x, h))
            h *= 2  # <-
            bank.append(h)
        use(h)
    """,
    "given away afterwards": """
        def f(x):
            h = x.exp()
            h += 1  # <-
            bank.append(h)
            return h
    """,
    "a parameter that is bound anew": """
        def f(x):
            x = x.exp()
            x += 1  # <-
            return x
    """,
    "another function's name": """
        def f(x):
            h = -x
            g = lambda h: bank.append(h)
            h += 1  # <-
            return h, g
    """,
    "one of two": """
        def f(x):
            h, c = x * 2, g(x)
            h += 1  # <-
            return h, c
    """,
    "a result of torch's own module": """
        class Net(nn.Module):
            def __init__(self):
                self.lin, self.act = nn.Linear(4, 4), nn.LeakyReLU(0.2)
            def forward(self, x):
                h = self.act(self.lin(x))
                h *= 2  # <-
                return h
    """,
    "given to torch's own module": """
        act = nn.Sigmoid()
        head: nn.Module = nn.Linear(4, 4)
        h = act(x)
        y = head(h)
        h *= 2  # <-
    """,
    "a result of a sequence of torch's own modules": """
        h = nn.Sequential(nn.Dropout(), nn.ReLU(inplace=True), nn.Softmax(dim=1))(x)
        h *= 2  # <-
    """,
}

_MODULES = {
    "that returns its input": "self.act = nn.Identity()",
    "that returns its input in eval": "self.act = nn.Dropout()",
    "that returns a view": "self.act = nn.Flatten()",
    "that writes to its input": "self.act = nn.ReLU(inplace=True)",
    "that may write to its input": "self.act = nn.ReLU(inplace)",
    "that may be given as inplace": "self.act = nn.ReLU(**options)",
    "of the user's": "self.act = layers.Sigmoid()",
    "of the user's, at its end": "self.act = nn.Sequential(nn.Linear(4, 4), layers.Sigmoid())",
    "of the user's, before torch's": "self.act = nn.Sequential(layers.Keeps(), nn.Sigmoid())",
    "that is chosen": "self.act = nn.Sigmoid(); net.act = activation",
    "with a hook": "self.act = nn.Sigmoid(); self.act.register_forward_hook(print)",
}
HELD = {
    "what takes its memory over": """
        def f(x, y):
            h = torch.relu(x)
            y.set_(h)
            h /= 2  # <-
            return h
    """,
    "what a method of the user's may keep": """
        def f(x, bag):
            h = torch.relu(x)
            bag = bag.keep_(h)
            h /= 2  # <-
            return h
    """,
    **{
        f"a result of a module {kind}": f"""
            class Net(nn.Module):
                def __init__(self):
                    {built}
                def forward(self, x):
                    h = self.act(x)
                    h *= 2  # <-
                    return h
        """
        for kind, built in _MODULES.items()
    },
    "a method under a module's name": """
        class Net(nn.Module):
            def act(self, x):
                h = self.act(x)
                h *= 2  # <-
                return h
        net.act = nn.Sigmoid()
    """,
    "computed with options": """
        h = torch.exp(x, **options)
        h *= 2  # <-
    """,
    "a module's result": """
        def f(self, x):
            h = self.fc(x)
            h *= 2  # <-
            return h
    """,
    "a function's result": """
        def f(x):
            h = same(x)
            h *= 2  # <-
            return h
    """,
    "given to a module": """
        def f(self, x):
            h = torch.sigmoid(x)
            y = self.head(h)
            h *= 2  # <-
            return h, y
    """,
    "one of several results": """
        def f(x):
            h, c = lstm(x)
            h += 1  # <-
            return h
    """,
    "a chained target": """
        def f(self, x):
            self.std = s = x.exp()
            s += 1  # <-
            return s
    """,
    "a list by +=": """
        def f(x, hist):
            h = x.exp()
            hist += [h]
            h *= 2  # <-
            return h
    """,
    "a generator's caller": """
        def f(x):
            h = x.exp()
            yield h
            h *= 2  # <-
            yield h
    """,
    "a comprehension": """
        def f(x):
            h = x.exp()
            kept = [t for t in (h,)]
            h *= 2  # <-
            return h, kept
    """,
    "a lambda's default value": """
        def f(x):
            h = x.exp()
            probe = lambda p=h: p.sum()
            h *= 2  # <-
            return h, probe
    """,
    "an object": """
        def f(x):
            h = x.exp()
            kept = Trace(h)
            h *= 2  # <-
            return h, kept
    """,
    "dict()": """
        def f(x):
            h = x.exp()
            kept = dict(w=h)
            h *= 2  # <-
            return h, kept
    """,
    "a set": """
        def f(x):
            h = x.exp()
            seen.add(h)
            h *= 2  # <-
            return h
    """,
    "a walrus beside it": """
        def f(x):
            kept = [(h := x.exp())]
            h *= 2  # <-
            return h, kept
    """,
    "a view by a function": """
        def f(x):
            h = x.exp()
            part = torch.narrow(h, 0, 0, 1)
            h *= 2  # <-
            return h, part
    """,
    "what may be the argument itself": """
        def f(x):
            h = F.dropout(x, 0.5)
            h *= 2  # <-
            return h
    """,
    "what was written in place": """
        def f(x):
            h = F.relu(x, inplace=True)
            h *= 2  # <-
            return h
    """,
    "what was written in place, as a bare True says": """
        def f(x):
            h = torch.relu(x, True)
            h *= 2  # <-
            return h
    """,
    "a module of the user's that is called like an operation": """
        def f(net, x):
            h = net.relu(x)
            h *= 2  # <-
            return h
    """,
    "a function of the user's that is called like an operation": """
        import mine
        def f(x):
            h = mine.exp(x)
            h *= 2  # <-
            return h
    """,
    "another function": """
        h = x.exp()
        def f():
            bank.append(h)
        f()
        h *= 2  # <-
        use(h)
    """,
    "a parameter": """
        def f(x):
            x += 1  # <-
            return x
    """,
    "a parameter that is bound anew in one branch": """
        def f(x):
            if a:
                x = x.exp()
            x += 1  # <-
            return x
    """,
    "an attribute": """
        def f(self):
            self.h = g()
            self.h += 1  # <-
    """,
    "another name": """
        def f(x):
            h = x.exp()
            old = h
            h += 1  # <-
            return h, old
    """,
    "a view of it": """
        def f(x):
            h = x.exp()
            row = h[0]
            h += 1  # <-
            return h, row
    """,
    "it is a view": """
        def f(x):
            h = x.view(-1)
            h += 1  # <-
            return h
    """,
    "it is a part": """
        def f(x):
            a, b = x.chunk(2)
            a += 1  # <-
            return a
    """,
    "a dictionary": """
        def f(x, features):
            h = x.exp()
            features["h"] = h
            h += 1  # <-
            return h
    """,
    "a list": """
        def f(x):
            h = x.exp()
            bank.append(h)
            h += 1  # <-
            return h
    """,
    "a list, in the turn before": """
        h = torch.zeros(3)
        for x in xs:
            h += x  # <-
            bank.append(h)
        use(h)
    """,
    "an element of a container": """
        for h in xs:
            h += 1  # <-
            use(h)
    """,
    "what an in-place call gave back": """
        def f(x):
            h = x.exp_()
            h += 1  # <-
            return h
    """,
    "a global": """
        def f():
            h.add_(1)  # <-
            return h
    """,
}


def held(text):
    source, statement = marked(
        "import torch\nfrom torch import nn\nimport torch.nn.functional as F\n" + dedent(text)
    )
    target = getattr(statement, "target", None)
    place = root_place(statement.value if target is None else target)
    assert place is not None
    return held_elsewhere(source, statement, place)


@pytest.mark.parametrize("text", ALONE.values(), ids=ALONE)
def test_its_name_alone_holds_it(text):
    assert not held(text)


@pytest.mark.parametrize("text", HELD.values(), ids=HELD)
def test_others_may_hold_it(text):
    assert held(text)


KEPT = [
    "for p in (self.a, self.b)",
    "for p in [a, *rest]",
    "for p in self.noise",
    "for p in outs[1:]",
    "for i, p in enumerate((self.a, self.b))",
    "for (i, p), q in zip(enumerate(self.a), qs)",
    "for k, p in fast.items()",
    "for p in fast.values()",
    "for p, q in zip(net.parameters(), other)",
    "for name, p in net.named_buffers()",
]
GIVEN = [
    "for p in xs",
    "for p, q in loader",
    "for p, q in self.loader",
    "for i, (p, q) in enumerate(self.loader)",
    "for q, p in zip(self.noise, loader)",
    "for p in [x.exp(), -x]",
    "for p in draw()",
]
BODY = "    {}\n    p.copy_(p * 2)\n    use(p.add_(1))\n    use(p)\n"


def in_loop(header, statement):
    text = f"import torch\ndef f(self, x):\n    {header}:\n" + BODY.replace("    ", "        ")
    return marked(text.format(statement + "  # <-"))


@pytest.mark.parametrize("statement", ["p.normal_()", "p += 1", "p[0] = 1", "p.copy_(x)", "use(p.add_(1))"])
@pytest.mark.parametrize("header", KEPT)
def test_no_new_tensor_for_a_loops_variable_over_what_is_held(proposed, header, statement):
    """The object, the container or the other name would keep its old values."""
    source, at = in_loop(header, statement)
    for name in ("out-of-place", "scatter", "clone-target"):
        assert proposed(FIXERS[name], "UC101", source.text, write=source.code(at)) == []


@pytest.mark.parametrize("header", GIVEN)
def test_a_new_tensor_for_what_a_loop_alone_holds(proposed, header):
    """A data loader's batches are the loop's, as far as the text shows."""
    source, at = in_loop(header, "p += 1")
    assert source.text.replace("p += 1", "p = p + 1") in proposed(
        FIXERS["out-of-place"], "UC101", source.text, write="p += 1"
    )
    assert not is_element(source, at, at.target)


def test_a_loops_variable_that_is_bound_again_is_no_element():
    """What the loop computes from the element is its own."""
    for bound, element in (("p = p.exp()", False), ("p = p.view(-1)", True)):
        source, at = marked(f"import torch\nfor p in (a, b):\n    {bound}\n    p += 1  # <-\n")
        assert is_element(source, at, at.target) is element
