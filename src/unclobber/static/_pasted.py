"""The facts in a pasted traceback: torch's sentence, the frames of the failure, and those of the save."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal, NamedTuple

PastedKind = Literal[
    "saved", "leaf", "leaf_view", "multi_view", "inference", "expanded", "overlap", "second_backward"
]
_SENTENCES: dict[PastedKind, str] = {
    "saved": r"gradient computation has been modified|modified by an in-?place operation",
    "leaf_view": r"view of a leaf Variable that requires grad",
    "leaf": r"leaf Variable that requires grad|leaf variable has been moved into the graph interior",
    "inference": r"inplace update to inference tensor|inference tensors cannot be saved",
    "multi_view": r"is a view and (is being|its base or another view)|view (is the output|was created)",
    "expanded": r"more than one element of the written-to tensor",
    "overlap": r"input tensor and the written-to tensor",
    "second_backward": r"backward through the graph a second time",
}
_NUMBERS = re.compile(
    r"\[?(?P<dtype>torch\.[\w.]*Tensor|\w+Type)?\s*\[(?P<shape>[\d,\s]*)\]\]?,?\s*"
    r"(?:which is output (?P<output>\d+) of (?P<node>[\w:]+),?\s*)?is at version\s+(?P<version>\d+)[;,]?\s*"
    r"expected version\s+(?P<expected>\d+)"
)
_OUTPUT = re.compile(r"output (?P<output>\d+) of (?P<node>[\w:]+)", re.I)
_DETECTED = re.compile(r"Errordetectedin(\w+?Backward)")  # without blanks: terminals wrap words, too
_FORWARD = re.compile(r"Traceback of forward\s+call")
_END_OF_FORWARD = re.compile(r"Traceback \(most recent call last\)|Triggered internally|print_stack")
_LIBRARY = re.compile(r"(site|dist)-packages|[/\\]torch[/\\]|lib[/\\]python[\d.]+[/\\]|^<frozen|importlib")
_FRAME = re.compile(
    r'(?:File "|^[ \t>]*)(?P<path>[^"\n]+)", line (?P<line>\d+)(?:, in (?P<function>[\w.<>]+))?[^\n]*'
    r'(?:\n(?![ \t>]*File "|[ \t>]*\(|\w*Error)[ \t>]*(?P<source>[^\n]*))?'
    r"|^(?P<pytest>[\w./\\-]+\.py):(?P<row>\d+):(?: in (?P<within>\w+)|(?= \w*Error)|$)"
    r"|^(?P<cell>[~/\w.\\-]+\.py|<ipython-input-[^>\n]*>) in (?P<called>[\w<>]+)\([^\n]*"
    r"(?:\n(?!-+>)[^\n]*){0,8}\n-+> *(?P<number>\d+) (?P<code>[^\n]*)",
    re.M,
)


class PastedFrame(NamedTuple):
    """A frame of a pasted traceback."""

    path: str
    line: int
    function: str = ""
    source: str = ""  # the line as it was pasted; empty if it was not

    @property
    def is_library(self) -> bool:
        return _LIBRARY.search(self.path) is not None


@dataclass(frozen=True, slots=True)
class Pasted:
    """The facts of a pasted text; a field is None or empty if the text doesn't say it."""

    kind: PastedKind | None
    text: str
    dtype: str = ""
    shape: tuple[int, ...] | None = None
    node: str = ""  # the node that made the tensor, as torch names it, without `Backward` and its number
    version: int | None = None
    expected: int | None = None
    frames: tuple[PastedFrame, ...] = ()  # the frames of the failure, the outermost first
    saver: str = ""  # the node whose backward failed, by anomaly mode, without `Backward`
    forward: tuple[PastedFrame, ...] = ()  # the frames of the save, by anomaly mode, the outermost first
    is_guessed: bool = False  # whether only words speak of an in-place operation, none of torch's sentences
    is_refused: bool = False  # whether torch refused the write itself, not a later use of what it changed
    is_cut: bool = False  # whether frames follow the last sentence, so that the innermost ones may lack

    @property
    def bumps(self) -> int | None:  # writes that torch counted since the save
        return None if self.version is None or self.expected is None else self.version - self.expected

    @property
    def is_parameter(self) -> bool | None:
        """True if the tensor is a parameter; None if the facts don't say."""
        # Its initialisation has written to a parameter, so its version begins at 1.
        if self.expected is None or "Complex" in self.dtype:
            return None
        if self.expected == 0 or re.search("Bool|Byte|Char|Short|Int|Long|sparse", self.dtype):
            return False
        views = ("T", "AsStrided", "Broadcast", "Transpose", "Permute")
        return self.node in ("", "Broadcast") or (self.node in views and len(self.shape or (0, 0)) == 2)


def read_pasted(text: str) -> Pasted:
    """Return the facts of a text that a user pastes into an issue."""
    text = text.replace("\r\n", "\n")
    # Terminals and issues wrap the sentence anywhere.
    flat = re.sub(r"\s+", " ", text)
    kind = next((kind for kind, words in _SENTENCES.items() if re.search(words, flat, re.I)), None)
    *_, last = len(text), *(match.start() for match in _FRAME.finditer(text))
    tail = re.sub(r"\s+", " ", text[last:])
    numbers = _NUMBERS.search(flat)
    named = numbers or (_OUTPUT.search(flat) if kind == "multi_view" else None)
    start = _FORWARD.search(text)
    end = _END_OF_FORWARD.search(text, start.end()) if start else None
    inner = slice(start.end() if start else 0, (end.start() if end else len(text)) if start else 0)
    squeezed = flat.replace(" ", "")
    saver = _DETECTED.search(squeezed)
    # The text is cut before the sentence, or has its own words for it.
    by_anomaly = saver or "Tracebackofforwardcall" in squeezed
    is_guessed = not (kind or by_anomaly) and re.search(r"\bin-?place\b(?!\s*=)", flat, re.I) is not None
    kind = "saved" if kind is None and (by_anomaly or is_guessed) and "nan values" not in flat else kind
    return Pasted(
        kind=kind,
        text=text,
        dtype=(numbers["dtype"] or "") if numbers else "",
        shape=tuple(map(int, re.findall(r"\d+", numbers["shape"]))) if numbers else None,
        node=_operation(named["node"] or "") if named else "",
        version=int(numbers["version"]) if numbers else None,
        expected=int(numbers["expected"]) if numbers else None,
        frames=_frames(text[: inner.start] + "\n" + text[inner.stop :]),
        saver=_operation(saver[1]) if saver else "",
        forward=_frames(text[inner]),
        is_guessed=is_guessed,
        is_refused=kind not in ("saved", "second_backward", None) and "its base or another view" not in flat,
        is_cut=bool(tail) and not re.search(_SENTENCES[kind or "saved"], tail, re.I),
    )


def _operation(node: str) -> str:
    return re.sub(r"^.*::|(Backward)+\d*$", "", node)  # `Addmm` for `AddmmBackward0`


def _frames(text: str) -> tuple[PastedFrame, ...]:
    """Return the frames in a text, as the interpreter, pytest and notebooks print them."""
    frames = tuple(
        PastedFrame(
            (each["path"] or each["pytest"] or each["cell"]).replace("\\", "/"),
            int(each["line"] or each["row"] or each["number"]),
            each["function"] or each["within"] or each["called"] or "",
            (each["source"] or each["code"] or "").strip(),
        )
        for each in map(re.Match.groupdict, _FRAME.finditer(text))
    )
    # Debuggers print the innermost frame first.
    is_turned = len(frames) > 1 and frames[-1].function == "<module>" != frames[0].function
    return frames[::-1] if is_turned else frames
