"""A process that runs what strangers wrote: what it may take, what it may do, and what it was seen to try.

Limits of the system bound time, memory and the size of files. A filter of system calls (seccomp) refuses sockets, other
processes, signals, and every way to change a file; where there is none, a network namespace of its own leaves a process
without any address to reach. Rules on paths (Landlock) let it read libraries and its own files alone. Not every system
has these: `Walls` says what holds, and whoever serves passes that on.

An audit hook (PEP 578) sees what Python code tries, and gives it a name. It is a witness, not a wall.

Source: Linux, seccomp(2), landlock(7), namespaces(7), setrlimit(2); system call numbers of <asm/unistd.h>.
"""

from __future__ import annotations

import ast
import ctypes
import os
import pickle
import platform
import select
import signal
import struct
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields
from functools import partial
from threading import get_ident, main_thread
from time import monotonic, sleep
from typing import Any

from tilewright.process import hold

CLONE_NEWNET, CLONE_NEWUSER = 0x40000000, 0x10000000
PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 22, 2
RETURN_ALLOW, RETURN_ERROR, EPERM, ENOSYS = 0x7FFF0000, 0x00050000, 1, 38
CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446  # of Landlock, on every architecture
READ_FILE, READ_FOLDER, BENEATH = 1 << 2, 1 << 3, 1
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC

# Bytes of `struct seccomp_data`: the call's number, the architecture, the low word of argument n at 16 + 8n.
NUMBER, ARCHITECTURE, ARGUMENT = 0, 4, 16
LOAD, EQUAL, ANY_BIT, RETURN = 0x20, 0x15, 0x45, 0x06  # BPF_LD|W|ABS, BPF_JMP|JEQ|K, BPF_JMP|JSET|K, BPF_RET|K

# Refused system calls: x86-64 and AArch64; None where an architecture lacks one.
REFUSED = {
    "socket": (41, 198), "socketpair": (53, 199), "connect": (42, 203), "bind": (49, 200),
    "fork": (57, None), "vfork": (58, None), "execve": (59, 221), "execveat": (322, 281),
    "kill": (62, 129), "tkill": (200, 130), "tgkill": (234, 131), "pidfd_send_signal": (424, 424),
    "ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271), "pidfd_getfd": (438, 438),
    "truncate": (76, 45), "rename": (82, None), "mkdir": (83, None), "rmdir": (84, None), "creat": (85, None),
    "link": (86, None), "unlink": (87, None), "symlink": (88, None), "chmod": (90, None), "chown": (92, None),
    "mknod": (133, None), "mkdirat": (258, 34), "mknodat": (259, 33), "unlinkat": (263, 35), "renameat": (264, 38),
    "linkat": (265, 37), "symlinkat": (266, 36), "fchmodat": (268, 53), "fchownat": (260, 54), "renameat2": (316, 276),
    "mount": (165, 40), "setns": (308, 268), "unshare": (272, 97), "bpf": (321, 280), "io_uring_setup": (425, 425),
}  # fmt: skip
OPEN = {"open": (2, None, 1), "openat": (257, 56, 2)}  # the numbers, and which argument has the flags
ABSENT = {"openat2": (437, 437), "clone3": (435, 435)}  # their flags lie in memory, where no filter sees them
CLONE = (56, 220)  # its flags are argument 0; threads are allowed
CLONE_THREAD = 0x00010000
MACHINES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}


