"""From a .cu file to PTX: its device code, through NVRTC in a process of its own.

NVRTC gets the text and its own headers as they are. Host code that it refuses is blanked, one top-level piece after the
other, until only kernels and what they need are left; errors in those are the author's.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain, islice
from pathlib import Path
from typing import Any

from tilewright import process
from tilewright.cuda.cache import Cache, key_of, sources_version
from tilewright.cuda.nvrtc import Assembly
from tilewright.errors import Span, ToolError
from tilewright.load import cu_process
from tilewright.load.cu_cut import blanked, host_in_macros, host_members
from tilewright.load.cu_headers import (
    CUB,
    CUTLASS,
    IMPLICIT,
    INSTALL,
    OLD_CUB,
    THRUST,
    Include,
    absent,
    header_macros,
    headers,
    includes,
    lighter,
    mended,
    wheel_folders,
    wheel_versions,
    words_of_cutlass,
)
from tilewright.load.cu_host import chosen
from tilewright.load.cu_launches import launched_instances
from tilewright.load.cu_needed import Declaration, Needs
from tilewright.load.cu_textures import texture_options
from tilewright.load.cu_tree import (
    Chunk,
    Macros,
    bare,
    kernel_name,
    parted,
    pieces,
    qualified,
    split,
    tree_of,
    with_plain_launches,
)
from tilewright.ptx import STAND_INS

SECONDS, BYTES = 60, 4 << 30  # of a processor and of memory, that NVRTC may take
OF_CUTLASS = 240  # seconds, where its headers are included
WAITS = 5  # times that, on a machine that others use, too
KILLED = -9  # by the limit of a processor
ROUNDS = 8  # in which host code is left out
_OF_HOST = ("<<<", "cudaLaunch", "cudaMalloc(", "int main(")
_COMPLAINT = r"^{file}\((\d+)\): (?:catastrophic )?error: (.*)$"
_MESSAGES_SHOWN = 4
HOST_ALGORITHMS = ("thrust/", "cub/device/", "cub/util_allocator", "cub/grid/")  # headers
_SPACES = re.compile(r"\b__(?:host|device|forceinline)__")
_EXPRESSION = re.compile(r'^__nv_name_map\((\d+)\): error: .*Input name expression was: "([^"]*)"', re.MULTILINE)
_INSTANCE = re.compile(r'instantiation of "([^"]*) \[with ([^"]*)\]"')
_OF_ONE_FILE = re.compile(r"(\d+)(_GLOBAL__N_|_INTERNAL_)")
_WITH_PROCESS = re.compile(r"_(?:GLOBAL__N_|INTERNAL_)_?[0-9a-f]{8}_\d+_\w+_[0-9a-f]{8}_\d+")
_OF_NAMES = re.compile(r"^__nv_name_map\(\d+\): error: (.*)$", re.MULTILINE)
Complaint = tuple[str, int, str]  # of NVRTC: file, line, message
EXTRAS = {"curand": "curand", **dict.fromkeys(CUTLASS, "cutlass")}  # that have headers, by how these begin


@dataclass(frozen=True, slots=True)
class MadePtx:
    """PTX of a .cu file. names: of kernels, as the file and its callers write them, to symbols. texts: of the file, and
    of its own headers. log: what NVRTC said. refused: kernels, and instances of them, that it does not compile, beside
    others that it does.
    """

    ptx: str
    names: Mapping[str, str]
    texts: tuple[str, ...]
    log: str
    refused: Mapping[str, Complaint] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """All of them as one."""
        return "\n".join(self.texts)


def compile_cu(
    text: str,
    file: str,
    arch: str,
    *,
    defines: Mapping[str, object],
    include: Sequence[Path],
    names: Sequence[str],
    options: Sequence[str] = (),
    assembled: bool = False,
    left_out: dict[str, list[Chunk]] | None = None,
) -> MadePtx:
    """The PTX of a .cu text for an architecture, every instruction with its line. names: kernels that are asked for,
    instances of templates among them, besides those that the file launches. options: of NVRTC, besides. assembled: with
    the figures of ptxas in the log.
    left_out: by file, the pieces that another build of the same texts had to leave out; those of this one are added.
    What was made before of the same texts is read from disk.

    Raises ToolError, at the file's line, where NVRTC refuses device code, and at a limit of time or memory.
    """
    standard = [] if any(each.lstrip("-").startswith("std=") for each in options) else ["--std=c++17"]
    way = [f"--gpu-architecture=compute_{arch[3:]}", "--generate-line-info"]
    words = [*([f"--gpu-architecture={arch}", "--ptxas-options=-v"] if assembled else way), *standard, *options]
    words += [f"-I{folder}" for folder in wheel_folders()]
    words += [f"-D{name}={value}" if value is not None else f"-D{name}" for name, value in defines.items()]
    own, others = headers(text, Path(file).parent, include)
    first = {path: name for name, path in reversed(own.items())}
    others |= {name: f'#include "{first[path]}"\n' for name, path in own.items() if first[path] != name}
    beside = {name: path.read_text(encoding="utf-8", errors="replace") for path, name in first.items()}
    sources = [_Source("", file, text), *(_Source(name, str(own[name]), mended(name, beside[name])) for name in beside)]
    words += chain(*(choose([each.text for each in sources]) for choose in (lighter, texture_options)))
    seconds = OF_CUTLASS if any(name.startswith(CUTLASS) for name in (*own, *others)) else SECONDS
    request = {"file": file, "options": words, "seconds": seconds, "bytes": BYTES, "process": process.__file__}
    texts = chosen([each.text for each in sources], defines)
    launched = launched_instances(tuple(texts))["names"]
    spelled = {name: _addressed(qualified(name, texts)) for name in (*names, *launched) if "<" in name}
    store, key = Cache.of_environment(), _key(request, sources, others, names)
    kept = store.load(key)
    if kept is None:
        wanted, asked = list(dict.fromkeys(spelled.values())), tuple(spelled.get(name, name) for name in names)
        for each, read in zip(sources, texts, strict=True):
            each.chosen, each.dropped = read, list((left_out or {}).get(each.file, ()))
        made = _made(request, sources, others, wanted, asked)
        if left_out is not None:
            left_out |= {each.file: each.dropped for each in sources}
        kept = Assembly(arch, b"", *map(_settled, (made["ptx"], _notes(made))))
        store.save(key, kept)
    symbols, log, refused = json.loads(kept.log)
    found = {name: symbols[full] for name, full in spelled.items() if symbols.get(full)}
    return MadePtx(kept.ptx, found, tuple(texts), log, refused)


def _notes(made: Mapping[str, Any]) -> str:
    return json.dumps([made["names"], made["log"], made.get("refused", {})])


def _addressed(name: str) -> str:
    """The expression by which NVRTC knows an instance: where templates share a name, by what it takes, too."""
    instance, kinds = parted(name)
    return name if kinds is None else f"(void(*)({kinds}))&{instance}"


def _key(
    request: Mapping[str, Any], sources: Sequence[_Source], others: Mapping[str, str], names: Sequence[str]
) -> str:
    """The name of what is made of these texts: by this room, by this NVRTC, with NVIDIA's headers as they are."""
    texts = [(each.name, each.file, each.text) for each in sources]
    return key_of(texts, others, request["options"], names, wheel_versions(), sources_version(Path(__file__).parent))


