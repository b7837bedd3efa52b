"""Threads that can never go on. The scheduler finds them in every run, since there is nothing else it could do then."""

from tilewright.sim.checks.base import register

register("deadlock", "threads that wait at a barrier for others that never come")
register("divergence", "a warp whose lanes can never be together for an instruction that needs them all")
register("livelock", "loops that poll memory which nobody is left to change")