@dataclass(frozen=True, slots=True)
class Walls:
    """What bounds a process on this system. files, processes, network: is it kept from changing the one, starting or
    signalling the other, reaching the third? reading: from files of others?
    """

    time: bool
    memory: bool
    network: bool
    files: bool
    processes: bool
    reading: bool

    @classmethod
    def here(cls) -> Walls:
        """Those that this system can raise: tried in a process that ends at once."""
        if not hasattr(os, "fork"):
            return cls(*[False] * len(fields(cls)))
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            walls = confined(seconds=60, nbytes=1 << 40)
            os.write(write, bytes([walls.network, walls.files, walls.reading]))
            os._exit(0)
        os.close(write)
        with os.fdopen(read, "rb") as pipe:
            network, files, reading = map(bool, pipe.read() or b"\0\0\0")
        os.waitpid(child, 0)
        return cls(time=True, memory=True, network=network, files=files, processes=files, reading=reading)

    def missing(self) -> Iterable[str]:
        """A sentence for each wall that does not stand."""
        words = {
            "time": "the seconds of a submission are not limited by the system",
            "memory": "the memory of a submission is not limited by the system",
            "network": "a submission's Python code can reach the network",
            "files": "a submission's Python code can change files",
            "processes": "a submission's Python code can start and signal processes",
            "reading": "a submission's Python code can read files of the machine",
        }
        return (text for name, text in words.items() if not getattr(self, name))


def confined(*, seconds: int, nbytes: int, reads: Iterable[str] = ()) -> Walls:
    """Raise all walls around this process, for good. nbytes: of address space. reads: folders, besides libraries'.

    Whoever calls has opened what the process needs: afterwards it reads files, writes to what is open, and computes.
    """
    hold(seconds=seconds, nbytes=nbytes, file_bytes=0, for_good=True)
    reading = _reads_only((*LIBRARIES, *SYSTEM, *DEVICES, *reads))
    filtered = _filtered()
    network = filtered or _without_network()  # a namespace takes 10 ms to make
    return Walls(time=True, memory=True, network=network, files=filtered, processes=filtered, reading=reading)


def _reads_only(places: Iterable[str]) -> bool:
    """Rules that let this process read what is below these places alone; False where the system has none."""
    if sys.platform != "linux":
        return False
    with suppress(AttributeError, OSError):
        call, prctl = ctypes.CDLL(None).syscall, ctypes.CDLL(None).prctl
        rules = call(CREATE_RULESET, struct.pack("Q", READ_FILE | READ_FOLDER), ctypes.c_size_t(8), 0)
        if rules < 0:
            return False
        for place in filter(os.path.exists, places):
            below = os.open(place, os.O_PATH)
            rights = READ_FILE | (READ_FOLDER if os.path.isdir(place) else 0)
            call(ADD_RULE, rules, BENEATH, struct.pack("=Qi", rights, below), 0)
            os.close(below)
        held = prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 and call(RESTRICT_SELF, rules, 0) == 0
        os.close(rules)
        return bool(held)
    return False


def _without_network() -> bool:
    """A network namespace of its own, of root or by a user namespace of its own: it has no interface that is up."""
    with suppress(AttributeError, OSError):
        unshare = ctypes.CDLL(None).unshare
        return bool(unshare(CLONE_NEWNET) == 0 or unshare(CLONE_NEWUSER | CLONE_NEWNET) == 0)
    return False


def _filtered() -> bool:
    """The filter of system calls; False where the system has none, or an architecture whose numbers we lack."""
    if sys.platform != "linux" or platform.machine() not in MACHINES:
        return False
    program = _program(*MACHINES[platform.machine()])
    held = ctypes.create_string_buffer(program)
    length = len(program) // 8
    pointer = ctypes.create_string_buffer(struct.pack("HxxxxxxQ", length, ctypes.addressof(held)))  # struct sock_fprog
    with suppress(AttributeError, OSError):
        prctl = ctypes.CDLL(None).prctl
        if prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0:
            return bool(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, pointer, 0, 0) == 0)
    return False


