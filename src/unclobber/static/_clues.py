"""Clues: each scores one place of a tree by a fact of a pasted traceback."""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

from ..model import or_default
from ..syntax import parse_expression
from ._engine import NOT_TRAINED
from ._pasted import Pasted, PastedFrame, PastedKind
from ._rules import CheckRule, Suspicion
from ._sites import WriteSite
from ._tree import FramePlace, SourceTree
from ._values import Grad

UPDATES = frozenset({"step", "load", "broadcast"})
RULES: dict[PastedKind, tuple[CheckRule, ...]] = {
    "saved": (CheckRule.SAVED, CheckRule.MODULE, CheckRule.STEP, CheckRule.LOADED, CheckRule.BACKWARD_SAVED),
    "leaf": (CheckRule.LEAF, CheckRule.EMBEDDED),
    "leaf_view": (CheckRule.LEAF_VIEW, CheckRule.LEAF),
    "multi_view": (CheckRule.SEVERAL, CheckRule.FUNCTION_VIEW, CheckRule.NO_GRAD_VIEW),
    "inference": (CheckRule.INFERENCE,),
    "expanded": (CheckRule.EXPANDED,),
    "overlap": (CheckRule.OVERLAP, CheckRule.SELF_OVERLAP),
    "second_backward": (CheckRule.TWICE,),
}
_SIDE = re.compile(
    r"(^|[/_])(tests?|eval\w*|demo|setup|infer\w*|datasets?|data|mixup|augment\w*|transforms?|third.party|"
    r"external|vendor|visual\w*|plot\w*)([/_.]|$)",
    re.I,
)
"""Parts of paths whose code is mostly not the program's own training."""
_OWN_NODES = {"+=": "Add", "-=": "Sub", "*=": "Mul", "/=": "Div", "[...] =": "CopySlices"}
_BINARY = {ast.Add: "Add", ast.Sub: "Sub", ast.Mult: "Mul", ast.Div: "Div", ast.Pow: "Pow", ast.MatMult: "Mm"}
_ACTIVATIONS = {"Relu", "Sigmoid", "Tanh", "Softmax", "LeakyRelu", "Elu", "Hardtanh"}
_LINE = re.compile(
    r"(?:[^\s(]*/blob/[^/\s]+/)?([\w./-]+\.py)\W*(?:\bL|lines?\b\W*)(\d+)(?:\s?-\s?L?(\d+))?", re.I
)
"""A file and line in words, or in a link: `net.py#L12-L14`, `net.py, line 12`."""

_QUOTED = re.compile(r'File ".*\n.*|^.*:\d+: \w*Warning: .*\n(?:(?! {2}).*\n){0,3} {2}(?!File).*', re.M)
"""A frame, or a warning, with the line of the source that Python prints below it."""


class Clue(NamedTuple):
    """Points for or against a place, and the reason in words; empty if it needs none."""

    points: float
    reason: str = ""
    certainty: int = 0  # -1 if a fact contradicts the place, which is never confident then; 1 weighs that up


class Context:
    """The facts and the tree, with the frames found in it."""

    def __init__(self, pasted: Pasted, tree: SourceTree) -> None:
        """Find the frames in the tree."""
        self.pasted = pasted
        self.tree = tree
        self.needed: list[FramePlace] = []
        for scope, at in tree.located(pasted.frames):
            near = [a for a, name, *_ in scope.calls if a == at or (name == "backward" and abs(a - at) < 13)]
            self.needed += [FramePlace(scope, min(near, key=lambda a: abs(a - at), default=at))]
        self.saved = tree.located(pasted.forward)
        self.filled = {site.path for site in tree.sites if site.kind == "method" and not site.is_off}
        """Files with a line that fills a tensor, whose version is then like a parameter's."""
        self.retains = any("retain_" in line for file in tree.files.values() for line in file.lines)
        frames = *pasted.forward, *pasted.frames
        self.own = [frame for frame in frames if not frame.is_library or tree.located([frame])]
        """The program's own frames, those of the failure last."""
        self.words = _QUOTED.sub("", pasted.text)
        self.said = _LINE.findall(self.words)
        self.quotes = re.sub(r"\s", "", self.words)
        files = [tree.files_of(PastedFrame(name, 0)) for name in re.findall(r"[\w./-]+\.py\b", self.words)]
        self.folders = {os.path.dirname(file[0].scopes[0].path) for file in files if len(file) == 1}

    def suspicions(self, site: WriteSite) -> list[Suspicion]:
        return self.tree.suspicions.get((site.path, site.line), [])


