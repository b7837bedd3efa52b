"""Launches of a file one behind the other, on the arrays that they share: as host code says them, as a TOML file does,
or with what is proposed for each of them alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright.cli.argument_spec import ArgumentSpec, SaidByOptions
from tilewright.cli.arguments import SequenceRequest, arguments_of, example, kernel_of
from tilewright.cli.launching import (
    NULL_WORDS,
    Lacks,
    Launched,
    array_of_bytes,
    check_sizes,
    elements_asked,
    host_around,
    kernels_of,
    launches_of,
    sample_of,
)
from tilewright.errors import ArgumentError
from tilewright.load import LoadedKernel, LoadedModule
from tilewright.load.cu_allocations import first_home
from tilewright.load.cu_launches import LaunchShape
from tilewright.load.cu_tree import bare, outwards
from tilewright.ptx.tree import Instruction
from tilewright.sequences import PlannedLaunch, launch

if TYPE_CHECKING:
    from tree_sitter import Node

    from tilewright.load.cu_host import Host
    from tilewright.load.cu_numbers import Number

MOST_ORDERS = 4  # of the launches of one function, where branches decide between them
_BRANCHES = ("if_statement", "switch_statement", "conditional_expression")


def planned(module: LoadedModule, asked: SequenceRequest) -> list[PlannedLaunch]:
    """The launches of a TOML file's sequence."""
    random = np.random.default_rng(asked.seed)
    arrays = {spec.name: spec.made(random) for spec in asked.arrays if spec.name}
    launches = list[PlannedLaunch]()
    for request in asked.launches:
        kernel = kernel_of(module, request)
        values = arguments_of(kernel, request, random, arrays)
        launches.append(launch(kernel, *values, pdl=request.pdl, **request.launch))
    return launches


def is_dependent(module: LoadedModule) -> bool:
    """Does the host code launch a kernel so that it may begin before the last one ends?"""
    return any(shape.pdl and kernels_of(module, shape) for shape in launches_of(module, None, {}))


def in_order(
    module: LoadedModule, file: Path, args: Sequence[ArgumentSpec], sizes: Mapping[str, Number], seed: int, *, pdl: bool
) -> list[PlannedLaunch]:
    """The launches of a file, one behind the other. args: by the names that the host code passes. pdl: may each begin
    before the last one ends? Else those that the host code launches like that.

    Raises ArgumentError for a file without launches, and for what nobody gives.
    """
    random = np.random.default_rng(seed)
    check_sizes(module, file, sizes)
    arguments = {spec.name: spec.made(random) for spec in args if spec.name}
    numbers = {**sizes, **{name: value for name, value in arguments.items() if isinstance(value, (int, float))}}
    shapes = [shape for shape in launches_of(module, None, numbers) if kernels_of(module, shape)]
    lacks, planned = Lacks(), list[PlannedLaunch]()
    if not shapes:
        raise ArgumentError(f"{file.name} has no launch", allowed="kernel<<<4, 256>>>(x, n)")
    for number, shape in enumerate(shapes):
        kernel = module[shape.kernel]
        pairs = list(zip(kernel.written, shape.words, shape.arguments, strict=False))
        for param, word, value in pairs:
            if param.is_pointer and word not in arguments and word in shape.allocated:
                arguments[word] = array_of_bytes(param, shape.allocated[word]).made(random)
            elif word in NULL_WORDS and param.is_pointer:
                arguments[word] = None
            elif isinstance(value, str) and word not in arguments:
                sized = replace(param, name=word)
                array = ArgumentSpec(word, sample_of(sized, elements_asked(kernel.written, shape)))
                option = array if param.is_pointer else example(sized)
                lacks.add(f"{kernel.name}: no value of {param.type} {word}", shape.line, SaidByOptions((option,)))
        if shape.lacks:
            lacks.add(f"{kernel.name}<<<...>>>: no value of {', '.join(shape.lacks)}", shape.line,
                      SaidByOptions(sizes=dict.fromkeys(shape.lacks, 1024)))  # fmt: skip
        if lacks.what:
            continue
        values = (arguments[word] if isinstance(value, str) or word in arguments else value for _, word, value in pairs)
        behind = launch(kernel, *values, grid=shape.grid, block=shape.block, shared_bytes=shape.shared_bytes,
                      cluster=shape.cluster, pdl=shape.pdl or (pdl and number > 0))  # fmt: skip
        planned.append(replace(behind, around=replace(host_around(kernel, shape), loop=0)))
    lacks.check(file)
    return planned