def _program(column: int, architecture: int) -> bytes:
    """The filter for classic BPF, eight bytes an instruction. Each rule is a test that skips its own end.

    column: of the tables above. architecture: AUDIT_ARCH_*, calls of another one (32 bits) are refused as a whole.
    """
    error = RETURN_ERROR | EPERM
    lines = [_line(LOAD, ARCHITECTURE), _line(EQUAL, architecture, yes=1), _line(RETURN, error), _line(LOAD, NUMBER)]
    if column == 0:
        lines += [_line(ANY_BIT, 0x40000000, no=1), _line(RETURN, error)]  # x32 has numbers of its own
    for row in REFUSED.values():
        if (number := row[column]) is not None:
            lines += [_line(EQUAL, number, no=1), _line(RETURN, error)]
    for row in ABSENT.values():
        lines += [_line(EQUAL, row[column], no=1), _line(RETURN, RETURN_ERROR | ENOSYS)]
    for *numbers, place in OPEN.values():
        if (number := numbers[column]) is not None:
            lines += _flags(number, place, [_line(ANY_BIT, WRITING, no=1), _line(RETURN, error)])
    lines += _flags(CLONE[column], 0, [_line(ANY_BIT, CLONE_THREAD, yes=1), _line(RETURN, error)])
    return b"".join([*lines, _line(RETURN, RETURN_ALLOW)])


def _flags(number: int | None, place: int, judged: list[bytes]) -> list[bytes]:
    """A rule about an argument of one system call: what it says holds for the flags, and all else is allowed."""
    assert number is not None, "tables name it"
    end = _line(RETURN, RETURN_ALLOW)
    return [_line(EQUAL, number, no=len(judged) + 2), _line(LOAD, ARGUMENT + 8 * place), *judged, end]


def _line(code: int, value: int, *, yes: int = 0, no: int = 0) -> bytes:
    """One `struct sock_filter`: operation, how many lines a test skips where it holds and where not, and a constant."""
    return struct.pack("HBBI", code, yes, no, value)


# What Python code tries

TRIED: dict[str, str] = {
    "network": "it reaches for the network",
    "processes": "it starts or signals processes",
    "files": "it changes files",
    "files of others": "it reads files of the machine",
    "native code": "it calls native code",
    "the interpreter": "it looks into the interpreter: frames, objects of others, hooks",
    "the harness": "it replaces parts of what judges it",
    "the environment": "it changes the environment of the process",
    "the walls": "it asks the system for what nobody here may",
}
"""What a submission may not try, by name."""

_EVENTS = {
    "socket.": "network", "http.": "network", "urllib.": "network", "ftplib.": "network", "smtplib.": "network",
    "subprocess.": "processes", "os.system": "processes", "os.exec": "processes", "os.fork": "processes",
    "os.posix_spawn": "processes", "os.spawn": "processes", "os.kill": "processes", "signal.": "processes",
    "os.remove": "files", "os.rename": "files", "os.rmdir": "files", "os.mkdir": "files", "os.link": "files",
    "os.symlink": "files", "os.truncate": "files", "os.chmod": "files", "os.chown": "files", "shutil.": "files",
    "tempfile.": "files", "sqlite3.": "files",
    "ctypes.": "native code", "mmap.": "native code",
    "gc.": "the interpreter", "sys._getframe": "the interpreter", "sys._current_": "the interpreter",
    "sys.settrace": "the interpreter", "sys.setprofile": "the interpreter", "sys.addaudithook": "the interpreter",
    "code.__new__": "the interpreter", "object.__setattr__": "the harness", "object.__delattr__": "the harness",
    "os.putenv": "the environment", "os.unsetenv": "the environment", "os.chdir": "the environment",
}  # fmt: skip


NEAR = ("gc.", "sys.", "code.", "object.", "compile")  # events that count where the author's own code is the caller
PACKAGES = [folder for folder in sys.path if folder.endswith("-packages")]
LIBRARIES = tuple(
    {sys.prefix, sys.base_prefix, os.path.dirname(os.__file__), os.path.dirname(os.path.dirname(__file__)), *PACKAGES}
)
SYSTEM = ("/usr", "/lib", "/lib64", "/etc/ld.so.cache", "/proc/self", "/proc/cpuinfo", "/proc/meminfo",
          "/sys/devices/system/cpu")  # fmt: skip  # what libraries ask for as they are loaded