def _kind(site: WriteSite, context: Context) -> Iterator[Clue]:
    """Parameters are changed by steps and loads, activations by everything else."""
    if (pasted := context.pasted).kind != "saved":
        return
    if pasted.is_guessed:
        yield Clue(0.0, "", -1)
    rules = {suspicion.rule for suspicion in context.suspicions(site)}
    is_update = site.kind in UPDATES or CheckRule.LOADED in rules
    if pasted.is_parameter is None:
        yield Clue(1.5 if site.kind == "step" else 0.0)
    elif pasted.is_parameter:
        reason = f"version {pasted.expected} when it was saved: written before, as parameters are by steps"
        filled, saved = site.path in context.filled, CheckRule.SAVED in rules
        yield Clue(4.0 - (site.kind == "load"), reason, -filled) if is_update else Clue(0.0, "", saved - 1)
    else:
        yield Clue(-6.0, "", -1) if is_update else Clue(2.0)
    if site.how == "forward":
        is_norm, is_vector = "BatchNorm" in pasted.saver, len(pasted.shape or ()) == 1 and not pasted.node
        reason = "a buffer of a norm: each forward of data parallel training sends it again"
        yield Clue(2.0 + 2.0 * is_norm if is_norm or is_vector else -4.0, reason)


def _order(site: WriteSite, context: Context) -> Iterator[Clue]:
    """The write comes between the save and the backward; each call of a module has activations of its own."""
    if site.kind == "backward":
        yield from _freed(site, context)
        return
    for depth, frame in enumerate(reversed(context.needed)):
        reached = context.tree.lines_in(site, frame.scope)
        if lines := [line for line in reached if line != frame.line or site.line == line]:
            yield _in_order(lines, frame, depth, site, context)
            yield Clue(-0.3 * min(reached[line] for line in lines))
            return
    if context.needed and site.kind == "step":
        yield Clue(-4.5, "", -1)  # of another loop
    for depth, (scope, line) in enumerate(reversed(() if context.needed else context.saved)):
        reached = context.tree.lines_in(site, scope)
        if positions := [p for p in reached if p != line]:
            if max(positions) > line:
                points = 4.0 - 0.5 * depth if site.kind in UPDATES or not reached[max(positions)] else 1.0
                yield Clue(points, f"it follows the save at line {line} of the pasted frames")
            return


def _in_order(lines: list[int], frame: FramePlace, depth: int, site: WriteSite, context: Context) -> Clue:
    """Return the points of a write for its lines in the function of a frame."""
    scope, needed = frame
    saved = {id(place.scope): place.line for place in context.saved}.get(id(scope), needed)
    around = [(first, last) for first, last in scope.loops if first <= needed <= last]
    looped = any(first <= line <= last for first, last in around for line in lines)
    before = [line for line in lines if line < needed]
    if site.kind not in UPDATES:
        return Clue(0.7, "in a function that the frames reach") if before else Clue(0.0)
    if saved < needed and any(saved < line for line in before):
        return Clue(5.0, f"it lies between the save in line {saved} and the backward in line {needed}")
    if before and saved == needed:
        others = [line for line, name, *_ in scope.calls if name == "step" and line < needed]
        nearest = bool(others) and max(before) >= max(others)
        backward_between = any(name == "backward" and line < max(before) for line, name, *_ in scope.calls)
        points = 3.0 - 0.4 * depth + 0.8 * nearest + 0.7 * backward_between
        return Clue(points, f"it precedes the backward in line {needed}")
    # A forward mostly runs again before that backward.
    certainty = 0 if context.suspicions(site) or site.kind == "broadcast" else -1
    if certainty and not context.retains:
        return Clue(-4.0, "", certainty)  # and no graph of the turn before is left
    clue = Clue(1.0 - 0.4 * depth, "it precedes the backward of the next turn", certainty)
    return clue if looped else Clue(-1.0, "", certainty)


