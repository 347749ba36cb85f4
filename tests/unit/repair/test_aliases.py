"""Who else may hold the tensor that a name stands for."""

from __future__ import annotations

import pytest
from rewriting import marked

from unclobber.repair._syntax import root_place
from unclobber.repair.cures._aliases import held_elsewhere

ALONE = {
    "computed here": """
        def f(x):
            h = x.exp()
            h += 1  # <-
            return h
    """,
    "a module's result": """
        def f(self, x):
            h = torch.sigmoid(self.fc(x))
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
    "in a loop": """
        h = torch.zeros(3)
        for x in xs:
            h = cell(x, h)
            h *= 2  # <-
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
}

HELD = {
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
    source, statement = marked(text)
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
