"""Memory-bound kernels in Triton's language, in the manner of its tutorials: a program has all of a row at once."""

import torch
import triton
import triton.language as tl


@triton.jit
def softmax_rows(x, y, n, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * n
    at = tl.arange(0, BLOCK)
    inside = at < n
    values = tl.load(x + row + at, mask=inside, other=-float("inf")).to(tl.float32)
    powers = tl.exp(values - tl.max(values, axis=0))
    tl.store(y + row + at, powers / tl.sum(powers, axis=0), mask=inside)


@triton.jit
def rms_norm_rows(x, w, y, n, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * n
    at = tl.arange(0, BLOCK)
    inside = at < n
    values = tl.load(x + row + at, mask=inside, other=0.0).to(tl.float32)
    scale = tl.rsqrt(tl.sum(values * values, axis=0) / n + eps)
    weight = tl.load(w + at, mask=inside).to(tl.float32)
    tl.store(y + row + at, values * scale * weight, mask=inside)


@triton.jit
def layer_norm_rows(x, w, b, y, n, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * n
    at = tl.arange(0, BLOCK)
    inside = at < n
    values = tl.load(x + row + at, mask=inside, other=0.0).to(tl.float32)
    centred = tl.where(inside, values - tl.sum(values, axis=0) / n, 0.0)
    scale = tl.rsqrt(tl.sum(centred * centred, axis=0) / n + eps)
    weight = tl.load(w + at, mask=inside).to(tl.float32)
    bias = tl.load(b + at, mask=inside).to(tl.float32)
    tl.store(y + row + at, centred * scale * weight + bias, mask=inside)


@triton.jit
def cross_entropy_rows(x, target, loss, n, BLOCK: tl.constexpr):
    number = tl.program_id(0).to(tl.int64)
    row = number * n
    at = tl.arange(0, BLOCK)
    values = tl.load(x + row + at, mask=at < n, other=-float("inf")).to(tl.float32)
    most = tl.max(values, axis=0)
    total = tl.sum(tl.exp(values - most), axis=0)
    wanted = tl.load(x + row + tl.load(target + number)).to(tl.float32)
    tl.store(loss + number, tl.log(total) + most - wanted)


@triton.jit
def add_rms_norm_rows(x, r, w, y, s, n, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * n
    at = tl.arange(0, BLOCK)
    inside = at < n
    total = tl.load(x + row + at, mask=inside, other=0.0) + tl.load(r + row + at, mask=inside, other=0.0)
    tl.store(s + row + at, total, mask=inside)
    values = total.to(tl.float32)
    scale = tl.rsqrt(tl.sum(values * values, axis=0) / n + eps)
    weight = tl.load(w + at, mask=inside).to(tl.float32)
    tl.store(y + row + at, values * scale * weight, mask=inside)


@triton.jit
def quantize_rows(x, q, scales, n, BLOCK: tl.constexpr):
    number = tl.program_id(0).to(tl.int64)
    row = number * n
    at = tl.arange(0, BLOCK)
    inside = at < n
    values = tl.load(x + row + at, mask=inside, other=0.0).to(tl.float32)
    scale = tl.maximum(tl.max(tl.abs(values), axis=0) / 127.0, 1e-12)
    tl.store(scales + number, scale)
    scaled = values / scale
    rounded = tl.floor(scaled + 0.5)
    tl.store(q + row + at, rounded.to(tl.int8), mask=inside)


@triton.jit
def add_all(a, b, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    tl.store(y + at, tl.load(a + at, mask=inside) + tl.load(b + at, mask=inside), mask=inside)


@triton.jit
def silu_mul_all(gate, up, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    opened = tl.load(gate + at, mask=inside).to(tl.float32)
    value = opened / (1.0 + tl.exp(-opened)) * tl.load(up + at, mask=inside).to(tl.float32)
    tl.store(y + at, value, mask=inside)


def warps(n):
    return 4 if n <= 2048 else 8 if n <= 8192 else 16


def over_rows(kernel, x, *args):
    """Launch a program for each row."""
    m, n = x.shape
    block = triton.next_power_of_2(n)
    kernel[(m,)](x, *args, BLOCK=block, num_warps=warps(n))


def softmax(x):
    y = torch.empty_like(x)
    over_rows(softmax_rows, x, y, x.shape[1])
    return y


def rms_norm(x, w):
    y = torch.empty_like(x)
    over_rows(rms_norm_rows, x, w, y, x.shape[1], 1e-6)
    return y


def layer_norm(x, w, b):
    y = torch.empty_like(x)
    over_rows(layer_norm_rows, x, w, b, y, x.shape[1], 1e-5)
    return y


def cross_entropy(x, target):
    loss = torch.empty(x.shape[0], device=x.device)
    over_rows(cross_entropy_rows, x, target, loss, x.shape[1])
    return loss


def add_rms_norm(x, r, w):
    y, s = torch.empty_like(x), torch.empty_like(x)
    over_rows(add_rms_norm_rows, x, r, w, y, s, x.shape[1], 1e-6)
    return y, s


def quantize(x):
    q = torch.empty(x.shape, device=x.device, dtype=torch.int8)
    scales = torch.empty(x.shape[0], device=x.device)
    over_rows(quantize_rows, x, q, scales, x.shape[1])
    return q, scales


def add(a, b):
    y = torch.empty_like(a)
    add_all[(triton.cdiv(a.numel(), 1024),)](a, b, y, a.numel(), BLOCK=1024)
    return y


def silu_mul(gate, up):
    y = torch.empty_like(gate)
    silu_mul_all[(triton.cdiv(gate.numel(), 1024),)](gate, up, y, gate.numel(), BLOCK=1024)
    return y
