"""Checkpoints: does the recomputation read what its forward read?

A checkpoint keeps the inputs of a part of the forward pass and runs it again during backward. Its inputs
are saved like any tensor and checked. What the code reaches otherwise (a closure, a module's parameters and
buffers, a global) is not. An optimizer step in between makes the second run compute other values than the
first, and torch is silent (test_a_checkpoint_recomputes_from_what_is_there_by_then). In a session, the
tensors that the code can reach are entered in the ledger when the checkpoint begins. If one has changed
when the code runs again, that run is observed for reads of it.
"""

from __future__ import annotations

import functools
import itertools
import random
import sys
from collections.abc import Callable, Mapping
from traceback import walk_stack
from types import CodeType, FunctionType, MethodType
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import torch

from ...source import Stack, is_library, of_program
from ...torch_internals import compat
from ...torch_internals.patches import Patches
from ..record import SavedTensor, SaveState
from . import saves
from ._stale_reads import StaleReads, StaleTensor, observe
from .checkpoint_runs import RunSave, runs_of
from .conflicts import Conflicts

_DEEPEST = 5
_PLAIN = frozenset((bool, int, float, complex, str))
_LONGEST = 1000  # containers beyond this length are not looked into


def install(patches: Patches) -> None:
    patches.stand_in(*compat.entries.CHECKPOINT, _generator)
    patches.stand_in(*compat.entries.REENTRANT_CHECKPOINT, _forward)
    patches.stand_in(compat.entries.CACHED_TENSOR, "__init__", _cached)
    patches.stand_in(compat.entries.CACHED_TENSOR, "get_val", _read_from_cache)