def _freed(site: WriteSite, context: Context) -> Iterator[Clue]:
    """A backward frees a graph for the one that failed: itself in the turn before, or one before it."""
    if not context.needed:
        yield Clue(1.0 + 0.5 * bool(site.loops))
    text = "".join(context.tree.files[site.path].lines[site.line - 1 : site.end_line])
    for scope, line in () if re.search(r"retain_graph\s*=\s*True", text) else context.needed[-1:]:
        if site.path == scope.path and site.line == line:
            yield Clue(5.0, "the backward of the turn before frees the graph") if site.loops else Clue(3.0)
        elif site.path == scope.path and scope.line <= site.line < line:
            yield Clue(4.5, f"it frees the graph before the backward in line {line}")


def _refused(site: WriteSite, context: Context) -> Iterator[Clue]:
    """torch refuses a write to a leaf or view at the line itself."""
    kind, places = context.pasted.kind, context.needed
    if kind in ("saved", "second_backward", None):
        return
    last = places[-1] if places and context.pasted.is_refused else None
    if last is not None and last.scope.path == site.path and site.line <= last.line <= site.end_line:
        points = 3.0 if context.pasted.is_cut and not site.how else 14.0
        yield Clue(points, "the last frame of the tree is this line")
    if known := [each.confidence for each in context.suspicions(site) if each.rule in RULES[kind]]:
        yield Clue(3.5 + 0.5 * max(known), "the written tensor is such a leaf or view, by the source")


def _suspected(site: WriteSite, context: Context) -> Iterator[Clue]:
    """The interpreter has followed a save and a write of the same tensor."""
    pasted, known = context.pasted, context.suspicions(site)
    if any(each.freed and each.freed.line == site.line for each in known):
        yield Clue(2.5, "it frees a graph that is needed again, by the source")
    if pasted.kind != "saved":
        return
    if any(each.rule is CheckRule.RETAINED for each in known):
        yield Clue(2.5, "a backward before it keeps its graph, by the source")
    for each in known:
        if each.rule in RULES["saved"]:
            points = max(1.0 + each.confidence, 0.5)
            yield Clue(points, "a saved tensor is overwritten, by the source")
            if pasted.node and each.rule is not CheckRule.STEP:
                if _is_operation(each.operation, pasted.node):
                    yield Clue(points, f"{pasted.node} is what `{each.operation}` makes")
                elif each.role == "result":
                    yield Clue(-points)
            if each.needed and context.needed and each.needed.line == context.needed[-1].line:
                yield Clue(2.0, "the pasted backward needs it, by the source")
            return
    for each in known:
        if each.rule is CheckRule.UNSEEN and each.role != "given":
            yield Clue(2.0, "what made or read the target may have saved it, by the source")
            if each.role and pasted.node in _ACTIVATIONS:
                yield Clue(2.0, f"it overwrites what a module returns, which {pasted.node} saves")


def _written(site: WriteSite, context: Context) -> Iterator[Clue]:
    """The interpreter knows whether the target is a tensor."""
    run = context.tree.runs.get(site.path)
    if run is None or context.pasted.kind != "saved" or site.kind in (*UPDATES, "module"):
        return
    counted = re.compile(rf"(?<![\w.]){re.escape(site.target)} *([-+]?)= *\d+ *(#|$)").search
    lines = context.tree.files[site.path].lines
    if counted(lines[site.line - 1]) and any(match and not match[1] for match in map(counted, lines)):
        yield Clue(-4.0)  # a number, as `self.n += 1` where `self.n = 0` makes it
        return
    if (value := run.written.get(site.line)) is None:
        # A custom Function's backward isn't followed as others are.
        yield Clue(-1.5 * (site.kind != "method" and not site.function.endswith(".backward")))
        return
    is_long = context.pasted.dtype.endswith(("LongTensor", "IntTensor"))
    # What is written after a save has a gradient, whatever its name says.
    is_free = not context.suspicions(site)
    if (value.integer and is_free) or re.search(r"(^|_)(idx|index|indices|ids?)$", site.target):
        yield Clue(4.0 if is_long else -2.0, "an index, as the dtype says")
    elif is_long or (value.grad == Grad.NO and is_free):
        yield Clue(-2.0)