LISTINGS = ("os.listdir", "os.scandir")
DEVICES = ("/dev/null", "/dev/zero", "/dev/random", "/dev/urandom")
IMPORTING = "<frozen importlib"


def watched(file: str, tell: Callable[[str, int | None], None]) -> None:
    """From now on ``tell`` hears what code of ``file`` tries: a name of `TRIED`, and the line. It is refused there.

    Only what begins in the file counts, or in a thread, which nobody else starts: our own compiler reads frames, too.
    """

    looking = False  # the hook looks at frames itself

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal looking
        if looking or (name := _named(event, arguments, os.path.dirname(file))) is None:
            return
        looking = True
        line = _line_in(file, near=event.startswith(NEAR), imports=name != "files of others")
        looking = False
        if line is not None:
            tell(name, line or None)
            raise PermissionError(f"refused: {TRIED[name]}")

    sys.addaudithook(hook)


def _named(event: str, arguments: tuple[Any, ...], folder: str) -> str | None:
    """What an event is called, if it is none of the author's business. folder: of the submission."""
    if event == "open":
        path, mode, flags = arguments
        by_mode = isinstance(mode, str) and bool(set(mode) & set("wax+"))
        if by_mode or (isinstance(flags, int) and flags & WRITING):
            return "files"
        return None if isinstance(path, int) or _is_known(path, folder) else "files of others"
    if event in LISTINGS:
        return None if _is_known(os.path.join(arguments[0] or ".", "any"), folder) else "files of others"
    if event == "import":
        return "the harness" if str(arguments[0]).startswith("tilewright.serve") else None
    if event == "compile":  # under the name of a library's file
        return "the interpreter" if _is_library(str(arguments[1])) else None
    return next((name for start, name in _EVENTS.items() if event.startswith(start)), None)


def _is_known(path: Any, folder: str) -> bool:
    """Is it a file of a library or of the submission, which may be read?"""
    if not isinstance(path, (str, bytes)):
        return True  # what is no path is no file
    whole = os.path.realpath(os.fsdecode(path))
    return whole in DEVICES or _is_library(whole) or os.path.dirname(whole) == os.path.realpath(folder)


def _is_library(file: str) -> bool:
    return file.startswith(tuple(folder + os.sep for folder in LIBRARIES))


def _line_in(file: str, *, near: bool, imports: bool) -> int | None:
    """The line of the file that has led here; 0 of a thread that began elsewhere, None where nothing of the file did.

    near: only where no library is between. imports: also by way of an import that the file asks for.
    """
    frame = sys._getframe(2)
    while frame is not None:
        name = frame.f_code.co_filename
        if name == file:
            return frame.f_lineno
        if (near and (_is_library(name) or name.startswith("<frozen"))) or (not imports and name.startswith(IMPORTING)):
            return None
        frame = frame.f_back  # type: ignore[assignment]  # None at the end
    return None if get_ident() == main_thread().ident else 0


JUDGING = ("numpy", "numpy.random", "numpy.linalg", "builtins", "time", "json", "pickle", "os", "sys", "random",
           "ml_dtypes", "triton")  # fmt: skip
OURS = ("tilewright.", "triton.")  # rooms whose own functions and methods count, too: what compiles what is judged


@dataclass(frozen=True, slots=True)
class HeldPart:
    """A function, class or method, and where it is held: of a module or a class."""

    holder: Mapping[str, Any]
    name: str
    value: object
    label: str


def replaced(before: Iterable[HeldPart]) -> str | None:
    """The first of these that is another one now: ``tilewright.sim.Program``."""
    return next((part.label for part in before if part.holder.get(part.name) is not part.value), None)


PLAIN_IMPORTS = ("__future__", "dataclasses", "math", "numpy", "tilewright", "typing")
REACHING = {"setattr", "delattr", "getattr", "vars", "globals", "locals", "exec", "eval", "compile", "type", "super"}


