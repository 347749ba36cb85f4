"""The reference of the Python names, from their signatures and docstrings."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import re
import textwrap
from collections.abc import Iterator
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Any

import unclobber

_SECTION = re.compile(r"^(Args|Returns|Raises|Example):\n", re.M)
_ENTRY = re.compile(r"^(\*{0,2}[\w.]+): ", re.M)


def reference(names: str) -> str:
    """Return a section for each name, as Markdown.

    Args:
        names: Paths of functions and classes below the package, with commas between them. A class whose
            path ends in ``()`` is one that programs get and don't make.
    """
    return "\n\n".join(part for name in names.split(",") for part in _section(name))


def _section(path: str) -> Iterator[str]:
    module, _, name = path.removesuffix("()").rpartition(".")
    item = getattr(import_module(f"unclobber.{module}" if module else "unclobber"), name)
    yield f"### {name}"
    made_by_a_program = not (path.endswith("()") or dataclasses.is_dataclass(item))
    if made_by_a_program:
        yield f"```python\n{_signature(f'unclobber.{path}', item)}\n```"
    yield markdown(inspect.getdoc(item) or "")
    if inspect.isclass(item) and (members := [*_members(item)]):
        yield "\n".join(members)


def _signature(name: str, item: Any) -> str:
    """Return a call of a function or class with its parameters, one a line if they are long."""
    try:
        signature = inspect.signature(item)
    except ValueError:  # an exception that takes what every exception takes
        return f"{name}(message)"
    # Annotations are texts in modules that import them from `__future__`, so `str` shows quotes.
    parameters = [
        re.sub("'([^']*)'", r"\1", str(p)) for p in signature.parameters.values() if p.name != "self"
    ]
    returned = signature.return_annotation
    arrow = "" if inspect.isclass(item) or returned in (signature.empty, "None") else f" -> {returned}"
    line = f"{name}({', '.join(parameters)}){arrow}"
    if len(line) < 90:
        return line
    return "\n".join([f"{name}(", *(f"    {parameter}," for parameter in parameters), f"){arrow}"])


def _members(kind: type) -> Iterator[str]:
    """Yield a line for each public field, property and method, those of bases first."""
    seen = set()
    for owner in reversed(kind.__mro__):
        if not owner.__module__.startswith("unclobber"):
            continue
        annotated = inspect.get_annotations(owner) if dataclasses.is_dataclass(owner) else {}
        words = _attribute_docs(owner) if annotated else {}
        for name in [*annotated, *vars(owner)]:
            member = vars(owner).get(name)
            if name.startswith("_") or name in seen:
                continue
            if inspect.isfunction(member):
                line = f"- `{_signature(name, member)}`: {_short(inspect.getdoc(member))}"
            elif isinstance(member, property):
                returned = inspect.signature(member.fget).return_annotation if member.fget else ""
                line = f"- `{name}: {returned}`: {_short(member.__doc__)}"
            elif name in annotated:
                line = f"- `{name}: {annotated[name]}`: {_short(words.get(name))}"
            else:
                continue
            seen.add(name)
            yield line.removesuffix(": ")


def _attribute_docs(kind: type) -> dict[str, str]:
    """Return the strings below the fields of a class, by field."""
    return {
        field.target.id: after.value.value
        for field, after in pairwise(_definition(kind).body)
        if isinstance(field, ast.AnnAssign)
        and isinstance(field.target, ast.Name)
        and isinstance(after, ast.Expr)
        and isinstance(after.value, ast.Constant)
    }


def _definition(kind: type) -> ast.ClassDef:
    # Not `inspect.getsource`: public classes say that they are of `unclobber`, where that doesn't find them.
    line = f"class {kind.__name__}"
    texts = (path.read_text(encoding="utf-8") for path in Path(unclobber.__file__).parent.rglob("*.py"))
    nodes = [node for text in texts if line in text for node in ast.walk(ast.parse(text))]
    return next(node for node in nodes if isinstance(node, ast.ClassDef) and node.name == kind.__name__)


def _short(text: str | None) -> str:
    """Return the text of a member before its sections, as one paragraph."""
    return " ".join(_inline(_SECTION.split(inspect.cleandoc(text or ""))[0]).split())


def markdown(docstring: str) -> str:
    """Return a docstring in Google's style as Markdown."""
    before, *sections = _SECTION.split(docstring)
    parts = [_inline(before.strip())]
    for title, body in zip(sections[::2], sections[1::2], strict=True):
        body = textwrap.dedent(body).strip()
        if title == "Example":
            parts.append(f"```pycon\n{body}\n```")
        elif title == "Returns":
            parts.append(f"**Returns**: {' '.join(_inline(body).split())}")
        else:
            _, *entries = _ENTRY.split(body)
            pairs = zip(entries[::2], entries[1::2], strict=True)
            rows = [f"- `{name}`: {' '.join(_inline(words).split())}" for name, words in pairs]
            parts.append(f"**{title.replace('Args', 'Arguments')}**\n\n" + "\n".join(rows))
    return "\n\n".join(parts)


def _inline(text: str) -> str:
    """Return prose without Sphinx's roles."""
    return re.sub(r":\w+:(?=`)", "", text)