# With what is proposed for each kernel alone


@dataclass(frozen=True)
class ProposedOrder:
    """Launches of one function, in the order in which it comes to them. lines: of each in the file."""

    launches: tuple[PlannedLaunch, ...]
    lines: tuple[int, ...]


def proposed_orders(
    module: LoadedModule, launched: Sequence[Launched], sizes: Mapping[str, Number], seed: int
) -> Iterator[ProposedOrder]:
    """The launches of a file that may begin before the last one ends, with those around them. launched: each kernel's,
    with what is proposed. sizes: those that all of them have.

    A kernel that waits for the launch before is meant to begin early behind another one, whoever sets the attribute.
    """
    by_kernel = {kernel_of(module, chosen.request).entry.name: chosen for chosen in launched}
    shapes = [shape for shape in launches_of(module, None, sizes) if shape.host is not None and not shape.lacks]
    paired = [(shape, chosen) for shape in shapes if (chosen := _launched(module, shape, by_kernel)) is not None]
    for order in _orders(paired):
        early = [shape.pdl or (number > 0 and waits(kernel_of(module, chosen.request)))
                 for number, (shape, chosen) in enumerate(order)]  # fmt: skip
        if any(early):
            yield _with_arrays(module, order, early, seed)


def waits(kernel: LoadedKernel) -> bool:
    """Does a kernel, or a function that it calls, wait for the launch before?"""
    functions = {function.name: function for function in kernel.module.module.functions}
    asked, seen = [kernel.entry.name], set[str]()
    while asked:
        name = asked.pop()
        function = functions.get(name)
        if function is None or name in seen:
            continue
        seen.add(name)
        steps = [step for step in function.statements if isinstance(step, Instruction)]
        if any(step.mnemonic == "griddepcontrol.wait" for step in steps):
            return True
        asked += [str(part) for step in steps if step.opcode == "call" for part in _names_in(step.operands)]
    return False


def _names_in(operands: Any) -> Iterator[str]:
    for operand in operands:
        if hasattr(operand, "parts"):
            yield from _names_in(operand.parts)
        elif hasattr(operand, "text"):
            yield operand.text


_Paired = tuple[LaunchShape, Launched]


def _launched(module: LoadedModule, shape: LaunchShape, by_kernel: Mapping[str, Launched]) -> Launched | None:
    """What is proposed for the kernel of a launch, if it is one of these, and the only one that is meant."""
    names = kernels_of(module, shape)
    return by_kernel.get(module[names[0]].entry.name) if len(names) == 1 else None


def _orders(paired: Sequence[_Paired]) -> Iterator[list[_Paired]]:
    """The launches of each outermost function, as it comes to them: those of which a branch takes only some apart."""
    functions: dict[tuple[str, int], list[tuple[list[Node], _Paired]]] = {}
    for shape, chosen in paired:
        assert shape.host is not None
        *_, outer = hosts = [*_callers(shape.host)]
        start = outer.function.start_byte if outer.function is not None else 0
        nodes = [host.node for host in reversed(hosts)]
        functions.setdefault((outer.tree.text, start), []).append((nodes, (shape, chosen)))
    for members in functions.values():
        members.sort(key=lambda member: [node.start_byte for node in member[0]])
        yield from ([pair for _, pair in path] for path in _paths(members))


def _callers(host: Host) -> Iterator[Host]:
    """A place in host code, and the calls that lead to it."""
    yield host
    while (call := host.call) is not None:
        host = call[0]
        yield host