def _made(
    request: dict[str, Any], sources: Sequence[_Source], others: Mapping[str, str], wanted: list[str],
    asked: tuple[str, ...],
) -> dict[str, Any]:  # fmt: skip
    """What NVRTC makes of the texts as they are, or without their host code, which it refuses wherever it launches or
    allocates; CUTLASS has functions that say neither.
    """
    made = {"ptx": "", "log": ""}
    has_host_code = any(sign in each.text for each in sources for sign in _OF_HOST)
    if not has_host_code and not any(name.startswith(CUTLASS) for name in others):
        with suppress(_Crash):  # at one of its instances, or at code of the host
            made = answered(request | _texts(sources, others) | {"names": wanted})
    return made if made["ptx"] else _without_host_code(request, sources, others, wanted, asked, made)


def _settled(text: str) -> str:
    """The text with one name for the scopes of one file: NVRTC puts the number of its process into theirs, so that the
    next compilation of the same file has other symbols.
    """
    made, last = [], 0
    for found in _OF_ONE_FILE.finditer(text):
        digits = found[1]  # of the length of the name, perhaps behind those that end the name before it
        for k in range(len(digits)):
            stop = found.start(2) + int(digits[k:])
            if digits[k] != "0" and _WITH_PROCESS.fullmatch(text, found.start(2), stop):
                made += [text[last : found.start(1) + k], f"{len(found[2])}{found[2]}"]
                last = stop
    return "".join([*made, text[last:]])