def may_replace(text: str) -> bool:
    """Could a text of Python replace what is held elsewhere? Where it plainly cannot, nobody needs to look: that takes
    longer than to run most texts. It cannot where it imports a few modules at most, sets no attribute, and has neither
    names with two underscores nor functions that reach for others by name.
    """
    try:
        nodes = [*ast.walk(ast.parse(text))]
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return True
    return any(map(_reaches, nodes))


def _reaches(node: ast.AST) -> bool:
    match node:
        case ast.Import(names=names):
            return any(alias.name not in PLAIN_IMPORTS for alias in names)
        case ast.ImportFrom(module=module):
            return module not in PLAIN_IMPORTS
        case ast.Attribute(attr=name, ctx=context):
            return name.startswith("__") or not isinstance(context, ast.Load)
        case ast.Name(id=name):
            return name.startswith("__") or name in REACHING
    return False


def held() -> list[HeldPart]:
    """Functions, classes and methods of the modules that judge, compute and tell the time."""
    names = [name for name in sys.modules if name in JUDGING or name.startswith(OURS)]
    modules = [HeldPart(sys.modules, name, sys.modules[name], f"the module {name}") for name in names
               if not name.startswith("tilewright.serve")]  # fmt: skip  # which nobody finds
    return [*modules, *(part for name in names for part in _callables(name))]


def _callables(module: str) -> Iterator[HeldPart]:
    """Of our own modules those that they define, with the methods of classes; of others all that they offer."""
    ours, holder = module.startswith(OURS), vars(sys.modules[module])
    for name, value in holder.items():
        if callable(value) and not (ours and getattr(value, "__module__", None) != module):
            yield HeldPart(holder, name, value, f"{module}.{name}")
            if ours and isinstance(value, type):
                members = vars(value)
                yield from (
                    HeldPart(members, of, member, f"{module}.{name}.{of}")
                    for of, member in members.items()
                    if callable(member)
                )


# Work in a process of its own, forked from a warm one, and its answer as bytes; such a process, too, that knows
# nothing of the request.


MOST_BYTES = 1 << 30  # of an answer
MOST_FILES = 1 << 16  # numbers of open files beyond are closed by nobody; nothing here has so many
PR_SET_PDEATHSIG = 1


@dataclass(frozen=True, slots=True)
class Died:
    """A process that gave no answer. seconds: it was ended after so many; else ``code`` is how it ended. said: what it
    had written by then.
    """

    seconds: float | None = None
    code: int = 0
    said: bytes = b""

    def __str__(self) -> str:
        if self.seconds is not None:
            return f"it took longer than {self.seconds:g} s"
        if self.code < 0:
            return f"its process was ended by {signal.Signals(-self.code).name}"
        return f"its process ended by itself, code {self.code}"


Say = Callable[[bytes], None]
"""Writes bytes of an answer."""


class Child:
    """A process forked from this one, which does its work and ends."""

    def __init__(self, work: Callable[[Say], None], *, quiet: bool, keep: Sequence[int] = ()) -> None:
        """An exception of ``work`` ends it with code 1. quiet: errors are not printed either. keep: files that stay
        open in it.
        """
        self._read, write = os.pipe()
        self._process = os.fork()
        if self._process == 0:
            _do(work, write, quiet, keep)
        os.close(write)

    def end(self) -> None:
        """End it, unheard."""
        os.close(self._read)
        os.kill(self._process, signal.SIGKILL)
        os.waitpid(self._process, 0)

    def answer(self, seconds: float) -> bytes | Died:
        """All that it says, once it has ended well; it is ended after so many seconds."""
        end, parts, nbytes = monotonic() + seconds, list[bytes](), 0
        while select.select([self._read], [], [], max(0.0, end - monotonic()))[0]:
            part = os.read(self._read, 1 << 20)
            nbytes += len(part)
            if not part or nbytes > MOST_BYTES:
                break
            parts.append(part)
        if nbytes > MOST_BYTES:
            os.kill(self._process, signal.SIGKILL)  # before nobody reads any more, which would end it, too
        os.close(self._read)
        code = _ended(self._process, end)
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process, signal.SIGKILL)  # what it has left running
        said = b"".join(parts)
        return said if code == 0 else Died(seconds if code is None else None, code or 0, said)