def _bumps(site: WriteSite, context: Context) -> Iterator[Clue]:
    """The number of writes since the save."""
    if not (bumps := context.pasted.bumps):
        return
    # `x[i] += v` counts once if `x` is a list.
    counts = {site.bumps, 1} if re.fullmatch(r"[\w\s+-]+", site.index) else {site.bumps}
    if bumps > 2 and site.loops:
        of_list = re.match(r"\s*\[", _made(site, context))  # each turn writes to another tensor
        reason = f"{bumps} bumps: a {'step' if site.kind == 'step' else 'write'} in a loop"
        yield Clue(-1.0) if of_list else Clue(2.5, reason)
    elif bumps in counts:
        yield Clue(0.7, f"{bumps} bumps: what `{site.how}` counts" if bumps > 1 else "")
    elif bumps < min(counts) or not site.loops:
        near = [(s.function, s.target) for s in context.tree.files[site.path].sites]
        yield Clue(-2.0, "", -(near.count((site.function, site.target)) == 1))


def _node(site: WriteSite, context: Context) -> Iterator[Clue]:
    """The name of the node that made the tensor: the saver's, or the last writer's."""
    if not (node := context.pasted.node) or context.pasted.kind != "saved" or site.kind in UPDATES:
        return
    is_method = site.kind == "method" and _is_operation(site.how.rstrip("_"), node)
    if is_own := is_method or _OWN_NODES.get(site.how) == node:
        yield Clue(1.5, f"{node} is what `{site.how}` leaves")
    is_own |= any(_is_operation(s.operation, node) or s.role == "returned" for s in context.suspicions(site))
    made = _made(site, context)
    if _is_operation(made, node) or _operator(made) == node:
        yield Clue(4.0, f"{node}: the target comes from `{made.strip()[:40]}`")
    elif not is_own and node in (*_ACTIVATIONS, *_BINARY.values()):
        yield Clue(0.0, "", -1)  # the target isn't known to be its result


def _made(site: WriteSite, context: Context) -> str:
    """Return the text that made the target, the newest before the write; through one attribute of a class."""
    file = context.tree.files[site.path]
    scope = file.scope(site.line)
    if not (name := re.escape(site.target)):
        return ""
    pattern = rf"(?<![\w.]){name}(?:\s*,[^=]*)?\s*=(?!=)(.*)|{name}\.append\((.*)|F?\.?relu_?\({name}\b"
    for line in range(site.line - 1, max(scope.line, site.line - 60), -1):
        if match := re.search(pattern, file.lines[line - 1]):
            text = match[1] or match[2] or match[0]
            if called := re.search(r"self\.(\w+)(\[[^]]*\])?\(", text):
                text += "  # " + _defined(called[1], file.lines)
            return text
    return ""


def _operator(text: str) -> str:  # Sub for `a - b`
    parsed = or_default(lambda: parse_expression(text.strip()), None)
    return _BINARY.get(type(parsed.op), "") if isinstance(parsed, ast.BinOp) else ""


def _defined(attribute: str, lines: list[str]) -> str:
    """Return the last module that an attribute is made of, or those that a loop puts into an empty list."""
    made = re.compile(rf"self\.{attribute}\s*=")
    at = next((at for at, line in enumerate(lines) if made.search(line)), len(lines))
    is_filled = "List()" in "".join(lines[at : at + 1])
    text = re.split(r"\n\s*(?:self\.\w+ *=|def |return\b)", "\n".join(lines[at : at + 12 + 8 * is_filled]))[0]
    text = text.replace("ConvModule(", "ReLU(")  # what one of mmcv ends with
    return " ".join(re.findall(r"(?:nn\.)?([A-Z]\w+)\(", text)[0 if is_filled else -1 :])