class _Source:
    """A file of the author's: the .cu file, or a header that it includes by ``name``. dropped: the pieces left out.
    chosen: its text, with blanks in branches of ``#if`` that are left out.
    """

    def __init__(self, name: str, file: str, text: str) -> None:
        self.name, self.file = name, file
        self.text = self.chosen = with_plain_launches(text)
        self.dropped: list[Chunk] = []
        self.reasons: dict[Chunk, tuple[int, str]] = {}  # why some of these are: what NVRTC says, and in which line
        self.macros: Macros | None = None  # those of all files, once they are known

    @cached_property
    def pieces(self) -> tuple[Chunk, ...]:
        return pieces(self.chosen, self.macros)

    @cached_property
    def _ends(self) -> list[int]:
        """Where the lines of the text end."""
        return [found.start() for found in re.finditer("\n", self.text)]

    def holds(self, piece: Chunk, lines: set[int]) -> bool:
        """Is one of these lines in a piece?"""
        body = self.text[piece.start : piece.stop]
        begin = piece.start + len(body) - len(body.lstrip())
        first = bisect_left(self._ends, begin) + 1
        return any(first <= line <= first + body.strip().count("\n") for line in lines)

    def restore(self, declarations: Sequence[Declaration]) -> None:
        """Take back pieces, or of functions of the host their declarations alone."""
        back = {entry.piece for entry in declarations}
        self.dropped = [piece for piece in self.dropped if piece not in back]
        self.dropped += [entry.body for entry in declarations if entry.body is not None]

    def drop(self, log: str, asked: Sequence[str] | None, back: set[str]) -> bool:
        """Leave out the pieces that the compiler complains about, but no kernel that is asked for, and none at all
        where nobody asks for one; None: any kernel. back: names of which it will not complain again. Are there any?
        """
        said = [(int(line), text) for line, text in _complaints(log, self.file) if not back & _quoted(text)]
        gone = {(one.start, one.stop) for one in self.dropped}
        wrong = list[Chunk]()
        for piece in self.pieces if said else ():
            lines = {line for line, _ in said}
            if (piece.start, piece.stop) in gone or not self.holds(piece, lines) or self._is_wanted(piece, asked):
                continue
            tree = tree_of(self.chosen, self.macros)
            members = [member for member in host_members(piece, tree) if (member.start, member.stop) not in gone]
            theirs = [member for member in members if self.holds(member, lines)]
            wrong += members if theirs else [piece]
            why = next(entry for entry in said if self.holds(theirs[0] if theirs else piece, {entry[0]}))
            self.reasons |= dict.fromkeys(theirs or [piece], why)
        self.dropped += wrong
        return bool(wrong)

    def _is_wanted(self, piece: Chunk, asked: Sequence[str] | None) -> bool:
        if asked is None:
            return False
        head = self.text[piece.start : piece.stop].partition("{")[0]
        plain = map(bare, asked)
        return piece.kernel and (not asked or any(re.search(rf"\b{name}\s*[(<]", head) for name in plain))


def _of_the_host(sources: Sequence[_Source]) -> dict[str, str]:
    """The headers of Thrust and of CUB that are included, algorithms that the host calls: without contents, or with
    what stands for Thrust where device code speaks of it, too.
    """
    is_used = any("thrust::" in blanked(source.text, source.dropped) for source in sources)
    text = f"#pragma once\n#include <{THRUST}>\n" if is_used else "#pragma once\n"
    names = [include.name for _, include in _includes(sources) if include.name.startswith(HOST_ALGORITHMS)]
    return {name: text if name.startswith("thrust/") else "#pragma once\n" for name in names}


def _includes(sources: Sequence[_Source]) -> Iterator[tuple[_Source, Include]]:
    """The includes of all files, names that macros make among them."""
    macros = header_macros("\n".join(each.text for each in sources))
    yield from ((source, each) for source in sources for each in includes(source.text, macros))


def _texts(sources: Sequence[_Source], others: Mapping[str, str]) -> dict[str, Any]:
    """The texts as a request has them: headers say where they are from, so that lines are found there."""
    made = [_without_spaces(blanked(each.text, each.dropped), each.macros) for each in sources]
    own = {each.name: f'#line 1 "{each.file}"\n{text}' for each, text in zip(sources[1:], made[1:], strict=True)}
    inside = {name: f'#line 1 "{STAND_INS}{name}"\n{text}' for name, text in others.items()}
    return {"source": made[0], "headers": {**inside, **own}}


