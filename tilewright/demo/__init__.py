"""The demo: `tilewright demo`."""

from tilewright.demo.steps import run_demo

__all__ = ["run_demo"]