def apart(
    work: Callable[[], bytes], *, seconds: float, nbytes: int, walls: bool, reads: Sequence[str] = ()
) -> bytes | Died:
    """What ``work`` returns, done in a child that ends with it, or at the limits of time and address space.

    walls: confine the child, too; it then has no output either, and of folders reads those of libraries and ``reads``.
    """

    def bounded(say: Say) -> None:
        if walls:
            confined(seconds=whole(seconds), nbytes=nbytes, reads=reads)
        else:
            hold(seconds=whole(seconds), nbytes=nbytes)
        say(work())

    return Child(bounded, quiet=walls).answer(seconds)


def whole(seconds: float) -> int:
    """Of processor time, for a process that is ended after so many seconds."""
    return int(seconds) + 2


def written(file: int, data: bytes) -> None:
    """Write all of it."""
    left = memoryview(data)
    while left:
        left = left[os.write(file, left) :]


def _do(work: Callable[[Say], None], write: int, quiet: bool, keep: Sequence[int]) -> None:
    """In the child: it never returns."""
    code = 1
    try:
        os.setsid()
        end_with_parent()
        silenced((0, 1, 2) if quiet else (0, 1))
        start = 3
        for file in sorted((write, *keep)):  # no answer but this one can be written to
            os.closerange(start, file)
            start = file + 1
        os.closerange(start, MOST_FILES)
        work(partial(written, write))
        code = 0
    finally:
        os._exit(code)


def silenced(files: Iterable[int]) -> None:
    """These files of this process hold nothing, and take all that is written."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for file in files:
        os.dup2(nothing, file)


def end_with_parent() -> None:
    """This process ends where the one that has forked it ends, on Linux."""
    with suppress(AttributeError, OSError):
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def _ended(child: int, end: float) -> int | None:
    """Its exit code, or minus the signal that ended it; None where it had to be ended."""
    while True:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        if monotonic() >= end:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return None
        sleep(0.0005)


# A process that knows nothing of a request: forked before that is read, it is told of the submission's file alone.
#
# Whatever an author's code finds in its own process, by frames or by objects of others, no reference is there, no
# inputs, no seed of them, and no tolerance.


Work = Callable[[], bytes]
"""A function of a module with arguments that are data: what a pickle can name."""
Read = Callable[[Work, float, int, str], "bytes | Died"]
"""How work is done behind walls: with so many seconds, bytes of address space, and a folder to read."""


def read_here(work: Work, seconds: float, nbytes: int, folder: str) -> bytes | Died:
    """In a child of this process, which knows what this one knows."""
    return apart(work, seconds=seconds, nbytes=nbytes, walls=True, reads=[folder])


class Unaware:
    """The process. It does one work, or ends with the one that has forked it."""

    def __init__(self) -> None:
        asked, self._ask = os.pipe()
        self._child: Child | None = Child(partial(_once, asked), quiet=True, keep=(asked,))
        os.close(asked)

    def read(self, work: Work, seconds: float, nbytes: int, folder: str) -> bytes | Died:
        """What the work returns, done behind walls."""
        with os.fdopen(self._ask, "wb") as pipe:
            pipe.write(pickle.dumps((work, seconds, nbytes, folder)))
        child, self._child = self._child, None
        assert child is not None, "it does one work"
        return child.answer(seconds)

    def end(self) -> None:
        """End it where it was not asked."""
        if self._child is not None:
            self._child.end()


def _once(asked: int, say: Say) -> None:
    """In the process: the work that it is told."""
    with os.fdopen(asked, "rb") as pipe:
        work, seconds, nbytes, folder = pickle.load(pipe)
    confined(seconds=whole(seconds), nbytes=nbytes, reads=[folder])
    say(work())