def _generator(original: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap torch's function behind a checkpoint that isn't reentrant, so that both runs are observed."""

    def generator(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        # The second argument, from torch 2.15 on a keyword.
        preserve_rng = kwargs.get("preserve_rng_state", args[0] if args else True)
        run = _recomputed(function, torch.is_grad_enabled(), preserve_rng is not False)
        return original(run, *args, **kwargs)

    return generator


def _forward(original: Callable[..., Any]) -> Callable[..., Any]:
    def forward(ctx: Any, function: Callable[..., Any], *args: Any) -> Any:
        return original(ctx, _recomputed(function, any(ctx.needs_input_grad), reentrant=True), *args)

    return forward


def _recomputed(
    function: Callable[..., Any], recorded: bool, preserve_rng: bool = True, reentrant: bool = False
) -> Callable[..., Any]:
    """Return the code as it is observed in both runs; as it is if it isn't recorded, or nothing watches."""
    hooks = saves.innermost()
    if hooks is None or not recorded:
        return function
    return Recomputed(function, hooks, of_program(), preserve_rng, reentrant)


_cache: WeakKeyDictionary[Any, tuple[Conflicts, SavedTensor, str]] = WeakKeyDictionary()
"""Session, save record and operation of each tensor in selective checkpointing's cache, by torch's entry."""


def _cached(original: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap the making of an entry of the cache: its tensor is entered in the ledger."""

    def made(entry: Any, value: Any, **unpack: Any) -> None:
        """Enter the tensor at the line of the operation that returned it."""
        # Since torch 2.15 it may be the result of the program's pack hook; torch compares its counter, too.
        if type(value) is saves.PackedWithRecords and isinstance(value.kept, torch.Tensor):
            value = value.kept
        original(entry, value, **unpack)
        hooks = saves.innermost()
        if hooks is not None and isinstance(value, torch.Tensor):
            operation, stack = _in_mode(of_program())
            with compat.entries.sharing_counters():
                saved = hooks.conflicts.ledger.file(value, stack)
            _cache[entry] = hooks.conflicts, saved, operation

    return made


def _in_mode(stack: Stack) -> tuple[str, Stack]:
    """Return the operation that a dispatch mode has been given, and the frames of a stack around that mode.

    ``func``: a parameter of every ``__torch_dispatch__``.
    """
    mode, around = "__torch_dispatch__", (frame for frame, _ in walk_stack(sys._getframe(1)))
    function = next((frame.f_locals.get("func") for frame in around if frame.f_code.co_name == mode), None)
    names = [code.co_name for code in stack[::2]]
    outer = 2 * names.index(mode) + 2 if mode in names else 0
    return str(getattr(function, "overloadpacket", "the operation")).rpartition(".")[2], stack[outer:]


def _read_from_cache(original: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap the recomputation's look into the cache: a conflict is reported, and repaired under ``guard``."""

    def read(entry: Any, allow_cache_entry_mutation: bool) -> Any:
        """Return the cached tensor; under ``guard`` a copy of its old value, for it is written again."""
        known = _cache.get(entry)
        if known is None or (state := known[0].stale(known[1], "cache")) is None:
            return original(entry, allow_cache_entry_mutation)
        conflicts, _, operation = known
        before, error = state.value, None
        value: Any = None
        try:
            given = value = original(entry, allow_cache_entry_mutation)
        except RuntimeError as refusal:
            error = refusal
        report = functools.partial(conflicts.stale_in_cache, state, operation, error)
        if conflicts.repairs:
            entry.val, entry.version = (entry.val if before is None else before).clone(), None
            given = original(entry, allow_cache_entry_mutation)
        if error is None and before is not None and getattr(entry, "unpack_hook", None) is None:
            # Which of the two is given makes no difference if the recomputation overwrites it alike.
            other = value if conflicts.repairs else before
            if observe(StaleTensor(given, other, lambda _: report())):
                return given
        report()
        if error is not None and not conflicts.repairs:
            raise error
        return given

    return read


class Recomputed:
    """The code of a checkpoint, as torch runs it in both passes. The graph keeps this object alive."""

    def __init__(
        self,
        function: Callable[..., Any],
        hooks: saves.SavedTensorHooks,
        stack: Stack,
        preserve_rng: bool,
        reentrant: bool,
    ) -> None:
        """Enter all tensors that ``function`` can reach in the ledger, at ``stack``."""
        self._function = function
        self._hooks = hooks
        self._ran, self._reentrant = False, reentrant
        with compat.unseen.unseen_by_functions():
            file, reached = hooks.conflicts.ledger.file, Reached(function)
            self._reached = [(tensor, file(tensor, stack), name) for tensor, name in reached.tensors]
        self.values = {**reached.values, ("default dtype", None): torch.get_default_dtype()}
        """Values on which the first run depended."""
        self._drawing: tuple[int, ...] = () if preserve_rng else (_random_state(),)
        """States of torch's random numbers when the first and the latest run began, if they may differ."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the code; if a tensor that it can reach or has cached has changed, report a read of it."""
        with compat.unseen.unseen_by_functions():
            if self._drawing:
                self._drawing = self._drawing[0], _random_state()
            stale = self._stale()
            if self._reentrant and self._ran and not compat.graph.keeps_graph():
                self._reached.clear()  # for the last time, though its result may keep this object
            self._ran = True
            entries = filter(None, map(_cache.get, compat.entries.cached_tensors())) if _cache else ()
            cached = any(conflicts.stale(saved, "cache") for conflicts, saved, _ in entries)
        if not (stale or cached) or _forward_was_compiled():
            return self._function(*args, **kwargs)
        hooks = saves.innermost() or self._hooks  # a device's thread has entered none
        with hooks.reporting_saves(), StaleReads(stale, until_saved=True):
            return self._function(*args, **kwargs)

    def _stale(self) -> list[StaleTensor]:
        """Return the reached tensors that have changed since the forward."""
        conflicts = self._hooks.conflicts
        stale = []
        for tensor, saved, _ in self._reached:
            state = conflicts.stale(saved, "recompute")
            if state is None or not compat.tensors.is_plain(tensor):
                continue
            before, now = state.before, compat.unseen.alias_of(tensor)
            if before.shape == now.shape and before.dtype == now.dtype:

                def on_read(read: Stack, state: SaveState = state) -> None:
                    conflicts.stale_in_recompute(state, _inside(read))

                stale.append(StaleTensor(now, before, on_read))
        return stale

    def changed(self) -> tuple[list[tuple[str, Any, Any]], list[str]]:
        """Return the values that differ from the first run's, and the names of tensors written since."""
        now = {**Reached(self._function).values, ("default dtype", None): torch.get_default_dtype()}
        before = self.values.items()
        changed = [(t.format(k), v, now[t, k]) for (t, k), v in before if repr(now.get((t, k), v)) != repr(v)]
        # Other numbers matter only to code that draws some.
        if self._drawing and self._drawing[0] != self._drawing[-1] != _random_state():
            changed.append(("torch", self._drawing[0], self._drawing[-1]))
        return changed, [name for tensor, saved, name in self._reached if tensor._version != saved.version]


class Runs(NamedTuple):
    """Both runs of a checkpoint's code."""

    forward: list[RunSave]
    again: list[RunSave]  # the saves of the last recomputation
    values: list[tuple[str, Any, Any]]
    """Values that the code reads and that differ from those when the forward began: name, before, now."""
    written: list[str]  # names of the tensors that were written since


def runs_in(variables: Mapping[str, Any]) -> Runs | None:
    """Return the runs of the checkpoint to which a function of torch's with these variables belongs."""
    record, code = compat.entries.checkpoint_in(variables) or (None, None)
    if record is None:
        return None
    return Runs(*runs_of(record), *(code.changed() if isinstance(code, Recomputed) else ([], [])))


def _forward_was_compiled() -> bool:
    """Return whether a compiled graph has saved tensors in the forward of the checkpoint that runs again.

    Under a mode Dynamo runs the code as it is written, which saves in another order: backward would get one
    tensor in place of another (test_a_compiled_block_that_writes_a_buffer_in_a_checkpoint).
    """
    top = compat.hook_stack.top()
    known = None if top is None else compat.entries.checkpoint_of(top[0])
    codes = (code for save in runs_of(known[0])[0] for code in save.stack[::2]) if known else ()
    return any(map(compat.compilers.is_of_aotautograd, codes))


def _random_state() -> int:
    with compat.unseen.unseen_by_modes():  # such as the one in which torch.compile traces the checkpoint
        of_devices = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else []
        return hash(tuple(bytes(state.numpy()) for state in (torch.get_rng_state(), *of_devices)))


def _inside(stack: Stack) -> Stack:
    end = next((i for i, code in enumerate(stack[::2]) if code is Recomputed.__call__.__code__), 0)
    return stack[: 2 * end]


class Reached:
    """Tensors and values that ``function`` can read without being given them: closures, defaults, its own
    object, modules and the globals that it names; a few levels deep, each object once.

    Example:
        >>> scale, cache = torch.ones(3), [1, 2]
        >>> reached = Reached(lambda x: cache.append(x * scale))
        >>> [(tensor is scale, name) for tensor, name in reached.tensors], reached.values
        ([(True, 'scale')], {('len({})', 'cache'): 2, ('cache[{!r}]', 0): 1, ('cache[{!r}]', 1): 2})
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self.tensors: list[tuple[torch.Tensor, str]] = []
        self.values: dict[tuple[str, Any], Any] = {}
        """Numbers, flags, words and lengths of containers, by their names in the code: a template, whose
        field is the second part of the key."""
        self._seen: set[int] = set()
        self._walk(function, type(function).__name__, 0)

    def _walk(self, value: Any, name: str, depth: int) -> None:
        """Look at a value, ``depth`` steps from the checkpoint's function."""
        if id(value) in self._seen or depth > _DEEPEST:
            return
        if isinstance(value, torch.Tensor):
            if compat.tensors.is_plain(value) and not value.is_meta:
                self._seen.add(id(value))
                self.tensors.append((value, name))
            return
        if value is None or isinstance(value, (int, float, complex, str)):
            self.values.setdefault(("{}", name), value)
            return
        if isinstance(value, (bytes, type)):
            return
        self._seen.add(id(value))
        if isinstance(value, torch.nn.Module):
            self._of_module(value, name, depth)
        elif isinstance(value, MethodType):
            self._walk(value.__self__, "self", depth)
            self._walk(value.__func__, name, depth)
        elif isinstance(value, FunctionType):
            self._of_function(value, depth)
        elif isinstance(value, functools.partial):
            self._all({"func": value.func, **value.keywords}, "{}", depth)
            self._all(dict(enumerate(value.args)), f"{name}.args[{{}}]", depth)
        elif isinstance(value, (dict, list, tuple, set, frozenset)):
            self.values.setdefault(("len({})", name), len(value))
            self._all(value if isinstance(value, dict) else dict(enumerate(value)), f"{name}[{{!r}}]", depth)
        elif value is random:
            self.values["random", None] = hash(random.getstate())
        elif type(value).__module__ != "builtins" and not is_library_object(value):
            self._all(getattr(value, "__dict__", {}), f"{name}.{{}}", depth)

    def _all(self, values: Mapping[Any, Any], name: str, depth: int) -> None:
        """Look at the values of a container; ``name`` is a template with a field for the key."""
        for key, value in itertools.islice([*values.items()], _LONGEST):
            named = key if type(key) in _PLAIN else "..."  # else code of the key's would run
            if value is None or type(value) in _PLAIN:  # most are: no name is made
                self.values.setdefault((name, named), value)
            else:
                # A name becomes a template again: a key's braces are no fields of it.
                self._walk(value, name.format(named).replace("{", "(").replace("}", ")"), depth + 1)

    def _of_module(self, module: torch.nn.Module, name: str, depth: int) -> None:
        """Look at the tensors and attributes of a module, its submodules and their ``forward``."""
        for path, part in module.named_modules(prefix=name):
            self._seen.add(id(part))
            of_part = f"{path}.{{}}"
            for key, tensor in (*part._parameters.items(), *part._buffers.items()):
                # It is counted up in every forward, and read for the running statistics only.
                if tensor is not None and key != "num_batches_tracked":
                    self._walk(tensor, of_part.format(key), 0)
            self._all({key: own for key, own in vars(part).items() if key[0] != "_"}, of_part, depth)
            forward = type(part).forward
            if isinstance(forward, FunctionType):
                self._walk(forward, path, depth + 1)

    def _of_function(self, function: FunctionType, depth: int) -> None:
        """Look at the closure, the defaults and the named globals of a function."""
        for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
            try:
                self._walk(cell.cell_contents, name, depth + 1)
            except ValueError:
                continue  # not assigned yet
        self._all(dict(enumerate(function.__defaults__ or ())), "default {}", depth)
        self._all(function.__kwdefaults__ or {}, "{}", depth)
        # A library's globals are its own affair, as are its objects (`is_library_object`).
        if is_library(function.__code__):
            return
        for name in sorted(_names(function.__code__)):
            if name in function.__globals__:
                self._walk(function.__globals__[name], name, depth + 1)


def _names(code: CodeType) -> set[str]:
    names = set(code.co_names)
    for const in code.co_consts:
        if isinstance(const, CodeType):
            names |= _names(const)
    return names


def is_library_object(value: Any) -> bool:  # its attributes are its own affair
    code = getattr(getattr(type(value), "__init__", None), "__code__", None)
    of_torch = type(value).__module__.partition(".")[0] in ("torch", "numpy")
    return of_torch or (code is not None and is_library(code))
