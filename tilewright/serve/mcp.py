"""tilewright as tools of the Model Context Protocol: an agent checks, explains and looks up, without a GPU.

``pip install 'tilewright[mcp]'``, and ``tilewright mcp`` as the command of a server over stdio. Names, parameters and
docstrings of the functions are the schemas that an agent sees.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tilewright.errors import ToolError
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
    """Run a kernel under every check, and return a verdict: its status and findings, each with line, threads and hint.

    source: the text of a Python file in tilewright's language, a .cu file, or PTX. kernel: its name, where there are
    several. grid, block, cluster, smem: the launch of a .cu or PTX kernel ("4", "16,16"). arguments: "n=7",
    "a:f32[1024]=random". sizes: "n=1000" for extents of a tilewright kernel. arch: "sm_90a". seconds: limit of a run.
    """
    launch = {"grid": grid, "block": block, "cluster": cluster, "smem": str(smem)} if language != "py" else {}
    return checked(source, language, kernel, {**launch, "arg": arguments, "size": sizes, "arch": arch}, seconds)


def explain(source: str, kernel: str | None = None, arch: str | None = None) -> str:
    """Say which instruction each tile call of a tilewright kernel became, why others did not fit, what would help."""
    return asked("explain", *_arch(arch), source=source, kernel=kernel)


def advise(source: str, kernel: str | None = None, sizes: list[str] | None = None, arch: str | None = None) -> str:
    """Say which lines of a tilewright kernel cost more passes of memory than they need, and which layout mends it."""
    return asked("advise", *_arch(arch), *_sizes(sizes), source=source, kernel=kernel)


def profile(source: str, gpu: str = "H200", kernel: str | None = None, sizes: list[str] | None = None) -> str:
    """The least time that a tilewright kernel takes on a GPU, and what bounds it. gpu: "H200", "B200", "A100", ..."""
    return asked("run", f"--profile={gpu}", *_sizes(sizes), source=source, kernel=kernel)


def lower(source: str, stage: str = "cuda", kernel: str | None = None, arch: str | None = None) -> str:
    """A tilewright kernel at a stage of its way: "tile", "lowered", "cuda", "ptx" or "sass"."""
    return asked("lower", f"--stage={stage}", *_arch(arch), source=source, kernel=kernel)


def layout(text: str, dtype: str = "float16", shape: str | None = None) -> str:
    """Where a layout puts each element: tilewright's notation or CuTe's. Lane, register, bank of each, as a table."""
    return asked("layout", text, f"--dtype={dtype}", *([f"--shape={shape}"] if shape else []))


def atom(name: str) -> str:
    """A copy or mma instruction by CuTe's name: its PTX, and which thread holds each element of each matrix."""
    return asked("atom", name)


def search_docs(query: str, most: int = 5) -> list[dict[str, str]]:
    """Sections of tilewright's documentation that fit a query, the best first, with page and heading."""
    return [{"page": each.page, "heading": each.heading, "text": each.text[:4000]} for each in search(query, most)]


TOOLS = (check, explain, advise, profile, lower, layout, atom, search_docs)


def server() -> MCPServer[Any]:
    """The server with every tool. Raises ToolError where the protocol's SDK is not installed."""
    try:
        from mcp.server.mcpserver import MCPServer
    except ImportError:
        raise ToolError(
            "the SDK of the Model Context Protocol is missing", hint="pip install 'tilewright[mcp]'"
        ) from None
    made = MCPServer[Any]("tilewright", instructions=ABOUT)
    for tool in TOOLS:
        made.tool()(tool)
    return made


def _arch(arch: str | None) -> list[str]:
    return [f"--arch={arch}"] if arch else []


def _sizes(sizes: list[str] | None) -> list[str]:
    return [f"--size={each}" for each in sizes or ()]