def _without_spaces(text: str, macros: Macros | None) -> str:
    """The text whose lambdas do not say where they run, which NVRTC refuses: in device code it is one place.

    >>> _without_spaces("auto f = [&] __device__ (auto n) { return n; };", None)
    'auto f = [&]            (auto n) { return n; };'
    """
    bodies = macros.bodies if macros is not None else {}
    names = [name for name, body in bodies.items() if _SPACES.search(body) and not _SPACES.sub("", body).strip()]
    word = "|".join([_SPACES.pattern, *(rf"\b{name}\b" for name in names)])
    said = re.compile(rf"(?<=[^\]]\]|\[\])(?:\s*(?:{word}))+(?=\s*[({{])")
    return said.sub(lambda found: re.sub(r"\S", " ", found[0]), text)


def _without_host_code(
    request: dict[str, Any], sources: Sequence[_Source], others: Mapping[str, str], wanted: list[str],
    asked: tuple[str, ...], first: dict[str, Any],
) -> dict[str, Any]:  # fmt: skip
    """The result of NVRTC once host functions and other pieces that it refuses are blanked."""
    macros = Macros.of([*(each.text for each in sources), *words_of_cutlass(others)])
    needs = Needs([entry.chosen for entry in sources], macros, re.findall(r"[^\W\d]\w*", " ".join((*wanted, *asked))))
    for number, entry in enumerate(sources):
        entry.macros = macros
        entry.dropped += [*needs.left_out(number), *host_in_macros(entry.chosen, macros)]
        tree, gone = tree_of(entry.chosen, macros), {*entry.dropped}
        of_both = [piece for piece in entry.pieces if piece not in gone]
        entry.dropped += [member for piece in of_both for member in host_members(piece, tree, said=True)]
    others = {**others, **_of_the_host(sources)}
    request["options"] += ["--device-as-default-execution-space", f"--pre-include={IMPLICIT}"]
    if any(OLD_CUB.search(each.text) for each in sources):
        request["options"].append(f"--pre-include={CUB}")
    logs, refused = [first["log"]], dict[str, Complaint]()
    for _ in range(ROUNDS):
        spelled = {name: needs.qualified(name) for name in wanted}
        made, crashes = _without_crashes(request | _texts(sources, others), spelled, asked)
        refused |= crashes
        wanted = [name for name in wanted if name not in crashes]
        if made["ptx"]:
            return made | {
                "names": {name: made["names"].get(spelled[name]) for name in wanted},
                "refused": refused,
            }
        logs.append(made["log"])
        if blamed := {name: said for name, said in _blamed(sources, made["log"], wanted).items() if name not in asked}:
            refused |= blamed
            wanted = [name for name in wanted if name not in blamed]
            continue
        back = _restored(sources, needs, made["log"])
        if any([bool(back), *(source.drop(made["log"], asked, back) for source in sources)]):
            continue
        is_placed = any(_complaints(made["log"], each.file) for each in sources)
        unknown = {name: said for name, said in _unknown(made["log"], spelled).items() if name not in asked}
        if not unknown and not is_placed:  # of no instance in particular
            unknown = {name: ("", 0, made["log"]) for name in wanted if name not in asked}
        one_less = {} if unknown or asked else _without_kernels(sources, made["log"], wanted)
        if not unknown and not one_less:
            logs = logs if is_placed else logs[-1:]  # of the names that were asked for
            break
        refused |= one_less | {name: said for name, said in unknown.items() if bare(name) not in refused}
        wanted = [name for name in wanted if name not in unknown]
    raise _refused(sources, logs, others, request["options"], needs)


class _Crash(ToolError):
    """NVRTC has come to its end by a signal."""


def _without_crashes(
    request: dict[str, Any], spelled: Mapping[str, str], asked: Sequence[str]
) -> tuple[dict[str, Any], dict[str, Complaint]]:
    """What NVRTC answers of instances, and those at which it crashes: then it gets each of them alone."""
    try:
        return answered(request | {"names": [*spelled.values()]}), {}
    except _Crash as error:
        alone = {name: _crashes(request | {"names": [full]}) for name, full in spelled.items() if len(spelled) > 1}
        crashes = {name: ("", 0, str(error.given)) for name, does in alone.items() if does}
        if not crashes or len(crashes) == len(spelled) or not crashes.keys().isdisjoint(asked):
            raise
        return answered(request | {"names": [full for name, full in spelled.items() if name not in crashes]}), crashes