def _unlikely(site: WriteSite, context: Context) -> Iterator[Clue]:
    """Code that runs outside of training, or without gradients."""
    bare = site.function.rpartition(".")[2]
    off = NOT_TRAINED.search(bare) or bare == "__init__" or (bare == "step" and site.kind not in UPDATES)
    if off and context.pasted.kind == "saved" and site.kind != "module":
        yield Clue(-3.0)
    if _SIDE.search(site.path[len(os.path.commonpath(list(context.tree.files))) :]):
        yield Clue(-2.0)
    # What shares memory is refused without gradients, too.
    if site.is_off and context.pasted.kind not in ("expanded", "overlap"):
        yield Clue(-1.5 if context.pasted.kind == "saved" else -5.0)


def _network(site: WriteSite, context: Context) -> Iterator[Clue]:
    """An activation is written in a module's code, or in that of a Function."""
    if site.kind in (*UPDATES, "backward") or (context.pasted.kind or "").startswith("leaf"):
        return
    owner, _, bare = site.function.rpartition(".")
    methods = {scope.name for scope in context.tree.files[site.path].scopes}
    is_network = owner and bare != "__init__" and {f"{owner}.forward", f"{owner}.__call__"} & methods
    if is_network or site.kind == "module":
        yield Clue(1.5 + 0.7 * ("self." in _made(site, context)))


def _said(site: WriteSite, context: Context) -> Iterator[Clue]:
    """People quote the statement, link to its line, or name its class or function."""
    text = re.sub(r"\s", "", context.tree.files[site.path].lines[site.line - 1].partition("#")[0])
    changed = re.sub(r"^([^=]*?)([+\-*/])=(?=[^=])", r"\1=\1\2", text)  # what people change it to
    if len(text) >= 8 and (text in context.quotes or changed in context.quotes):
        yield Clue(3.0, "the text quotes this line")
    said = [(int(a), int(b or a)) for path, a, b in context.said if site.path.endswith(f"/{path}")]
    if any(first <= site.line <= last for first, last in said):
        yield Clue(3.0, "the text names this line", 1)
    if any(site.path.startswith(f"{folder}{os.sep}") for folder in context.folders):
        yield Clue(2.5, "the text names a file of its folder")
    names = [part for part in site.function.split(".") if re.search(r"[^\W_]_+[^\W_]|[a-z][A-Z]", part)]
    if any(re.search(rf"\b{name}\b", context.words) for name in names):
        yield Clue(2.5, f"the text names `{site.function}`")


def _training(site: WriteSite, context: Context) -> Iterator[Clue]:
    """Without frames: a step with a backward before and after it in one function."""
    if site.kind not in UPDATES or context.needed or context.saved or context.pasted.kind != "saved":
        return
    file = context.tree.files[site.path]
    scope = file.scope(site.line)
    backwards = [line for line, name, *_ in scope.calls if name.startswith("backward")]
    retains = re.search(r"retain_graph\s*=\s*(?!False)", "".join(file.lines[scope.line : scope.end_line]))
    if min(backwards, default=site.line) < site.line < max(backwards, default=site.line):
        # So it is in right programs, too, and which of several was run is not known.
        others = {each.path for each in context.tree.sites if each.kind == "step"} - {site.path}
        certainty = 0 if (not others or context.folders) and (retains or context.suspicions(site)) else -1
        yield Clue(2.0, "a backward precedes it, and another follows", certainty)
    elif backwards and site.line > max(backwards) and not (retains and len(backwards) == 1):
        yield Clue(-1.0, "", -1)  # only a graph that is kept for the next turn needs what it changes
    if retains:
        yield Clue(2.0, "the function retains a graph")


CLUES: tuple[Callable[[WriteSite, Context], Iterator[Clue]], ...] = (
    _kind, _order, _refused, _suspected, _written, _bumps, _node, _unlikely, _said, _training, _network,
)  # fmt: skip
"""Each yields points for one place; a new clue is one function here."""


def _is_operation(text: str, node: str) -> bool:  # `F.leaky_relu(x)` is LeakyRelu
    return node.replace("_", "").lower() in re.findall(r"[a-z]+", text.replace("_", "").lower())
