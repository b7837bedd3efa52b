"""tilewright as tools of the Model Context Protocol: an agent checks, explains and looks up, without a GPU.

``pip install 'tilewright[mcp]'``, and ``tilewright mcp`` as the command of a server over stdio. Names, parameters and
docstrings of the functions, with `ARGUMENTS`, are the schemas that an agent sees.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from inspect import signature
from json import dumps
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

from tilewright.errors import TilewrightError, ToolError
from tilewright.serve.answers import SECONDS, Language, asked, checked
from tilewright.serve.pages import search

if TYPE_CHECKING:
    from mcp.server.mcpserver import MCPServer

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
    return checked(source, language, kernel, {**launch, "arg": arguments, "size": sizes, "arch": arch}, seconds)


def explain(source: str, kernel: str | None = None, arch: str | None = None) -> str:
    """Say which instruction each tile call of a tilewright kernel became, why others did not fit, what would help."""
    return asked("explain", *_arch(arch), source=source, kernel=kernel)


def advise(source: str, kernel: str | None = None, sizes: list[str] | None = None, arch: str | None = None) -> str:
    """Say which lines of a tilewright kernel cost more passes of memory than they need, and which layout mends it."""
    return asked("advise", *_arch(arch), *_sizes(sizes), source=source, kernel=kernel)


def profile(source: str, gpu: str = "H200", kernel: str | None = None, sizes: list[str] | None = None) -> str:
    """The least time that a tilewright kernel takes on a GPU, and what bounds it."""
    return asked("run", f"--profile={gpu}", *_sizes(sizes), source=source, kernel=kernel)


def lower(source: str, stage: str = "cuda", kernel: str | None = None, arch: str | None = None) -> str:
    """A tilewright kernel at a stage of its way to machine code."""
    return asked("lower", f"--stage={stage}", *_arch(arch), source=source, kernel=kernel)


def layout(text: str, dtype: str = "float16", shape: str | None = None) -> str:
    """Where a layout puts each element: lane, register, bank of each, as a table."""
    return asked("layout", text, f"--dtype={dtype}", *([f"--shape={shape}"] if shape else []))


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
            text = TextContent(type="text", text=dumps(result, indent=2))
            return CallToolResult(content=[text], structured_content=result, is_error=True)
        return result

    kinds = get_type_hints(tool)
    told = {name: Annotated[kinds[name], Field(description=ARGUMENTS[name])] for name in signature(tool).parameters}
    called.__annotations__ = {**told, "return": kinds["return"]}
    del vars(called)["__wrapped__"]  # whose annotations are others
    parameters = [parameter.replace(annotation=told[name]) for name, parameter in signature(tool).parameters.items()]
    vars(called)["__signature__"] = signature(tool).replace(parameters=parameters)
    return called


def _arch(arch: str | None) -> list[str]:
    return [f"--arch={arch}"] if arch else []


def _sizes(sizes: list[str] | None) -> list[str]:
    return [f"--size={size}" for size in sizes or ()]