def _paths(members: Sequence[tuple[list[Node], _Paired]]) -> list[list[tuple[list[Node], _Paired]]]:
    """Launches, without those of another branch."""
    paths: list[list[tuple[list[Node], _Paired]]] = [[]]
    for member in members:
        fitting = [path for path in paths if all(_may_follow(member, before) for before in path)]
        for path in fitting:
            path.append(member)
        if not fitting and len(paths) < MOST_ORDERS:
            paths.append([*(before for before in paths[0] if _may_follow(member, before)), member])
    return paths


def _may_follow(member: tuple[list[Node], _Paired], before: tuple[list[Node], _Paired]) -> bool:
    """May a launch come behind another one in one run of the host code? Not so the instances of one launch, what stands
    in another branch, and what comes behind a branch that returns.
    """
    for node, earlier in zip(member[0], before[0], strict=False):
        if node == earlier:
            continue
        return not _is_apart(node, earlier)
    return bare(member[1][0].kernel) != bare(before[1][0].kernel)


def _is_apart(node: Node, earlier: Node) -> bool:
    around = {above.id for above in outwards(node)}
    inner = earlier
    for above in outwards(earlier):
        if above.id in around:
            return above.type in _BRANCHES
        last = above.named_children[-1] if above.type == "compound_statement" and above.named_children else None
        if last is not None and last.type == "return_statement" and inner != last:
            return True
        inner = above
    return False


def _with_arrays(module: LoadedModule, order: Sequence[_Paired], early: Sequence[bool], seed: int) -> ProposedOrder:
    """Launches whose arguments are those of their kernels, with one array where host code passes one."""
    random = np.random.default_rng(seed)
    rows = [dict(zip(kernel.parameters, arguments_of(kernel, chosen.request, random), strict=True))
            for _, chosen in order for kernel in [kernel_of(module, chosen.request)]]  # fmt: skip
    shared = dict[Any, np.ndarray[Any, Any]]()
    for (shape, _), values in zip(order, rows, strict=True):
        for name, word in _words(module, shape).items():
            array, home = values[name], _home(shape, word)
            if isinstance(array, np.ndarray) and (home not in shared or shared[home].nbytes < array.nbytes):
                shared[home] = array
    launches = list[PlannedLaunch]()
    for (shape, chosen), values, pdl in zip(order, rows, early, strict=True):
        for name, word in _words(module, shape).items():
            if isinstance(values[name], np.ndarray):
                values[name] = _viewed(shared[_home(shape, word)], values[name])
        numbers = dict(zip(values, shape.arguments, strict=False))
        args = [_number(numbers.get(name), value) for name, value in values.items()]
        extents = {"grid": shape.grid, "block": shape.block, "shared_bytes": shape.shared_bytes,
                   "cluster": shape.cluster or chosen.request.cluster}  # fmt: skip
        launches.append(launch(kernel_of(module, chosen.request), *args, pdl=pdl, **extents))
    return ProposedOrder(tuple(launches), tuple(shape.line for shape, _ in order))


def _words(module: LoadedModule, shape: LaunchShape) -> dict[str, str]:
    """What host code calls the arguments that are pointers, by their parameters."""
    kernel = module[kernels_of(module, shape)[0]]
    return {param.name: word for param, word in zip(kernel.written, shape.words, strict=False) if param.is_pointer}


def _home(shape: LaunchShape, word: str) -> Any:
    assert shape.host is not None
    return first_home(shape.host, word)


def _viewed(array: np.ndarray[Any, Any], like: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """An array as a kernel takes it: as it is, or its bytes in the kernel's type."""
    if array.dtype == like.dtype:
        return array
    octets = array.reshape(-1).view(np.uint8)
    return octets[: octets.size // like.itemsize * like.itemsize].view(like.dtype)


def _number(said: str | float | None, value: Any) -> Any:
    """A number as this launch passes it, of a parameter that is one."""
    return type(value)(said) if isinstance(said, (int, float)) and isinstance(value, (int, float)) else value
