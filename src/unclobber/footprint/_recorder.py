"""Recording of every operation, storage, save and unpack in a part of a program.

A dispatch mode sees the operations, a weak reference to each storage sees when it is freed, the
saved-tensor hooks see what backward keeps; one tick is one dispatched operation.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from ..model.text import wanted_memory
from ..source import of_program
from ..torch_internals import compat
from ..torch_internals.engine import EngineCall, engine
from ._facts import Kind
from ._functions import FunctionCalls
from ._names import ModuleNames, held_names
from ._trace import FunctionCall, ModuleCall, Operand, Operation, PackedSave, Storage, Trace, Value


class EnoughError(BaseException):
    """The wanted backward has ended, so the program need not go on.

    No ``Exception``, so that a program's own handlers let it pass.
    """


@dataclass(slots=True, weakref_slot=True, eq=False)
class _PackedTensor:
    """The pack hook's result, which notes the tick at which the save ends."""

    tensor: Tensor
    version: int
    save: PackedSave
    trace: Trace

    def __del__(self) -> None:
        self.save.died = self.trace.tick


class MemoryRecorder(compat.dispatcher.OwnMode):
    """A recorder from entry until the end of the ``step``-th backward; it then raises `EnoughError`.

    Args:
        step: Number of outermost calls of backward to wait for. Tensors made before the last step count as
            living anyway only if they are parameters, buffers or inputs.
        stop: Whether to raise at the end of that backward; else recording just ends there.
        progress: Called with the number of operations, every thousand.
        keep_results: Whether to keep copies of the loss, of the leaves' gradients and of the modules'
            buffers, to compare two runs.
        put_back: Whether `give_back` restores the leaves' gradients and the modules' buffers.
        names: Whether to note which of the program's names hold tensors when the recorded backward begins.
    """

    def __init__(
        self,
        step: int = 1,
        *,
        stop: bool = True,
        keep_results: bool = False,
        put_back: bool = False,
        progress: Callable[[int], None] | None = None,
        names: bool = False,
    ) -> None:
        """Prepare the hooks and modes; nothing is registered before the context is entered."""
        super().__init__()  # type: ignore[no-untyped-call]
        self.trace = Trace()
        self.step = step
        self.stop = stop
        self.keep_results = keep_results
        self.put_back = put_back
        self._gradients: list[tuple[Tensor, Tensor | None]] = []
        self._statistics: list[tuple[Tensor, Tensor]] = []
        self.progress = progress
        self._names_wanted = names
        self._live: dict[int, Storage] = {}
        self._refs: dict[int, weakref.ref[Any]] = {}
        self._quiet = False
        self._done = False
        self._depth = 0
        self._modules: list[ModuleCall] = []
        self.module_names = ModuleNames(self._learned)
        self._exits = ExitStack()
        # Recognizable, so that `raw_saved` returns what `pack` returned instead of unpacking it.
        self._hooks = saved_tensors_hooks(self.pack, compat.kept.recognizable(self.unpack))
        self._calls = FunctionCalls(self)
        self._function: FunctionCall | None = None  # the torch function that the program runs
        self._step_began: int | None = None

    @property
    def module(self) -> str | None:
        return self._modules[-1].label if self._modules else None

    @property
    def _call(self) -> ModuleCall | None:
        return self._modules[-1] if self._modules else None

    @property
    def is_silent(self) -> bool:
        return self._quiet or self._done

    # --- enter and leave ----------------------------------------------------------------------------
    def __enter__(self) -> MemoryRecorder:
        """Register the module and optimizer hooks, subscribe to backward calls and enter the modes."""
        for handle in (
            register_module_forward_pre_hook(self._module_begins),
            # always_call, because a forward that raises has ended, too.
            register_module_forward_hook(self._module_ends, always_call=True),
            register_optimizer_step_pre_hook(self._step_begins),
            register_optimizer_step_post_hook(self._step_ends),
        ):
            self._exits.callback(handle.remove)
        self._exits.callback(engine.subscribe(self))
        self._exits.enter_context(self._hooks)
        self._exits.enter_context(self._calls)
        super().__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        """Leave the modes and take the hooks out of torch."""
        super().__exit__(*error)  # type: ignore[no-untyped-call]
        self._exits.close()
        self._finish()

    def _finish(self) -> None:
        self._done = True
        self._refs.clear()  # without the references, frees after the step go unnoticed

    @contextmanager
    def unseen(self) -> Iterator[None]:
        self._quiet, before = True, self._quiet
        try:
            yield
        finally:
            self._quiet = before

    # --- operations -----------------------------------------------------------------------------------
    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run an operation and record it: what it reads, writes and makes, at which line and module."""
        kwargs = kwargs or {}
        if compat.dispatcher.is_higher_order(func):
            return self.run_higher_order(func, args, kwargs)
        # Fake tensors find each other's device by dispatching `prim.device`.
        if self.is_silent or func.namespace == "prim":
            return func(*args, **kwargs)
        trace = self.trace
        trace.tick += 1
        if self.progress is not None and trace.tick % 1000 == 0:
            self.progress(trace.tick)
        stack, module = of_program(), self.module
        inputs = compat.compilers.tensors_in((args, kwargs))
        reads = [storage for tensor in inputs if (storage := self._seen(tensor)) is not None]
        for storage in reads:
            storage.last_use = trace.tick
        if self._depth:
            node = compat.graph.current_node()
            # An operation of backward is charged to the forward line whose node runs.
            if node is not None:
                stack, module = trace.origin.get(compat.graph.sequence_number(node), (stack, module))
        else:
            # Autograd makes the node before it dispatches the operation, so the newest number is the node's.
            trace.origin.setdefault(compat.graph.next_sequence_number() - 1, (stack, module))
        name, _, overload = func.name().rpartition("::")[2].partition(".")
        operation = Operation(
            tick=trace.tick,
            name=name,
            overload=overload,
            stack=stack,
            module=module,
            backward=self._depth > 0,
            reads=tuple(storage.number for storage in reads),
        )
        # Only results of differentiable inputs are activations: an optimizer makes its state without
        # gradients.
        differentiable = torch.is_grad_enabled() and any(tensor.requires_grad for tensor in inputs)
        if trace.forward_began is None and (differentiable or self._modules):
            trace.forward_began = trace.tick - 1
        try:
            out = func(*args, **kwargs)
        except Exception as error:
            # Ticks number the operations that ran.
            trace.tick -= 1
            self._note_failed(error, operation, inputs)
            raise
        trace.failed = None
        outputs = compat.compilers.tensors_in(out)
        operation.makes = tuple(self._made(outputs, operation, differentiable))
        operation.writes = self._written(func, args, kwargs)
        if not operation.backward:
            for storage in reads:
                storage.reader = operation
            results = [self._operand(output) for output in outputs]
            operation.results = tuple(result for result in results if result is not None)
            operation.kernel = func
            operation.arguments = compat.compilers.map_tensors(self._operand, (args, kwargs))
            operation.outer = self._function
            if self._function is not None:
                self._function.operations.append(operation)
        trace.operations.append(operation)
        return out

    def _note_failed(self, error: Exception, operation: Operation, inputs: list[Tensor]) -> None:
        called = None if operation.backward else self._function  # that of a backward is `Tensor.backward`
        operation.function = operation.name if called is None else called.name
        operation.wanted = wanted_memory(error)
        self.trace.failed = operation
        self._name_saves(inputs)

    def _operand(self, tensor: Tensor) -> Operand | None:
        """Return the facts on a tensor of a call; None if it has no strided memory."""
        storage = self._seen(tensor)
        if storage is None:
            return None
        return Operand(
            storage=storage.number,
            shape=tuple(tensor.shape),
            strides=tuple(tensor.stride()),
            dtype=str(tensor.dtype),
            bytes=tensor.numel() * tensor.itemsize,
            whole=tensor.numel() * tensor.itemsize == storage.bytes and tensor.numel() > 0,
            leaf=tensor.requires_grad and not compat.graph.has_history(tensor),
            requires_grad=tensor.requires_grad,
            offset=int(tensor.storage_offset()),
            device=tensor.device.type,
        )

    def _written(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[int, ...]:
        given: dict[Any, Any] = {**dict(enumerate(args)), **kwargs}
        written = [given.get(which) for which in compat.dispatcher.written_arguments(func)]
        storages = map(self._seen, compat.compilers.tensors_in(written))
        return tuple(storage.number for storage in storages if storage is not None)

    # --- storages ---------------------------------------------------------------------------------------
    def _known(self, tensor: Tensor) -> Storage | None:
        key = compat.tensors.storage_key_or_none(tensor)
        return None if key is None else self._live.get(key) or self._add(key, tensor, "input")

    def _seen(self, tensor: Tensor) -> Storage | None:
        """Return the record of a tensor's storage; one that is new here is older than the recording."""
        storage = self._known(tensor)
        if storage is None:
            return None
        # Not during a backward: views made on the way have no grad_fn yet and look like leaves.
        unknown = storage.kind in ("input", "activation") and not self._depth and not tensor._is_view()
        if unknown and tensor.requires_grad and not compat.graph.has_history(tensor):
            storage.kind = "parameter"
        return storage

    def _made(self, outputs: Iterable[Tensor], operation: Operation, differentiable: bool) -> Iterator[int]:
        """Record the storages of results, unless they are known; yield the numbers of the new ones."""
        # Checked by gradient mode, too, because a trainer may run forward inside of an optimizer's step, as
        # its closure.
        optimizer = self._step_began is not None and not torch.is_grad_enabled()
        kind: Kind = "temporary" if operation.backward or optimizer else "activation"
        # Data is what the program makes outside of any module from tensors without gradients.
        if kind == "activation" and not differentiable and operation.module is None:
            kind = "input"
        for tensor in outputs:
            key = compat.tensors.storage_key_or_none(tensor)
            if key is None:
                continue
            if key in self._live:
                known = self._live[key]
                # resize_ may have grown it
                known.bytes = max(known.bytes, tensor.untyped_storage().nbytes())
                continue
            storage = self._add(key, tensor, kind)
            storage.born, storage.maker = self.trace.tick, operation
            storage.stack, storage.module = operation.stack, operation.module
            yield storage.number

    def _add(self, key: int, tensor: Tensor, kind: Kind) -> Storage:
        """Add a record for a storage, and note the tick at which it is freed."""
        trace = self.trace
        memory = tensor.untyped_storage()
        storage = Storage(len(trace.storages), memory.nbytes(), kind, last_use=trace.tick)
        trace.storages.append(storage)
        self._live[key] = storage

        def freed(_: Any) -> None:
            storage.died = trace.tick
            # The address may belong to a newer storage by now.
            if self._live.get(key) is storage:
                del self._live[key]
            self._refs.pop(key, None)

        # By the storage object and not by the tensor: views share it and outlive each other.
        self._refs[key] = weakref.ref(memory, freed)
        return storage

    # --- saves ------------------------------------------------------------------------------------------
    def pack(self, tensor: Tensor) -> Any:
        """Record a save. Hooks registered above the recorder's own call this, too."""
        storage = None if self._done else self._seen(tensor)
        if storage is None:
            return tensor.detach()
        save = PackedSave(
            storage=storage,
            tick=self.trace.tick,
            stack=of_program(),
            call=self._call,
            shape=tuple(tensor.shape),
            dtype=str(tensor.dtype).removeprefix("torch."),
            function=None if self._function is None else self._function.name,
        )
        self.trace.saves.append(save)
        storage.saves.append(save)
        # `detach` is an operation, too, which the recorder must not count.
        with self.unseen():
            # An alias, because an output kept by its own node would be a cycle through C++ that is never
            # freed.
            return _PackedTensor(tensor.detach(), tensor._version, save, self.trace)

    def unpack(self, held: Tensor | _PackedTensor) -> Tensor:
        """Return a saved tensor; RuntimeError if it was overwritten, as torch raises it."""
        if isinstance(held, Tensor):  # `pack` returns a plain tensor once the recording has ended
            return held
        held.save.needed = self.trace.tick
        # torch compares the counters of what no hooks keep, and the program must fail here as it does there.
        if (now := held.tensor._version) != held.version:
            raise RuntimeError(
                "one of the variables needed for gradient computation has been modified by an inplace "
                f"operation: [{held.tensor.type()} {list(held.tensor.shape)}] is at version {now}; "
                f"expected version {held.version} instead. `unclobber run` tells which line did it."
            )
        return held.tensor

    # --- calls ---------------------------------------------------------------------------------------
    def call_begins(self, name: str, in_place: bool, given: Any) -> None:
        self._function = FunctionCall(name, in_place, self._values(given), self.trace.tick)
        self.trace.functions.append(self._function)

    def _values(self, given: Any) -> tuple[Value, ...]:
        """Return the tensors of a call that have strided memory."""
        values = []
        for tensor in compat.compilers.tensors_in(given):
            storage = self._known(tensor)
            if storage is not None:
                offset = int(tensor.storage_offset())
                values.append((storage.number, offset, tuple(tensor.shape), tuple(tensor.stride())))
        return tuple(values)

    def call_ends(self, out: Any) -> None:
        """Note the result of a torch function, and which operation made it."""
        call, self._function = self._function, None
        if call is None or self._done or not isinstance(out, Tensor):
            return
        # Only its address is read: reading a view's grad_fn may make torch refuse a later write.
        call.result = self._number_of(out)
        for operation in self.trace.operations[call.begin :]:
            if call.result in operation.makes:
                operation.function = call.name

    # --- backward ---------------------------------------------------------------------------------------
    def begin(self, call: EngineCall) -> list[Tensor] | None:
        """Record that a backward begins. Return the leaves that it reaches; None inside of another one."""
        if self._done or self._depth:  # a backward inside of backward is part of the outer one
            return None
        trace = self.trace
        roots = [out for out in call.roots if isinstance(out, Tensor)]
        leaves, graph = self._name_saves(roots)
        if self.put_back:
            known = {id(leaf) for leaf, _ in self._gradients}
            self._gradients += [
                # A copy, because backward adds to a gradient in place.
                (leaf, None if leaf.grad is None else self._copies([leaf.grad])[0])
                for leaf in leaves
                if id(leaf) not in known
            ]
        if trace.backwards + 1 == self.step:
            trace.backward_began, trace.retained = trace.tick, call.keeps_graph
            trace.differentiable = call.creates_graph
            if self.keep_results:
                trace.results += self._copies(roots)
                trace.roots = len(roots)
            if self._names_wanted:
                trace.names = held_names(self._number_of, graph)
        self._depth += 1
        return leaves

    def end(self, leaves: list[Tensor], call: EngineCall) -> None:
        """Record that a backward has ended; at the wanted one, keep the results if requested, give gradients
        and buffers back and, with ``stop``, raise `EnoughError`."""
        self._depth -= 1
        # A backward that raised doesn't count, because its gradients are incomplete.
        if not call.done:
            return
        trace = self.trace
        trace.backwards += 1
        self._name_gradients(leaves)
        if trace.backwards < self.step:
            trace.began = trace.tick
            trace.backward_began = trace.forward_began = None
            return
        if self.keep_results:
            made = [leaf.grad for leaf in leaves if leaf.grad is not None]
            trace.results += self._copies([*made, *compat.compilers.tensors_in(call.answer)])
            trace.buffers += self._copies(self._buffers())
        self._finish()
        self.give_back()
        if self.stop:
            raise EnoughError

    def give_back(self) -> None:
        """Restore the gradients and buffers that are known, as they were before the recording."""
        with self.unseen(), torch.no_grad():
            for leaf, gradient in self._gradients:
                # A clone, because the next run adds to it and must begin with the same value again.
                leaf.grad = None if gradient is None else gradient.clone()
            # The first copy last, because a module may have been called alone before one that holds it.
            for buffer, before in reversed(self._statistics):
                buffer.copy_(before)

    def _buffers(self) -> list[Tensor]:
        # A module may be gone by the end of the step.
        every = (buffer for module in self.module_names.alive() for buffer in module.buffers(recurse=False))
        return list({id(buffer): buffer for buffer in every}.values())

    def _name_gradients(self, leaves: Sequence[Tensor]) -> None:
        for leaf in leaves:
            owner = self._seen(leaf)
            storage = None if leaf.grad is None else self._seen(leaf.grad)
            if storage is not None and owner is not None:
                storage.kind, storage.name = "gradient", owner.name

    def _copies(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        with self.unseen():
            return [tensor.detach().clone() for tensor in tensors]

    def _number_of(self, tensor: Tensor) -> int | None:
        key = compat.tensors.storage_key_or_none(tensor)
        storage = None if key is None else self._live.get(key)
        return None if storage is None else storage.number

    def _name_saves(self, roots: Sequence[Tensor]) -> tuple[list[Tensor], set[Any]]:
        """Note node and role of every save that the graph of `roots` holds.

        Returns:
            The leaves that gradients flow to, and the nodes. Leaves are read from the graph, because a weak
            reference to a parameter would forbid ``module.to(…)`` to replace it.
        """
        leaves: list[Tensor] = []
        seen: set[Any] = set()
        for node in compat.graph.nodes_below(map(compat.graph.renewed_grad_fn, roots)):
            seen.add(node)
            leaf = getattr(node, "variable", None)  # AccumulateGrad alone has one
            if isinstance(leaf, Tensor):
                leaves.append(leaf)
            for role, held in compat.kept.raw_saved(node):
                if isinstance(held, _PackedTensor) and held.save.node is None:
                    held.save.node = str(node.name()).rpartition("::")[2]
                    held.save.role = role
                    held.save.edges = tuple(parent is not None for parent, _ in node.next_functions)
        return sorted(leaves, key=self._first_seen), seen

    def _first_seen(self, leaf: Tensor) -> int:
        storage = self._seen(leaf)
        return -1 if storage is None else storage.number  # equal in another run of the program

    # --- modules ----------------------------------------------------------------------------------------
    def _module_begins(self, module: torch.nn.Module, _: Any) -> None:
        """Record the start of a module's ``forward``."""
        if self._done:
            return
        name = self.module_names.of(module)
        call = ModuleCall(
            name.path,
            name.kind,
            name.tree,
            parent=self._call,
            begin=self.trace.tick,
            stack=of_program(),
            again=self._depth > 0,
        )
        self.trace.calls.append(call)
        self._modules.append(call)

    def _module_ends(self, *_: Any) -> None:
        if self._modules:
            self._modules.pop().end = self.trace.tick

    def _step_begins(self, *_: Any) -> None:
        self._step_began = len(self.trace.storages)

    def _step_ends(self, *_: Any) -> None:
        """Count storages that outlive an optimizer's step as its state, and all others as temporaries."""
        if self._step_began is not None:
            for storage in self.trace.storages[self._step_began :]:
                if storage.died is None and storage.kind == "temporary":
                    storage.kind = "input"
        self._step_began = None

    def learn(self, root: torch.nn.Module, state: Iterable[Tensor]) -> None:
        # An optimizer's state lives anyway; counted here, because the step may not read it.
        self.module_names.learn(root)
        for tensor in state:
            self._seen(tensor)

    def _name(self, kind: Kind, named: Iterable[tuple[str, Tensor]]) -> None:
        for path, tensor in named:
            storage = self._seen(tensor)
            if storage is not None:
                storage.kind, storage.name = kind, path

    def _learned(self, root: torch.nn.Module, tree: int) -> None:
        """Name the tensors of a new outermost module."""
        self._name("parameter", root.named_parameters())
        self._name("buffer", root.named_buffers())
        if self.put_back:
            buffers = list(root.buffers())
            self._statistics += zip(buffers, self._copies(buffers), strict=True)