def _crashes(request: dict[str, Any]) -> bool:
    try:
        answered(request)
    except _Crash:
        return True
    return False


def _restored(sources: Sequence[_Source], needs: Needs, log: str) -> set[str]:
    """Take back what nobody seemed to need, and NVRTC misses; the names."""
    said = [text for entry in sources for _, text in _complaints(log, entry.file)] + _OF_NAMES.findall(log)
    back = [entry for entry in needs.restored(said) if entry.piece not in sources[entry.text].reasons]
    for number, source in enumerate(sources):
        source.restore([entry for entry in back if entry.text == number])
    return {name for entry in back for name in entry.names}


def _unknown(log: str, spelled: Mapping[str, str]) -> dict[str, Complaint]:
    """The instances that have no name for NVRTC, and what it says of each first. spelled: how it is told of each."""
    found = dict[str, Complaint]()
    for number, expression in _EXPRESSION.findall(log):
        said = re.search(rf"^__nv_name_map\({number}\): error: (.*)$", log, re.MULTILINE)
        plain = "".join(expression.split())
        why = "", 0, said[1] if said else ""
        found |= {name: why for name, full in spelled.items() if "".join(full.split()) == plain}
    return found


def _blamed(sources: Sequence[_Source], log: str, wanted: Sequence[str]) -> dict[str, Complaint]:
    """The instances that NVRTC refuses, where it does not refuse others of a kernel: their type lacks an operator."""
    blamed = dict[str, Complaint]()
    for block in log.split("\n\n"):
        said = [(entry.file, int(line), text) for entry in sources for line, text in _complaints(block, entry.file)]
        for function, values in _INSTANCE.findall(block) if said else ():
            made = [_plainly(value.partition("=")[2]) for value in split(values)]
            kernel = bare(function.partition("(")[0]).split()[-1:]
            for name in wanted:
                taken = [_plainly(entry) for entry in split(name.partition("<")[2].rpartition(">")[0])]
                if kernel == [bare(name)] and taken == made[: len(taken)]:
                    blamed.setdefault(name, said[0])
    others = {bare(name) for name in wanted if name not in blamed}
    return {name: said for name, said in blamed.items() if bare(name) in others}


def _plainly(argument: str) -> str:
    """An argument of a template, the same for spellings of it."""
    return re.sub(r"\b\w+::|\(\w[\w ]*\)(?=\w)|\s", "", argument)


def _without_kernels(sources: Sequence[_Source], log: str, wanted: Sequence[str]) -> dict[str, Complaint]:
    """Leave out the kernels that NVRTC refuses, where others are made; what it says of them, by their names."""
    instances, refused, is_made = {bare(name) for name in wanted}, dict[str, Complaint](), False
    gone = list[tuple[_Source, Chunk]]()
    for source in sources:
        said = [(int(line), text) for line, text in _complaints(log, source.file)]
        for piece in (piece for piece in source.pieces if piece.kernel and piece not in source.dropped):
            name = kernel_name(piece, tree_of(source.chosen, source.macros))
            if why := next((entry for entry in said if source.holds(piece, {entry[0]})), None):
                refused.setdefault(name, (source.file, *why))
                gone.append((source, piece))
            elif piece.node is None or piece.node.type == "function_definition" or name in instances:
                is_made = True
    if not is_made:
        return {}
    for source, piece in gone:
        source.dropped.append(piece)
    return refused


def _quoted(message: str) -> set[str]:
    """The names that a message of NVRTC has in quotes."""
    return {word for part in message.split('"')[1::2] for word in re.findall(r"[^\W\d]\w*", part)}


def _complaints(log: str, file: str) -> list[tuple[str, str]]:
    return re.findall(_COMPLAINT.format(file=re.escape(file)), log, re.MULTILINE)


