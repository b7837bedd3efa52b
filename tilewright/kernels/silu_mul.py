"""silu(gate) * up: the middle of a gated feed-forward layer. Each CTA has a part of a row."""

from __future__ import annotations

from functools import cache

import tilewright as tw
from tilewright.kernels.arrays import Array, kind_of, like, public, same_shape
from tilewright.kernels.operators import Arrays, Launches, TorchOperator
from tilewright.kernels.rows import Rows, blocks
from tilewright.lang import T


@cache
def forward(rows: Rows, kind: str) -> tw.Executable:
    """y = gate / (1 + exp(-gate)) * up"""
    scope = rows.scope

    @T.prim_func
    def silu_mul(gate: T.handle, up: T.handle, y: T.handle):
        m, n, gate_pitch, up_pitch, y_pitch = T.int32(), T.int32(), T.int32(), T.int32(), T.int32()
        Gate = rows.matrix(gate, (m, n), kind, gate_pitch)
        Up = rows.matrix(up, (m, n), kind, up_pitch)
        Y = rows.matrix(y, (m, n), kind, y_pitch)
        row, part = rows.block(m, n)
        opened, read, tile = rows.tile(kind), rows.tile(kind), rows.tile()
        scope.copy(opened, Gate[rows.at(row), rows.columns(part)], fill=0)
        scope.copy(read, Up[rows.at(row), rows.columns(part)], fill=0)
        scope.silu(tile, opened)
        scope.mul(Y[rows.at(row), rows.columns(part)], tile, read)

    return tw.compile(silu_mul, fast_math=True)


@cache
def backward(rows: Rows, kind: str) -> tw.Executable:
    """dup = dy * silu(gate), dgate = dy * up * s * (1 + gate * (1 - s)), where s = 1 / (1 + exp(-gate))"""
    scope = rows.scope

    @T.prim_func
    def silu_mul_backward(gate: T.handle, up: T.handle, dy: T.handle, dgate: T.handle, dup: T.handle):
        m, n, gate_pitch, up_pitch, dy_pitch = T.int32(), T.int32(), T.int32(), T.int32(), T.int32()
        dgate_pitch, dup_pitch = T.int32(), T.int32()
        Gate = rows.matrix(gate, (m, n), kind, gate_pitch)
        Up = rows.matrix(up, (m, n), kind, up_pitch)
        DY = rows.matrix(dy, (m, n), kind, dy_pitch)
        DGate = rows.matrix(dgate, (m, n), kind, dgate_pitch)
        DUp = rows.matrix(dup, (m, n), kind, dup_pitch)
        row, part = rows.block(m, n)
        opened, read, arrived = rows.tile(kind), rows.tile(kind), rows.tile(kind)
        wide, sigmoid, silu, slope = rows.tile(), rows.tile(), rows.tile(), rows.tile()
        scope.copy(opened, Gate[rows.at(row), rows.columns(part)], fill=0)
        scope.copy(read, Up[rows.at(row), rows.columns(part)], fill=0)
        scope.copy(arrived, DY[rows.at(row), rows.columns(part)], fill=0)
        scope.cast(wide, opened)
        scope.sigmoid(sigmoid, wide)
        scope.mul(silu, wide, sigmoid)
        scope.mul(DUp[rows.at(row), rows.columns(part)], silu, arrived)
        scope.sub(slope, wide, silu)  # gate * (1 - s)
        scope.fma(slope, slope, sigmoid, sigmoid)
        scope.mul(slope, slope, arrived)
        scope.mul(DGate[rows.at(row), rows.columns(part)], slope, read)

    return tw.compile(silu_mul_backward, fast_math=True)


def outputs(gate: Array, up: Array) -> Arrays:
    same_shape(gate=gate, up=up)
    return (like(gate),)


def run(results: Arrays, gate: Array, up: Array) -> Launches:
    rows, arrays = blocks(gate, up, *results)
    yield forward(rows, kind_of(gate)), tuple(arrays)


def gradient(args: Arrays, results: Arrays, gradients: Arrays) -> Arrays:
    return tuple(BACKWARD(*args, *gradients))


def outputs_backward(gate: Array, up: Array, dy: Array) -> Arrays:
    same_shape(gate=gate, up=up, dy=dy)
    return like(gate), like(up)


def run_backward(results: Arrays, gate: Array, up: Array, dy: Array) -> Launches:
    rows, arrays = blocks(gate, up, dy, *results)
    yield backward(rows, kind_of(gate)), tuple(arrays)


BACKWARD = TorchOperator(
    "silu_mul_backward", "(Tensor gate, Tensor up, Tensor dy) -> (Tensor, Tensor)", outputs_backward, run_backward
)
FORWARD = TorchOperator("silu_mul", "(Tensor gate, Tensor up) -> Tensor", outputs, run, gradient)


@public.names
def silu_mul(gate: Array, up: Array) -> Array:
    """gate / (1 + exp(-gate)) * up, computed in float32; differentiable in torch.

    gate, up: float32, float16 or bfloat16, of one shape and dtype, with any strides.
    """
    return FORWARD(gate, up)
