"""tilewright as tools of the Model Context Protocol: an agent checks, explains and looks up, without a GPU.

``pip install 'tilewright[mcp]'``, and ``tilewright mcp`` as the command of a server over stdio. Names, parameters and
docstrings of the functions, with `ARGUMENTS`, are the schemas that an agent sees.
"""

from __future__ import annotations

import json
import math
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache, wraps
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_type_hints

from tilewright.errors import TilewrightError, ToolError

if TYPE_CHECKING:
    from mcp.server.mcpserver import MCPServer

# A source and a question about it, answered by our command line in a process of its own.
#
# The process is there so that a kernel that hangs or takes all memory gets an answer; it is no sandbox: a Python source
# runs with the rights of the user who serves.


Language = Literal["py", "cu", "ptx"]
SECONDS = 60.0
START_SECONDS = 20.0  # to start Python and compile, beyond the limit of a run
MOST_LETTERS = 40_000  # of an answer: more helps no reader


def file_of(folder: str, source: str, language: Language, kernel: str | None) -> str:
    """The source as a file of this folder, named as a command takes it: with the kernel behind a colon."""
    file = Path(folder) / f"kernel.{language}"
    file.write_text(source, encoding="utf-8")
    return f"{file}:{kernel}" if kernel else str(file)


def asked(
    command: str, *words: str, source: str | None = None, language: Language = "py", kernel: str | None = None,
    seconds: float = SECONDS, **options: str | Iterable[str] | None,
) -> str:  # fmt: skip
    """What `tilewright COMMAND [FILE] WORDS OPTIONS` prints. options: several values give one several times.

    Raises ToolError with the command's complaint where it could not be done.
    """
    several = {name: [value] if isinstance(value, str) else value or () for name, value in options.items()}
    words = (*words, *(f"--{name}={value}" for name, values in several.items() for value in values))
    with tempfile.TemporaryDirectory() as folder:
        place = [] if source is None else [file_of(folder, source, language, kernel)]
        line = [sys.executable, "-m", "tilewright", command, *place, *words]
        try:
            done = subprocess.run(line, cwd=folder, capture_output=True, text=True, timeout=seconds + START_SECONDS)
        except subprocess.TimeoutExpired:
            raise ToolError(f"stopped: tilewright {command} took longer than {seconds:g} s") from None
        text = (done.stdout + done.stderr).replace(f"{folder}/", "")
    text = text if len(text) <= MOST_LETTERS else f"{text[:MOST_LETTERS]}\n... ({len(text)} letters in all)"
    if done.returncode and not done.stdout:
        raise ToolError(text.strip())
    return text


# The documentation, searched by words: sections of its pages, the ones that hold the most and rarest words first.


PACKAGE = Path(__file__).parents[1]
FOLDERS = (PACKAGE / "serve" / "pages", PACKAGE.parent / "docs")  # of a wheel; of the project's own folder
WORD = re.compile(r"[a-z_]+[a-z0-9_]*")


@dataclass(frozen=True)
class Section:
    """A part of a page, from one heading to the next. page: its file below the folder of the documentation."""

    page: str
    heading: str
    text: str

    @property
    def words(self) -> Counter[str]:
        """How often it has each word; those of the heading count five times."""
        return Counter(WORD.findall(self.text.lower())) + Counter(WORD.findall(self.heading.lower()) * 5)


def search(query: str, most: int = 5) -> list[Section]:
    """The sections that fit a query best, the best first. Raises ToolError where the pages are not installed."""
    sections, counts, rarity = _index()
    asked = set(WORD.findall(query.lower()))
    scores = [
        sum(rarity.get(word, 0.0) * count[word] / (count[word] + 1.0) for word in asked) / math.log2(64 + count.total())
        for count in counts
    ]
    best = sorted(range(len(sections)), key=lambda place: -scores[place])
    return [sections[place] for place in best[:most] if scores[place] > 0]


@cache
def _index() -> tuple[list[Section], list[Counter[str]], dict[str, float]]:
    """All sections, the words of each, and how rare each word is."""
    folder = next((candidate for candidate in FOLDERS if (candidate / "index.md").is_file()), None)
    if folder is None:
        raise ToolError(
            "the pages of the documentation are not installed", hint="pip install --force-reinstall tilewright"
        )
    files = [file for file in sorted(folder.rglob("*.md")) if file.parent.name != "api"]  # they are filled elsewhere
    sections = [part for file in files for part in _sections(file, folder)]
    counts = [section.words for section in sections]
    holders = Counter(word for count in counts for word in count)
    return sections, counts, {word: math.log(len(sections) / many) for word, many in holders.items()}


def _sections(file: Path, folder: Path) -> Iterator[Section]:
    page = file.relative_to(folder).as_posix()
    heading, lines, fenced = "", list[str](), False
    for line in [*file.read_text(encoding="utf-8").splitlines(), "# "]:
        fenced ^= line.startswith("```")
        if line.startswith("#") and not fenced:
            if any(lines):
                yield Section(page, heading, "\n".join(lines).strip())
            heading, lines = line.lstrip("# "), []
        else:
            lines.append(line)


# The tools, as functions, and the server that offers them.


ABOUT = """\
tilewright runs GPU kernels without a GPU, exactly, lane by lane: it finds races, missing fences and barriers,
deadlocks, uninitialised and misaligned accesses. Check a kernel, mend what its findings name (each has a line and a
hint), and check again."""