def _refused(
    sources: Sequence[_Source], logs: Sequence[str], others: Mapping[str, str], options: Sequence[str], needs: Needs
) -> ToolError:
    """The error for device code that does not compile: NVRTC's first messages about what was not left out."""
    found = next(filter(None, (list(_of_device_code(sources, log)) for log in logs)), [])
    wrong = [line for line in logs[-1].splitlines() if re.search(r"\berror\b", line)] or logs[-1].splitlines()
    lines = [f"line {number}: {message}" for _, number, message in found[:_MESSAGES_SHOWN]] or wrong[:8]
    names = set[str]().union(*map(_quoted, lines))
    lines += [*islice(_why_left_out(sources, needs, names), _MESSAGES_SHOWN)]
    at = Span(found[0][0].file, found[0][1]) if found else None
    reached = "\n".join(logs)
    missing = sorted(name for name, text in others.items() if text == absent(name) and f'no header {name}"' in reached)
    if not missing or not found:
        hint = None if found else _clash(logs[-1], options)
        return ToolError("NVRTC refuses the device code", given="\n".join(lines), at=at, hint=hint)
    hint = f"include=[FOLDER], or -I FOLDER, with {', '.join(missing)}"
    if extras := sorted({extra for name in missing for start, extra in EXTRAS.items() if name.startswith(start)}):
        hint = f"pip install 'tilewright[{','.join(extras)}]'"
    if not wheel_folders():
        hint = f"{hint}; NVIDIA's headers come with {INSTALL}"
    return ToolError(f"there is no header {', '.join(missing)}", given="\n".join(["without it:", *lines]), hint=hint,
                     at=_first_include(sources, missing) or at)  # fmt: skip


def _clash(log: str, options: Sequence[str]) -> str | None:
    """A hint where NVRTC complains about lines of headers that have the name of a macro of the command line."""
    names = [option[2:].partition("=")[0] for option in options if option.startswith("-D")]
    used = {word for line in re.findall(r": error: .*\n(.*)", log) for word in re.findall(r"\w+", line)}
    clashing = [f"-D {name}" for name in names if name in used]
    return f"another name than {', '.join(clashing)}: these headers use it for something else" if clashing else None


def _of_device_code(sources: Sequence[_Source], log: str) -> Iterator[tuple[_Source, int, str]]:
    """What NVRTC says of pieces that are still there: file, line and message."""
    for each in sources:
        for line, message in _complaints(log, each.file):
            if not any(each.holds(piece, {int(line)}) for piece in each.dropped):
                yield each, int(line), message


def _why_left_out(sources: Sequence[_Source], needs: Needs, names: set[str]) -> Iterator[str]:
    """Of names that NVRTC misses, and of those that these were left out for: where they are declared, and why that was
    left out.
    """
    todo, seen = sorted(names), set[str]()
    while todo:
        name = todo.pop(0)
        for entry in needs.of(name) if name not in seen else ():
            source = sources[entry.text]
            number, said = source.reasons.get(entry.piece, (0, "it is code of the host"))
            if entry.piece in source.dropped:
                begin = source.text[: entry.piece.stop].rstrip().count("\n") + 1
                begin -= source.text[entry.piece.start : entry.piece.stop].strip().count("\n")
                where = f"line {number}: " * (number not in (0, begin))
                yield f"{name}, {Path(source.file).name}:{begin}, left out: {where}{said}"
                todo += sorted(_quoted(said) - {name})
        seen.add(name)


def _first_include(sources: Sequence[_Source], names: Sequence[str]) -> Span | None:
    """The line of the first include of one of these."""
    for source, include in _includes(sources):
        if include.name in names:
            return Span(source.file, source.text.count("\n", 0, include.start) + 1)
    return None


def answered(request: dict[str, Any]) -> dict[str, Any]:
    """What the process answers. Raises ToolError where it ends without an answer."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    command = [sys.executable, "-c", Path(cu_process.__file__).read_text(encoding="utf-8")]  # the room is not imported
    try:
        done = subprocess.run(command, input=json.dumps(request), capture_output=True, text=True, check=False,
                              timeout=WAITS * request["seconds"], env=environment)  # fmt: skip
    except subprocess.TimeoutExpired:
        raise _out_of_time(request) from None
    if done.returncode == KILLED:
        raise _out_of_time(request)
    if done.returncode < 0:
        raise _Crash("NVRTC did not finish", given=f"signal {-done.returncode}", allowed=f"{BYTES >> 30} GiB of memory")
    if done.returncode:
        last = done.stderr.strip().splitlines()[-1:] or [f"exit code {done.returncode}"]
        raise ToolError("NVRTC did not finish", given=last[0], allowed=f"{BYTES >> 30} GiB of memory")
    found: dict[str, Any] = json.loads(done.stdout)
    if found.get("missing"):
        raise ToolError("NVRTC is not installed", given=found["log"], hint="pip install 'tilewright[cuda]'")
    return found


def _out_of_time(request: dict[str, Any]) -> ToolError:
    return ToolError("NVRTC takes too long", given=request["file"], allowed=f"{request['seconds']} s")