def check(
    source: str, language: Language, kernel: str | None = None, grid: str = "1", block: str | None = None,
    smem: int = 0, cluster: str | None = None, arguments: list[str] | None = None, sizes: list[str] | None = None,
    arch: str | None = None, seconds: float = SECONDS,
) -> dict[str, Any]:  # fmt: skip
    """Run a kernel under every check, and return its verdict: status and findings, each with line, threads and hint."""
    launch = {"grid": grid, "block": block, "cluster": cluster, "smem": str(smem)} if language != "py" else {}
    text = asked("check", "--json", source=source, language=language, kernel=kernel, seconds=seconds, **launch,
                 arg=arguments, size=sizes, arch=arch, limit=f"{seconds:g}s")  # fmt: skip
    report: dict[str, Any] = json.loads(text)
    return report


def explain(source: str, kernel: str | None = None, arch: str | None = None) -> str:
    """Say which instruction each tile call of a tilewright kernel became, why others did not fit, what would help."""
    return asked("explain", source=source, kernel=kernel, arch=arch)


def advise(source: str, kernel: str | None = None, sizes: list[str] | None = None, arch: str | None = None) -> str:
    """Say which lines of a tilewright kernel cost more passes of memory than they need, and which layout mends it."""
    return asked("advise", source=source, kernel=kernel, arch=arch, size=sizes)


def profile(source: str, gpu: str = "H200", kernel: str | None = None, sizes: list[str] | None = None) -> str:
    """The least time that a tilewright kernel takes on a GPU, and what bounds it."""
    return asked("run", source=source, kernel=kernel, profile=gpu, size=sizes)


def lower(source: str, stage: str = "cuda", kernel: str | None = None, arch: str | None = None) -> str:
    """A tilewright kernel at a stage of its way to machine code."""
    return asked("lower", source=source, kernel=kernel, stage=stage, arch=arch)


def layout(text: str, dtype: str = "float16", shape: str | None = None) -> str:
    """Where a layout puts each element: lane, register, bank of each, as a table."""
    return asked("layout", text, dtype=dtype, shape=shape)


def atom(name: str) -> str:
    """A copy or mma instruction by CuTe's name: its PTX, and which thread holds each element of each matrix."""
    return asked("atom", name)


def search_docs(query: str, most: int = 5) -> list[dict[str, str]]:
    """Sections of tilewright's documentation that fit a query, the best first, with page and heading."""
    return [
        {"page": section.page, "heading": section.heading, "text": section.text[:4000]}
        for section in search(query, most)
    ]


TOOLS = (check, explain, advise, profile, lower, layout, atom, search_docs)
ARGUMENTS = {
    "source": "the text of a Python file in tilewright's language; check takes a .cu file and PTX, too",
    "language": "of the source: py, cu or ptx",
    "kernel": "its name, where the source has several",
    "grid": "CTAs of a .cu or PTX kernel: 4 or 4,2,1",
    "block": "threads of a CTA of a .cu or PTX kernel, which it needs: 256 or 16,16",
    "smem": "bytes of dynamic shared memory of a .cu or PTX kernel",
    "cluster": "CTAs of a cluster of a .cu or PTX kernel: 2 or 2,1,1",
    "arguments": "of the kernel, each NAME:f32[1024]=random or NAME=7; what a tilewright kernel lacks is drawn",
    "sizes": "extents that a tilewright kernel leaves open, each NAME=1000",
    "arch": "an architecture, such as sm_90a",
    "seconds": "that a run may take",
    "gpu": "T4, A100, L40S, H100, H200, B200 and others",
    "stage": "tile, lowered, cuda, ptx or sass",
    "text": "a layout in tilewright's notation or CuTe's",
    "dtype": "of the elements",
    "shape": "of the tensor, where the layout does not say: 64,64",
    "name": "of the instruction, as CuTe has it: SM75_U32x4_LDSM_N",
    "query": "words to look for",
    "most": "sections to return",
}
"""What each argument of the tools is."""


def server() -> MCPServer[Any]:
    """The server with every tool. Raises ToolError where the protocol's SDK is not installed."""
    try:
        from mcp.server.mcpserver import MCPServer
    except ImportError:
        raise ToolError(
            "the SDK of the Model Context Protocol is missing", hint="pip install 'tilewright[mcp]'"
        ) from None
    protocol = MCPServer[Any]("tilewright", instructions=ABOUT)
    for tool in TOOLS:
        protocol.tool()(_served(tool))
    return protocol


def _served(tool: Callable[..., Any]) -> Callable[..., Any]:
    """The tool with descriptions of its arguments; what it refuses is an error of the protocol."""
    from mcp.server.mcpserver.exceptions import ToolError as Failed
    from mcp.types import CallToolResult, TextContent
    from pydantic import Field

    @wraps(tool)
    def called(**arguments: Any) -> Any:
        try:
            result = tool(**arguments)
        except TilewrightError as error:
            raise Failed(str(error)) from None
        if isinstance(result, dict) and result["status"] == "refused":
            text = TextContent(type="text", text=json.dumps(result, indent=2))
            return CallToolResult(content=[text], structured_content=result, is_error=True)
        return result

    kinds = get_type_hints(tool)
    told = {name: Annotated[kinds[name], Field(description=ARGUMENTS[name])] for name in signature(tool).parameters}
    called.__annotations__ = {**told, "return": kinds["return"]}
    del vars(called)["__wrapped__"]  # whose annotations are others
    parameters = [parameter.replace(annotation=told[name]) for name, parameter in signature(tool).parameters.items()]
    vars(called)["__signature__"] = signature(tool).replace(parameters=parameters)
    return called
