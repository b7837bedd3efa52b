"""What type checkers and editors see of ``T``. Made by `make docs` from the tables of `isa/` and `lang/`.

``T`` is a class here, and `T.let` and `T.int32` are `Any`, so that they may stand in annotations.
"""

from collections.abc import Callable
from typing import Any, TypeVar, overload

from tilewright.ir import Kernel
from tilewright.lang.functions import JitKernel
from tilewright.lang.roles import ClusterPersistentScheduler2D as _ClusterPersistentScheduler2D
from tilewright.lang.roles import DynamicScheduler2D as _DynamicScheduler2D
from tilewright.lang.roles import MBarrier as _MBarrier
from tilewright.lang.roles import Pipeline as _Pipeline
from tilewright.lang.roles import PipelineState as _PipelineState
from tilewright.lang.roles import SmemDescriptor as _SmemDescriptor
from tilewright.lang.roles import TCGen05Bar as _TCGen05Bar
from tilewright.lang.roles import TileQueue as _TileQueue
from tilewright.lang.roles import TMABar as _TMABar
from tilewright.lang.roles import WarpgroupTurns as _WarpgroupTurns
from tilewright.layout.axes import Axis as _Axis
from tilewright.layout.iters import Iter as _Iter
from tilewright.layout.ready import SwizzleMode as _SwizzleMode
from tilewright.layout.swizzle import ComposeLayout as _ComposeLayout
from tilewright.layout.swizzle import SwizzleLayout as _SwizzleLayout
from tilewright.layout.tile import TileLayout as _TileLayout

__all__ = ["T"]

Value = Any  # a number, a scalar, an element of a buffer
Flag = bool
C = TypeVar("C", bound=type[object])

class XYZ:
    x: Any
    y: Any
    z: Any

class _cuda:
    @staticmethod
    def activemask() -> Any:
        """One bit per lane of the warp that executes this together with the caller."""
    @staticmethod
    def all_sync(mask: Value, cond: Value) -> Any:
        """Whether ``cond`` holds in every lane of ``mask``."""
    @staticmethod
    def any_sync(mask: Value, cond: Value) -> Any:
        """Whether ``cond`` holds in some lane of ``mask``."""
    @staticmethod
    def assert_fail(message: Value, file: Value, line: Value, function: Value) -> Any:
        """Stops the kernel with an error that has the text of the assertion that failed."""
    @staticmethod
    def atomic_add(ptr: Value, value: Value) -> Any:
        """Adds `value` to what `ptr` points to; relaxed at gpu scope; returns the old value."""
    @staticmethod
    def atomic_and(ptr: Value, value: Value) -> Any:
        """Bitwise and of `value` and what `ptr` points to; relaxed at gpu scope; returns the old value."""
    @staticmethod
    def atomic_cas(ptr: Value, compare: Value, value: Value) -> Any:
        """Stores `value` where `compare` stands; relaxed at gpu scope; returns the old value."""
    @staticmethod
    def atomic_exch(ptr: Value, value: Value) -> Any:
        """Stores `value`; relaxed at gpu scope; returns the old value."""
    @staticmethod
    def atomic_max(ptr: Value, value: Value) -> Any:
        """Keeps the larger of `value` and what `ptr` points to; relaxed at gpu scope; returns the old value."""
    @staticmethod
    def atomic_min(ptr: Value, value: Value) -> Any:
        """Keeps the smaller of `value` and what `ptr` points to; relaxed at gpu scope; returns the old value."""
    @staticmethod
    def atomic_or(ptr: Value, value: Value) -> Any:
        """Bitwise or of `value` and what `ptr` points to; relaxed at gpu scope; returns the old value."""
    @staticmethod
    def atomic_sub(ptr: Value, value: Value) -> Any:
        """Subtracts `value` from what `ptr` points to; relaxed at gpu scope; returns the old value."""
    @staticmethod
    def atomic_xor(ptr: Value, value: Value) -> Any:
        """Bitwise exclusive or of `value` and what `ptr` points to; relaxed at gpu scope; returns the old value."""
    @staticmethod
    def ballot_sync(mask: Value, cond: Value) -> Any:
        """One bit per lane of ``mask``: whether ``cond`` holds there."""
    @staticmethod
    def cast_smem_ptr_to_uint(ptr: Value) -> Any:
        """The shared address of a pointer, narrowed to the 32 bits that the instructions on shared memory take."""
    @staticmethod
    def clock() -> Any:
        """A per-multiprocessor counter, incremented every clock cycle; the simulator's counts steps."""
    @staticmethod
    def cluster_sync() -> Any:
        """Every thread of the cluster waits for all others; their memory accesses are ordered."""
    @staticmethod
    def copy_bytes(dst: Value, src: Value, nbytes: Value) -> Any:
        """A thread copies ``nbytes`` bytes from ``src`` to ``dst``, both aligned to their number, with one access
        each. nbytes: 1, 2, 4, 8, 16, 32.
        """
    @staticmethod
    def cta_reduce(value: Value, op: Value, num_warps: int, scratch: Value) -> Any:
        """The sum, or what ``op`` says, over the whole CTA of ``num_warps`` warps, each of which leaves its part at
        ``scratch``, in shared memory. Two barriers of the CTA stand inside, so that ``scratch`` is free again
        afterwards.
        """
    @staticmethod
    def cta_sync() -> Any:
        """Every thread of the CTA waits for all others; their memory accesses are ordered."""
    @staticmethod
    def cvta_generic_to_shared(ptr: Value) -> Any:
        """The shared address of a pointer, as CUDA's ``size_t``."""
    @staticmethod
    def device_assert(cond: Value, message: Value = ...) -> Any:
        """Stops the kernel with an error where the condition is false; the simulator's has the message."""
    @staticmethod
    def func_call(name: Value, *args: Value, source_code: Value, return_type: Value = ...) -> Any:
        """Calls a function of CUDA C++ whose text is ``source_code``; float16 and its like come as their bits.
        return_type: 'void', 'int8', 'uint8', 'int16', 'uint16', 'int32', 'uint32', 'int64', 'uint64', 'float32',
        'float64', 'bool'.
        """
    @staticmethod
    def get_tmem_addr(base: Value, row: Value, col: Value) -> Any:
        """The address of a cell of tensor memory, so many lanes and columns after another."""
    @staticmethod
    def make_float2(x: Value, y: Value) -> Any:
        """Two float32 as the 64 bits of a register pair, ``x`` in the low half."""
    @staticmethod
    def map_shared_rank(ptr: Value, rank: Value) -> Any:
        """`T.ptx.map_shared_rank`."""
    @staticmethod
    def nanosleep(ns: Value) -> Any:
        """The thread rests for about ``ns`` nanoseconds, at most a millisecond."""
    @staticmethod
    def out_of_stack(function: Value, depth: Value, nbytes: Value) -> Any:
        """Stops a kernel whose functions call each other deeper than its threads have a stack for."""
    @staticmethod
    def printf(fmt: Value, *args: Value) -> Any:
        """Prints one line per active lane, formatted as C does."""
    @staticmethod
    def reduce_add_sync(mask: Value, value: Value) -> Any:
        """The sum, modulo 2^32, over the lanes of ``mask``."""
    @staticmethod
    def reduce_add_sync_u32(mask: Value, value: Value) -> Any:
        """`T.cuda.reduce_add_sync` of uint32."""
    @staticmethod
    def reduce_and_sync(mask: Value, value: Value) -> Any:
        """The bits that all lanes of ``mask`` have."""
    @staticmethod
    def reduce_max_sync(mask: Value, value: Value) -> Any:
        """The largest of the lanes of ``mask``."""
    @staticmethod
    def reduce_max_sync_u32(mask: Value, value: Value) -> Any:
        """`T.cuda.reduce_max_sync` of uint32."""
    @staticmethod
    def reduce_min_sync(mask: Value, value: Value) -> Any:
        """The smallest of the lanes of ``mask``."""
    @staticmethod
    def reduce_min_sync_u32(mask: Value, value: Value) -> Any:
        """`T.cuda.reduce_min_sync` of uint32."""
    @staticmethod
    def reduce_or_sync(mask: Value, value: Value) -> Any:
        """The bits that some lane of ``mask`` has."""
    @staticmethod
    def reduce_xor_sync(mask: Value, value: Value) -> Any:
        """The bits that an odd number of lanes of ``mask`` have."""
    @staticmethod
    def runtime_instr_desc(desc: Value, sf_id: Value) -> Any:
        """Changes, in an instruction descriptor, the byte that has the first scale of a block, for A and for B."""
    @staticmethod
    def shfl_down_sync(mask: Value, value: Value, delta: Value, width: Value = ...) -> Any:
        """The value ``delta`` lanes above; one's own past the segment."""
    @staticmethod
    def shfl_sync(mask: Value, value: Value, lane: Value, width: Value = ...) -> Any:
        """The value of lane ``lane`` of the caller's segment of ``width`` lanes."""
    @staticmethod
    def shfl_up_sync(mask: Value, value: Value, delta: Value, width: Value = ...) -> Any:
        """The value ``delta`` lanes below; one's own before the segment."""
    @staticmethod
    def shfl_xor_sync(mask: Value, value: Value, lane_mask: Value, width: Value = ...) -> Any:
        """The value of the lane whose number differs in these bits."""
    @staticmethod
    def smem_desc_add_16B_offset(desc: Value, units: Value) -> Any:
        """The matrix descriptor of a tile that starts ``units`` times 16 bytes later."""
    @staticmethod
    def thread_fence() -> Any:
        """Every thread of the device sees this thread's accesses before it ahead of those after it:
        T.ptx.fence('sc', 'gpu').
        """
    @staticmethod
    def thread_fence_block() -> Any:
        """Every thread of the CTA sees this thread's accesses before it ahead of those after it: T.ptx.fence('sc',
        'cta').
        """
    @staticmethod
    def thread_fence_system() -> Any:
        """Every thread of all devices, and the host, sees this thread's accesses before it ahead of those after it:
        T.ptx.fence('sc', 'sys').
        """
    @staticmethod
    def trap() -> Any:
        """Stops the kernel with an error."""
    @staticmethod
    def vprintf(fmt: Value, args: Value) -> Any:
        """Prints one line per active lane: ``fmt`` points to the format, ``args`` to the arguments, side by side."""
    @staticmethod
    def warp_reduce(value: Value, op: Value, width: int = ...) -> Any:
        """The sum, or what ``op`` says, over each ``width`` neighbouring lanes of the warp; all 32 take part."""
    @staticmethod
    def warp_sync(mask: Value = ...) -> Any:
        """The lanes of the warp, or those that ``mask`` names, wait for each other; their memory accesses are
        ordered. mask: None, 'given'.
        """
    @staticmethod
    def warpgroup_sync(id: Value) -> Any:
        """The four warps of a warpgroup meet at named barrier ``id``."""

class _multimem:
    @staticmethod
    def ld_reduce(ptr: Value, op: Value = ..., dtype: Value = ..., sem: Value = ..., scope: Value = ...) -> Any:
        """The elements of all GPUs at ``ptr``, combined by ``op``: add, min, max, and, or, xor. sem: 'weak',
        'relaxed', 'acquire'. scope: None, 'cta', 'gpu', 'sys', 'cluster'. op: 'add', 'min', 'max', 'and', 'or',
        'xor'. dtype: 'uint32', 'uint64', 'int32', 'int64', 'float32', 'float64'.
        """
    @staticmethod
    def red(ptr: Value, value: Value, op: Value = ..., sem: Value = ..., scope: Value = ...) -> Any:
        """Combines ``value`` by ``op`` into the element of each GPU, there as one access. sem: 'relaxed', 'release'.
        scope: 'cta', 'gpu', 'sys', 'cluster'. op: 'add', 'min', 'max', 'and', 'or', 'xor'.
        """
    @staticmethod
    def st(ptr: Value, value: Value, sem: Value = ..., scope: Value = ...) -> Any:
        """Stores ``value`` as an element of each GPU. sem: 'weak', 'relaxed', 'release'. scope: None, 'cta', 'gpu',
        'sys', 'cluster'.
        """

class _ptx_add:
    def __call__(self, a: Value, b: Value, type: Value, sat: Value = ..., rnd: Value = ..., ftz: Value = ...) -> Any:
        """The sum of a and b: integers modulo their width, or clamped; floats rounded once. type: 'u16', 's16',
        'u32', 's32', 'u64', 's64', 'f32', 'f64', 'f16', 'f16x2', 'bf16', 'bf16x2', 'f32x2', 'u16x2', 's16x2'.
        sat: False, True. rnd: None, 'rn', 'rz', 'rm', 'rp'. ftz: False, True.
        """
    @staticmethod
    def cc(a: Value, b: Value, type: Value, out: Value = ..., cc: Value = ...) -> Any:
        """The sum of a and b; ``out='cc'``: its carry. type: 'u32', 's32', 'u64', 's64'. out: 'd', 'cc'. cc: True."""
    @staticmethod
    def mixed(a: Value, b: Value, atype: Value, rnd: Value = ..., sat: Value = ...) -> Any:
        """add of numbers of 16 bits and the last one of 32, rounded once. atype: 'f16', 'bf16'. rnd: None, 'rn',
        'rz', 'rm', 'rp'. sat: False, True.
        """

class _ptx_atom_add:
    def __call__(self, ptr: Value, value: Value, sem: Value = ..., scope: Value = ..., space: Value = ...) -> Any:
        """Adds `value` to what `ptr` points to; returns the old value. sem: 'relaxed', 'acquire', 'release',
        'acq_rel'. scope: 'cta', 'gpu', 'sys', 'cluster'. space: None, 'global', 'shared', 'shared::cta',
        'shared::cluster'.
        """
    @staticmethod
    def bf16x2(ptr: Value, value: Value, sem: Value = ..., scope: Value = ..., space: Value = ...) -> Any:
        """Adds the two bfloat16 of 32 bits, each an access of its own; returns the old value. sem: 'relaxed',
        'acquire', 'release', 'acq_rel'. scope: 'cta', 'gpu', 'sys', 'cluster'. space: None, 'global', 'shared',
        'shared::cta', 'shared::cluster'.
        """
    @staticmethod
    def f16x2(ptr: Value, value: Value, sem: Value = ..., scope: Value = ..., space: Value = ...) -> Any:
        """Adds the two float16 of 32 bits, each an access of its own; returns the old value. sem: 'relaxed',
        'acquire', 'release', 'acq_rel'. scope: 'cta', 'gpu', 'sys', 'cluster'. space: None, 'global', 'shared',
        'shared::cta', 'shared::cluster'.
        """

class _ptx_atom_cas:
    def __call__(
        self,
        ptr: Value,
        compare: Value,
        value: Value,
        sem: Value = ...,
        scope: Value = ...,
        space: Value = ...,
    ) -> Any:
        """Stores `value` where `compare` stands; returns the old value. sem: 'relaxed', 'acquire', 'release',
        'acq_rel'. scope: 'cta', 'gpu', 'sys', 'cluster'. space: None, 'global', 'shared', 'shared::cta',
        'shared::cluster'.
        """
    @staticmethod
    def b128(
        ptr: Value,
        compare_low: Value,
        compare_high: Value,
        value_low: Value,
        value_high: Value,
        *old: Value,
        sem: Value = ...,
        scope: Value = ...,
        space: Value = ...,
    ) -> Any:
        """Stores `value` where `compare` stands, 16 bytes; the two registers `old` get what stood there. sem:
        'relaxed', 'acquire', 'release', 'acq_rel'. scope: 'cta', 'gpu', 'sys', 'cluster'. space: None, 'global',
        'shared', 'shared::cta', 'shared::cluster'.
        """

class _ptx_atom_exch:
    def __call__(self, ptr: Value, value: Value, sem: Value = ..., scope: Value = ..., space: Value = ...) -> Any:
        """Stores `value`; returns the old value. sem: 'relaxed', 'acquire', 'release', 'acq_rel'. scope: 'cta',
        'gpu', 'sys', 'cluster'. space: None, 'global', 'shared', 'shared::cta', 'shared::cluster'.
        """
    @staticmethod
    def b128(
        ptr: Value,
        value_low: Value,
        value_high: Value,
        *old: Value,
        sem: Value = ...,
        scope: Value = ...,
        space: Value = ...,
    ) -> Any:
        """Stores `value`, 16 bytes; the two registers `old` get what stood there. sem: 'relaxed', 'acquire',
        'release', 'acq_rel'. scope: 'cta', 'gpu', 'sys', 'cluster'. space: None, 'global', 'shared',
        'shared::cta', 'shared::cluster'.
        """

class _ptx_atom:
    add: _ptx_atom_add
    @staticmethod
    def and_(ptr: Value, value: Value, sem: Value = ..., scope: Value = ..., space: Value = ...) -> Any:
        """Bitwise and of `value` and what `ptr` points to; returns the old value. sem: 'relaxed', 'acquire',
        'release', 'acq_rel'. scope: 'cta', 'gpu', 'sys', 'cluster'. space: None, 'global', 'shared',
        'shared::cta', 'shared::cluster'.
        """
    cas: _ptx_atom_cas
    @staticmethod
    def dec(ptr: Value, value: Value, sem: Value = ..., scope: Value = ..., space: Value = ...) -> Any:
        """Counts down to 0, then from `value` again; returns the old value. sem: 'relaxed', 'acquire', 'release',
        'acq_rel'. scope: 'cta', 'gpu', 'sys', 'cluster'. space: None, 'global', 'shared', 'shared::cta',
        'shared::cluster'.
        """
    exch: _ptx_atom_exch
    @staticmethod
    def inc(ptr: Value, value: Value, sem: Value = ..., scope: Value = ..., space: Value = ...) -> Any:
        """Counts up to `value`, then from 0 again; returns the old value. sem: 'relaxed', 'acquire', 'release',
        'acq_rel'. scope: 'cta', 'gpu', 'sys', 'cluster'. space: None, 'global', 'shared', 'shared::cta',
        'shared::cluster'.
        """
    @staticmethod
    def max(ptr: Value, value: Value, sem: Value = ..., scope: Value = ..., space: Value = ...) -> Any:
        """Keeps the larger of `value` and what `ptr` points to; returns the old value. sem: 'relaxed', 'acquire',
        'release', 'acq_rel'. scope: 'cta', 'gpu', 'sys', 'cluster'. space: None, 'global', 'shared',
        'shared::cta', 'shared::cluster'.
        """
    @staticmethod
    def min(ptr: Value, value: Value, sem: Value = ..., scope: Value = ..., space: Value = ...) -> Any:
        """Keeps the smaller of `value` and what `ptr` points to; returns the old value. sem: 'relaxed', 'acquire',
        'release', 'acq_rel'. scope: 'cta', 'gpu', 'sys', 'cluster'. space: None, 'global', 'shared',
        'shared::cta', 'shared::cluster'.
        """
    @staticmethod
    def or_(ptr: Value, value: Value, sem: Value = ..., scope: Value = ..., space: Value = ...) -> Any:
        """Bitwise or of `value` and what `ptr` points to; returns the old value. sem: 'relaxed', 'acquire',
        'release', 'acq_rel'. scope: 'cta', 'gpu', 'sys', 'cluster'. space: None, 'global', 'shared',
        'shared::cta', 'shared::cluster'.
        """
    @staticmethod
    def vec(
        ptr: Value,
        *value: Value,
        op: Value,
        type: Value,
        vec: Value,
        space: Value = ...,
        sem: Value = ...,
        scope: Value = ...,
    ) -> Any:
        """Combines several numbers in global memory with registers, each for itself; what stood there before. sem:
        'relaxed', 'acquire', 'release', 'acq_rel'. scope: 'cta', 'gpu', 'sys', 'cluster'. space: 'global', None.
        type: 'f32', 'f16', 'bf16', 'f16x2', 'bf16x2'. vec: 2, 4, 8. op: 'add', 'min', 'max'.
        """
    @staticmethod
    def xor(ptr: Value, value: Value, sem: Value = ..., scope: Value = ..., space: Value = ...) -> Any:
        """Bitwise exclusive or of `value` and what `ptr` points to; returns the old value. sem: 'relaxed',
        'acquire', 'release', 'acq_rel'. scope: 'cta', 'gpu', 'sys', 'cluster'. space: None, 'global', 'shared',
        'shared::cta', 'shared::cluster'.
        """

class _ptx_bar_warp:
    @staticmethod
    def sync(mask: Value) -> Any:
        """The lanes that ``mask`` names, who all execute it, wait for each other; their memory accesses are ordered."""

class _ptx_bar:
    @staticmethod
    def arrive(id: Value, n: Value) -> Any:
        """Counts towards the ``n`` threads of named barrier ``id`` without waiting for the others."""
    @staticmethod
    def sync(id: Value, n: Value) -> Any:
        """``n`` threads, a multiple of 32, meet at named barrier ``id`` (0..15) and wait."""
    warp: _ptx_bar_warp

class _ptx_barrier_cluster:
    @staticmethod
    def arrive(sem: Value = ..., aligned: Flag = ...) -> Any:
        """Counts at the cluster's barrier without waiting; ``relaxed`` publishes nothing of what the thread has
        done. sem: 'release', 'relaxed'. aligned: True, False.
        """
    @staticmethod
    def wait(acquire: Flag = ..., aligned: Flag = ...) -> Any:
        """Waits until every thread of the cluster has arrived at its barrier, and sees what they published. aligned:
        True, False.
        """

class _ptx_barrier:
    @staticmethod
    def arrive(id: Value, n: Value, aligned: Value = ...) -> Any:
        """Counts towards the ``n`` threads of named barrier ``id`` without waiting; unless ``aligned``, lanes apart.
        aligned: False, True.
        """
    cluster: _ptx_barrier_cluster
    @staticmethod
    def sync(id: Value, n: Value, cta: Value = ..., aligned: Value = ...) -> Any:
        """``n`` threads, a multiple of 32, meet at named barrier ``id`` and wait; unless ``aligned``, lanes apart.
        cta: False, True. aligned: False, True.
        """

class _ptx_clusterlaunchcontrol_query_cancel:
    @staticmethod
    def get_first_ctaid(addr: Value, dim: Value = ...) -> Any:
        """The number of the first CTA of the cluster that was taken, along x, y or z; undefined where none was. dim:
        'x', 'y', 'z'.
        """
    @staticmethod
    def is_canceled(addr: Value) -> Any:
        """True where a cluster was taken, by the answer at ``addr``."""

class _ptx_clusterlaunchcontrol:
    query_cancel: _ptx_clusterlaunchcontrol_query_cancel
    @staticmethod
    def try_cancel(addr: Value, bar: Value, multicast: Value = ...) -> Any:
        """A thread asks for a cluster that has not begun; the answer comes to 16 bytes at ``addr``, counted by
        ``bar``. multicast: False, True.
        """

class _ptx_cp_async_bulk_tensor:
    @staticmethod
    def g2c(
        dim: Value,
        dst: Value,
        bar: Value,
        map: Value,
        cta_mask: Value,
        cta_group: Value,
        hint: Value,
        *coords: Value,
        cache_policy: Value = ...,
    ) -> Any:
        """A thread has a box of an array brought to shared memory, of each CTA of ``cta_mask`` where there is one;
        ``bar`` counts its bytes. dim: 1, 2, 3, 4, 5. cta_mask: None, 'given'. cta_group: -1, 1, 2. hint: '',
        'evict_normal', 'evict_first', 'evict_last'. cache_policy: None, 'given'.
        """
    @staticmethod
    def g2c_bar_addr(
        dim: int,
        dst: Value,
        bar: Value,
        map: Value,
        cta_mask: Value = ...,
        cta_group: int = ...,
        hint: Value = ...,
        *coords: Value,
        **more: Value,
    ) -> Any:
        """A thread has a box brought to shared memory; coordinates innermost first. ``bar``: a pointer to an
        m-barrier, or its address in shared memory. A ``cta_group`` of 1, or none, is the CTA itself.
        """
    @staticmethod
    def g2c_im2col(
        dim: Value,
        dst: Value,
        bar: Value,
        map: Value,
        cta_mask: Value,
        cta_group: Value,
        hint: Value,
        coords: Value,
        offsets: Value,
        cache_policy: Value = ...,
        mode: Value = ...,
        window: Value = ...,
    ) -> Any:
        """A thread has pixels of images brought to shared memory, each with its channels: those from ``coords`` (C,
        W, H, D, N) on, at ``offsets`` (W, H, D) from them. ``bar`` counts the bytes. dim: 3, 4, 5. mode:
        'im2col', 'im2col::w', 'im2col::w::128'. cta_mask: None, 'given'. cta_group: -1, 1, 2. window: None,
        'cluster'. hint: '', 'evict_normal', 'evict_first', 'evict_last'. cache_policy: None, 'given'.
        """
    @staticmethod
    def g2c_prefetch(dim: Value, map: Value, hint: Value, *coords: Value, cache_policy: Value = ...) -> Any:
        """Has a box of an array brought to the L2 cache; no value changes. dim: 1, 2, 3, 4, 5. hint: '',
        'evict_normal', 'evict_first', 'evict_last'. cache_policy: None, 'given'.
        """
    @staticmethod
    def g2c_prefetch_im2col(
        dim: Value,
        map: Value,
        hint: Value,
        coords: Value,
        offsets: Value,
        cache_policy: Value = ...,
        mode: Value = ...,
    ) -> Any:
        """Has pixels of images brought to the L2 cache; no value changes. dim: 3, 4, 5. mode: 'im2col', 'im2col::w',
        'im2col::w::128'. hint: '', 'evict_normal', 'evict_first', 'evict_last'. cache_policy: None, 'given'.
        """
    @staticmethod
    def g2c_tile_gather4(
        dst: Value,
        bar: Value,
        map: Value,
        cta_mask: Value,
        cta_group: Value,
        hint: Value,
        *coords: Value,
        cache_policy: Value = ...,
        window: Value = ...,
    ) -> Any:
        """A thread has four rows of an array brought to shared memory, one after the other: ``coords`` are a column
        and rows. cta_mask: None, 'given'. cta_group: -1, 1, 2. window: None, 'cluster'. hint: '', 'evict_normal',
        'evict_first', 'evict_last'. cache_policy: None, 'given'.
        """
    @staticmethod
    def s2g(dim: Value, src: Value, map: Value, hint: Value, *coords: Value, cache_policy: Value = ...) -> Any:
        """A thread has a box in shared memory stored to an array; what lies outside of the array is left out. dim:
        1, 2, 3, 4, 5. hint: '', 'evict_normal', 'evict_first', 'evict_last'. cache_policy: None, 'given'.
        """
    @staticmethod
    def s2g_im2col(dim: Value, src: Value, map: Value, hint: Value, *coords: Value, cache_policy: Value = ...) -> Any:
        """A thread has pixels in shared memory stored to images; what lies outside of them is left out. dim: 3, 4,
        5. hint: '', 'evict_normal', 'evict_first', 'evict_last'. cache_policy: None, 'given'.
        """
    @staticmethod
    def s2g_reduce(
        dim: Value,
        src: Value,
        map: Value,
        hint: Value,
        op: Value,
        *coords: Value,
        cache_policy: Value = ...,
    ) -> Any:
        """A thread has a box in shared memory combined with what an array holds, element by element of its type.
        dim: 1, 2, 3, 4, 5. op: 'add', 'min', 'max', 'inc', 'dec', 'and', 'or', 'xor'. hint: '', 'evict_normal',
        'evict_first', 'evict_last'. cache_policy: None, 'given'.
        """
    @staticmethod
    def s2g_reduce_im2col(
        dim: Value,
        src: Value,
        map: Value,
        hint: Value,
        op: Value,
        *coords: Value,
        cache_policy: Value = ...,
    ) -> Any:
        """A thread has pixels in shared memory combined with what images hold, element by element of their type.
        dim: 3, 4, 5. op: 'add', 'min', 'max', 'inc', 'dec', 'and', 'or', 'xor'. hint: '', 'evict_normal',
        'evict_first', 'evict_last'. cache_policy: None, 'given'.
        """
    @staticmethod
    def s2g_tile_scatter4(src: Value, map: Value, hint: Value, *coords: Value, cache_policy: Value = ...) -> Any:
        """A thread has four rows in shared memory stored to an array; ``coords`` are a column and the rows. hint:
        '', 'evict_normal', 'evict_first', 'evict_last'. cache_policy: None, 'given'.
        """

class _ptx_cp_async_bulk:
    @staticmethod
    def commit_group() -> Any:
        """Makes a group of the bulk stores and reductions that the thread has issued since the last one."""
    @staticmethod
    def g2s_cluster(
        dst: Value,
        src: Value,
        n: Value,
        bar: Value,
        cta_mask: Value = ...,
        cache_hint: Value = ...,
        cache_policy: Value = ...,
    ) -> Any:
        """A thread has ``n`` bytes copied from global memory to shared memory of the cluster. cta_mask: None,
        'given'. cache_hint: '', 'evict_normal', 'evict_first', 'evict_last'. cache_policy: None, 'given'.
        """
    @staticmethod
    def g2s_cta(
        dst: Value,
        src: Value,
        n: Value,
        bar: Value,
        cache_hint: Value = ...,
        cache_policy: Value = ...,
    ) -> Any:
        """A thread has ``n`` bytes copied from global memory to the CTA's shared memory. cache_hint: '',
        'evict_normal', 'evict_first', 'evict_last'. cache_policy: None, 'given'.
        """
    @staticmethod
    def prefetch(src: Value, n: Value) -> Any:
        """Has ``n`` bytes of global memory brought to the L2 cache; no value changes."""
    @staticmethod
    def s2c(dst: Value, src: Value, n: Value, bar: Value) -> Any:
        """A thread has ``n`` bytes copied from shared memory to that of a CTA of the cluster."""
    @staticmethod
    def s2g(
        dst: Value,
        src: Value,
        n: Value,
        cache_hint: Value = ...,
        cache_policy: Value = ...,
        byte_mask: Value = ...,
    ) -> Any:
        """A thread has ``n`` bytes copied from shared memory to global memory; with ``byte_mask`` of each 16 bytes
        those whose bits are set. cache_hint: '', 'evict_normal', 'evict_first', 'evict_last'. cache_policy: None,
        'given'. byte_mask: None, 'given'.
        """
    tensor: _ptx_cp_async_bulk_tensor
    @staticmethod
    def wait_group(n: Value = ..., read: Value = ...) -> Any:
        """Waits until at most the ``n`` newest bulk groups of the thread are under way; with ``read`` until all
        others have read their sources, which may then be written again. read: True, False.
        """

class _ptx_cp_async_mbarrier:
    @staticmethod
    def arrive(bar: Value, noinc: Value = ...) -> Any:
        """Arrives at an m-barrier once all copies that the thread has issued are complete: an arrival beyond those
        that it was made for, or with ``noinc`` one of them. noinc: False, True.
        """

class _ptx_cp_async:
    def __call__(
        self,
        dst: Value,
        src: Value,
        n: Value,
        cache_hint: Value = ...,
        cache_policy: Value = ...,
        prefetch_size: Value = ...,
        predicate: Value = ...,
        fill_mode: Value = ...,
        src_size: Value = ...,
        ignore_src: Value = ...,
        cache: Value = ...,
    ) -> Any:
        """A thread has ``n`` bytes copied from global to shared memory; they are there once it has waited for them.
        src_size: None, 'given'. ignore_src: None, 'given'. predicate: None, 'given'. n: 4, 8, 16. cache: None,
        'ca', 'cg'. cache_hint: '', 'evict_normal', 'evict_first', 'evict_last'. cache_policy: None, 'given'.
        prefetch_size: -1, 64, 128, 256. fill_mode: '', 'zero'.
        """
    bulk: _ptx_cp_async_bulk
    @staticmethod
    def commit_group() -> Any:
        """Makes a group of the copies that the thread has issued since the last one."""
    mbarrier: _ptx_cp_async_mbarrier
    @staticmethod
    def wait_all() -> Any:
        """Waits until all copies of the thread are complete, those that no group has among them."""
    @staticmethod
    def wait_group(n: Value = ...) -> Any:
        """Waits until at most the ``n`` newest groups of the thread are under way."""

class _ptx_cp_reduce_async_bulk:
    @staticmethod
    def s2c(dst: Value, src: Value, n: Value, bar: Value, op: Value, kind: Value) -> Any:
        """A thread has ``n`` bytes combined, as elements of a dtype, from shared memory to that of a CTA of the
        cluster. op: 'add', 'min', 'max', 'inc', 'dec', 'and', 'or', 'xor'. kind: 'uint32', 'int32', 'uint64'.
        """
    @staticmethod
    def s2g(dst: Value, src: Value, n: Value, op: Value, kind: Value) -> Any:
        """A thread has ``n`` bytes combined, as elements of a dtype, from shared memory to global memory. op: 'add',
        'min', 'max', 'inc', 'dec', 'and', 'or', 'xor'. kind: 'uint32', 'int32', 'uint64', 'float16', 'bfloat16',
        'float32', 'float64', 'int64'.
        """

class _ptx_cp_reduce_async:
    bulk: _ptx_cp_reduce_async_bulk

class _ptx_cvt_pack:
    def __call__(self, a: Value, b: Value, type: Value) -> Any:
        """Two integers clamped and put side by side, a above. type: 'u16', 's16'."""
    @staticmethod
    def onto(a: Value, b: Value, c: Value, type: Value) -> Any:
        """Two integers clamped and put side by side, a above, below the bits of c, which move up. type: 'u8', 's8',
        'u4', 's4', 'u2', 's2'.
        """

class _ptx_cvt_rs:
    def __call__(self, a: Value, b: Value, rbits: Value, type: Value, relu: Value = ..., finite: Value = ...) -> Any:
        """Two float32 as narrower floats, a in the upper half, rounded away from zero where ``rbits``, of which each
        gets a half (its lower 13 bits for f16), carry over from the bits that are cut off. type: 'f16x2',
        'bf16x2'. relu: False, True. finite: False, True.
        """
    @staticmethod
    def of_four(
        a: Value,
        b: Value,
        e: Value,
        f: Value,
        rbits: Value,
        type: Value,
        finite: Value,
        relu: Value = ...,
    ) -> Any:
        """Four float32 as narrow floats, a above, rounded as in cvt.rs: a and b by the upper half of ``rbits``, e
        and f by the lower one; of e2m1 each by a byte of its own. The manual does not say at which of the bits
        that are cut off the random ones begin; here it is the first. type: 'e4m3x4', 'e5m2x4', 'e2m3x4',
        'e3m2x4', 'e2m1x4'. relu: False, True. finite: True.
        """

class _ptx_cvt:
    def __call__(
        self,
        a: Value,
        type: Value,
        atype: Value,
        sat: Value = ...,
        rnd: Value = ...,
        ftz: Value = ...,
        relu: Value = ...,
        finite: Value = ...,
    ) -> Any:
        """a as another type: integers chopped or clamped; floats rounded once; floats to integers always clamped.
        type: 'u8', 'u16', 'u32', 'u64', 's8', 's16', 's32', 's64', 'f16', 'f64', 'f32', 'bf16', 'tf32', 'f16x2',
        'e4m3x2', 'e5m2x2', 'bf16x2', 'e2m3x2', 'e3m2x2', 'e2m1x2', 'ue8m0x2'. atype: 'u8', 'u16', 'u32', 'u64',
        's8', 's16', 's32', 's64', 'f16', 'f64', 'f32', 'bf16', 'e4m3x2', 'e5m2x2', 'f16x2', 'e2m3x2', 'e3m2x2',
        'e2m1x2', 'bf16x2', 'ue8m0x2'. sat: False, True. rnd: None, 'rn', 'rz', 'rm', 'rp', 'rni', 'rzi', 'rmi',
        'rpi', 'rna'. ftz: False, True. relu: False, True. finite: False, True.
        """
    pack: _ptx_cvt_pack
    @staticmethod
    def pair(a: Value, b: Value, type: Value, atype: Value, rnd: Value, relu: Value = ..., finite: Value = ...) -> Any:
        """Two float32 as narrower floats in one register, a in the upper half. type: 'f16x2', 'bf16x2', 'e4m3x2',
        'e5m2x2', 'e2m3x2', 'e3m2x2', 'e2m1x2', 'ue8m0x2'. atype: 'f32'. rnd: 'rn', 'rz', 'rp'. relu: False, True.
        finite: False, True.
        """
    rs: _ptx_cvt_rs

class _ptx_cvta_to_shared:
    @staticmethod
    def u64(ptr: Value) -> Any:
        """The shared address of a pointer, 64 bits wide."""

class _ptx_cvta_to:
    shared: _ptx_cvta_to_shared

class _ptx_cvta:
    to: _ptx_cvta_to

class _ptx_elect:
    @staticmethod
    def sync(mask: Value = ..., out: Value = ...) -> Any:
        """One lane of the mask, always the same one; ``out='p'``: whether it is the caller. out: 'd', 'p'."""

class _ptx_fence_proxy_async:
    def __call__(self, space: Value = ...) -> Any:
        """Orders this thread's ordinary accesses before those of the asynchronous units (TMA, tensor cores). space:
        '', 'shared::cta', 'shared::cluster', 'global'.
        """
    @staticmethod
    def sync_restrict(sem: Value) -> Any:
        """Orders ordinary accesses of shared memory before those of the asynchronous units of the cluster's other
        CTAs: ``release`` before the CTAs meet, ``acquire`` after it. sem: 'release', 'acquire'.
        """

class _ptx_fence_proxy_tensormap:
    @staticmethod
    def acquire(ptr: Value, scope: Value) -> Any:
        """The asynchronous units see the 128 bytes of a tensor map at ``ptr`` as they were handed on. scope: 'cta',
        'cluster', 'gpu', 'sys'.
        """
    @staticmethod
    def release(scope: Value) -> Any:
        """Whoever has changed a tensor map hands it on: to the acquiring fence of its reader, by a flag or a
        barrier. scope: 'cta', 'cluster', 'gpu', 'sys'.
        """

class _ptx_fence:
    def __call__(self, sem: Value, scope: Value) -> Any:
        """Orders this thread's accesses as the threads of ``scope`` see them; ``sc`` also among all such fences.
        With a strong store after it, it hands on what the thread did before (not ``acquire``); with a strong load
        before it, it takes over (not ``release``). sem: 'sc', 'acq_rel', 'acquire', 'release'. scope: 'cta',
        'cluster', 'gpu', 'sys'.
        """
    @staticmethod
    def mbarrier_init() -> Any:
        """Makes the initialisation of m-barriers visible to the cluster."""
    @staticmethod
    def proxy_alias() -> Any:
        """Orders accesses of one place by two of its virtual addresses."""
    proxy_async: _ptx_fence_proxy_async
    proxy_tensormap: _ptx_fence_proxy_tensormap
    @staticmethod
    def sync_restrict(sem: Value) -> Any:
        """T.ptx.fence(sem, 'cluster') for accesses of shared memory alone: the CTA's own where it releases, any of
        the cluster where it acquires. sem: 'release', 'acquire'.
        """

class _ptx_fma:
    def __call__(
        self,
        a: Value,
        b: Value,
        c: Value,
        type: Value,
        rnd: Value,
        ftz: Value = ...,
        sat: Value = ...,
        relu: Value = ...,
        oob: Value = ...,
    ) -> Any:
        """The value of a * b + c, rounded once; with ``oob`` 0 where one of them is the NaN of what is out of
        bounds. type: 'f32', 'f64', 'f16', 'f16x2', 'bf16', 'bf16x2', 'f32x2'. rnd: 'rn', 'rz', 'rm', 'rp'. ftz:
        False, True. sat: False, True. relu: False, True. oob: False, True.
        """
    @staticmethod
    def mixed(a: Value, b: Value, c: Value, atype: Value, rnd: Value, sat: Value = ...) -> Any:
        """fma of numbers of 16 bits and the last one of 32, rounded once. atype: 'f16', 'bf16'. rnd: 'rn', 'rz',
        'rm', 'rp'. sat: False, True.
        """

class _ptx_griddepcontrol:
    @staticmethod
    def launch_dependents() -> Any:
        """The grids that depend on this one may begin."""
    @staticmethod
    def wait() -> Any:
        """Waits until the grids that this one depends on have ended, and sees what they wrote."""

class _ptx_ld:
    def __call__(
        self,
        ptr: Value,
        sem: Value = ...,
        scope: Value = ...,
        space: Value = ...,
        type: Value = ...,
        vec: Value = ...,
        nc: Value = ...,
    ) -> Any:
        """The element that ``ptr`` points to, of its buffer's dtype or of ``type``, or a vector of some; strong
        unless ``sem`` is weak; with ``nc`` nobody writes it meanwhile. type: 'b8', 'u8', 's8', 'b16', 'u16',
        's16', 'b32', 'u32', 's32', 'b64', 'u64', 's64', 'f32', 'f64'. vec: 1, 2, 4, 8. space: 'local', 'const',
        'param', None, 'global', 'shared', 'shared::cta', 'shared::cluster'. sem: 'weak', 'volatile', 'relaxed',
        'acquire', 'mmio'. scope: None, 'cta', 'gpu', 'sys', 'cluster'. nc: False, True.
        """
    @staticmethod
    def b128(ptr: Value, *r: Value, sem: Value = ..., scope: Value = ..., space: Value = ...) -> Any:
        """One element of 128 bits from where ``ptr`` points, the low half in the first of two registers. sem:
        'weak', 'volatile', 'relaxed', 'acquire', 'mmio'. scope: None, 'cta', 'gpu', 'sys', 'cluster'. space:
        None, 'global', 'shared', 'shared::cta', 'shared::cluster'.
        """
    @staticmethod
    def v2(ptr: Value, *r: Value, sem: Value = ..., scope: Value = ..., space: Value = ...) -> Any:
        """2 registers of 32 bits from where ``ptr`` points; each is an access of its own."""
    @staticmethod
    def v4(ptr: Value, *r: Value, sem: Value = ..., scope: Value = ..., space: Value = ...) -> Any:
        """4 registers of 32 bits from where ``ptr`` points; each is an access of its own."""

class _ptx_lop3:
    def __call__(self, a: Value, b: Value, c: Value, lut: Value, type: Value) -> Any:
        """In each place bit ``a<<2 | b<<1 | c`` of the constant ``lut``. type: 'b32'."""
    @staticmethod
    def joined(
        a: Value,
        b: Value,
        c: Value,
        lut: Value,
        q: Value,
        type: Value,
        bool_op: Value,
        out: Value = ...,
    ) -> Any:
        """lop3 of a, b and c; ``out='p'``: whether some bit is set, joined with q. type: 'b32'. bool_op: 'or',
        'and'. out: 'd', 'p'.
        """

class _ptx_mad:
    def __call__(
        self,
        a: Value,
        b: Value,
        c: Value,
        type: Value,
        half: Value = ...,
        sat: Value = ...,
        rnd: Value = ...,
        ftz: Value = ...,
    ) -> Any:
        """The product of a and b, or half of it, and c; of floats rounded once, as fma. type: 'u16', 's16', 'u32',
        's32', 'u64', 's64', 'f32', 'f64'. half: 'lo', 'hi', 'wide', None. sat: False, True. rnd: None, 'rn',
        'rz', 'rm', 'rp'. ftz: False, True.
        """
    @staticmethod
    def cc(a: Value, b: Value, c: Value, type: Value, half: Value, out: Value = ..., cc: Value = ...) -> Any:
        """Half of the product of a and b, with c; ``out='cc'``: the carry of the sum. type: 'u32', 's32', 'u64',
        's64'. out: 'd', 'cc'. cc: True. half: 'lo', 'hi'.
        """

class _ptx_match:
    @staticmethod
    def sync(a: Value, mask: Value, mode: Value, type: Value = ..., out: Value = ...) -> Any:
        """The lanes of the mask with the same value (any); the mask where all have one, ``out='p'``: whether (all).
        type: 'b32', 'b64'. mode: 'any', 'all'. out: 'd', 'p'.
        """

class _ptx_mbarrier_arrive:
    def __call__(self, bar: Value, cta_id: Value = ..., pred: Value = ..., count: Value = ..., **order: Value) -> Any:
        """Arrives at an m-barrier, ``count`` times; returns its state before, unless it is in another CTA. count:
        None, 'given'. sem: 'release', 'relaxed'. scope: None, 'cta', 'cluster'. space: 'shared', 'shared::cta',
        'shared::cluster'.
        """
    @staticmethod
    def cluster_count(bar: Value, cta_id: Value, n: Value, **order: Value) -> Any:
        """Arrives ``n`` times at the m-barrier of another CTA of the cluster."""
    @staticmethod
    def expect_tx(bar: Value, bytes: Value, cta_id: Value = ..., pred: Value = ..., **order: Value) -> Any:
        """Announces ``bytes`` to an m-barrier, then arrives; returns its state before, unless it is in another CTA.
        sem: 'release', 'relaxed'. scope: None, 'cta', 'cluster'. space: 'shared', 'shared::cta',
        'shared::cluster'.
        """
    @staticmethod
    def no_complete(ptr: Value, count: Value, space: Value = ...) -> Any:
        """Arrives ``count`` times; ending the phase is an error. Returns the m-barrier's state before. space:
        'shared', 'shared::cta'.
        """

class _ptx_mbarrier_arrive_drop:
    def __call__(self, ptr: Value, count: Value = ..., sem: Value = ..., scope: Value = ..., space: Value = ...) -> Any:
        """Arrives at an m-barrier for the last time: later phases wait for ``count`` arrivals less. count: None,
        'given'. sem: 'release', 'relaxed'. scope: None, 'cta', 'cluster'. space: 'shared', 'shared::cta',
        'shared::cluster'.
        """
    @staticmethod
    def expect_tx(ptr: Value, bytes: Value, sem: Value = ..., scope: Value = ..., space: Value = ...) -> Any:
        """Announces ``bytes`` to an m-barrier, then arrives for the last time; returns its state before. sem:
        'release', 'relaxed'. scope: None, 'cta', 'cluster'. space: 'shared', 'shared::cta', 'shared::cluster'.
        """
    @staticmethod
    def no_complete(ptr: Value, count: Value, space: Value = ...) -> Any:
        """Arrives ``count`` times for the last time; ending the phase is an error. Returns the m-barrier's state
        before. space: 'shared', 'shared::cta'.
        """

class _ptx_mbarrier_test_wait:
    def __call__(self, ptr: Value, state: Value, sem: Value = ..., scope: Value = ...) -> Any:
        """Whether the phase in which `arrive` gave ``state`` is over. sem: 'acquire', 'relaxed'. scope: None, 'cta',
        'cluster'.
        """
    @staticmethod
    def parity(ptr: Value, phase: Value, sem: Value = ..., scope: Value = ...) -> Any:
        """Whether the phase of parity ``phase`` (its lowest bit) is over. sem: 'acquire', 'relaxed'. scope: None,
        'cta', 'cluster'.
        """

class _ptx_mbarrier_try_wait:
    def __call__(self, ptr: Value, phase: Value, sem: Value = ..., scope: Value = ...) -> Any:
        """Waits until the phase of parity ``phase`` (its lowest bit) is over. sem: 'acquire', 'relaxed'. scope:
        None, 'cta', 'cluster'.
        """
    @staticmethod
    def state(ptr: Value, state: Value, sem: Value = ..., scope: Value = ...) -> Any:
        """Waits until the phase in which `arrive` gave ``state`` is over. sem: 'acquire', 'relaxed'. scope: None,
        'cta', 'cluster'.
        """

class _ptx_mbarrier_try_wait_once:
    def __call__(self, ptr: Value, phase: Value, ns: Value = ..., sem: Value = ..., scope: Value = ...) -> Any:
        """Whether the phase of parity ``phase`` (its lowest bit) is over; may sleep a while, at most about ``ns``
        nanoseconds, before it answers no. ns: None, 'given'. sem: 'acquire', 'relaxed'. scope: None, 'cta',
        'cluster'.
        """
    @staticmethod
    def state(ptr: Value, state: Value, ns: Value = ..., sem: Value = ..., scope: Value = ...) -> Any:
        """Whether the phase in which `arrive` gave ``state`` is over; may sleep a while, at most about ``ns``
        nanoseconds, before it answers no. ns: None, 'given'. sem: 'acquire', 'relaxed'. scope: None, 'cta',
        'cluster'.
        """

class _ptx_mbarrier:
    arrive: _ptx_mbarrier_arrive
    arrive_drop: _ptx_mbarrier_arrive_drop
    @staticmethod
    def complete_tx(ptr: Value, bytes: Value, scope: Value = ..., space: Value = ...) -> Any:
        """Tells an m-barrier that so many ``bytes`` have come, as an asynchronous copy does. scope: None, 'cta',
        'cluster'. space: 'shared', 'shared::cta', 'shared::cluster'.
        """
    @staticmethod
    def expect_tx(ptr: Value, bytes: Value, scope: Value = ..., space: Value = ...) -> Any:
        """Announces ``bytes`` to an m-barrier: its phase does not end before they have come. scope: None, 'cta',
        'cluster'. space: 'shared', 'shared::cta', 'shared::cluster'.
        """
    @staticmethod
    def init(ptr: Value, count: Value) -> Any:
        """Makes an m-barrier of 8 bytes; each phase waits for ``count`` arrivals."""
    @staticmethod
    def inval(ptr: Value) -> Any:
        """Ends an m-barrier; its bytes may be used for something else."""
    @staticmethod
    def pending_count(state: Value) -> Any:
        """How many arrivals were pending when an arrival gave ``state``."""
    test_wait: _ptx_mbarrier_test_wait
    try_wait: _ptx_mbarrier_try_wait
    @staticmethod
    def try_wait_acquire_cluster(bar: Value, phase: Value) -> Any:
        """Waits until a phase is over, and sees what other CTAs of the cluster did before they arrived."""
    try_wait_once: _ptx_mbarrier_try_wait_once

class _ptx_mma:
    def __call__(
        self,
        shape: Value,
        types: Value,
        d: Value,
        a: Value,
        b: Value,
        c: Value,
        saturate: Value = ...,
    ) -> Any:
        """A warp computes D = A * B + C on matrices in its registers; ``types`` names the elements of D, A, B and C.
        shape: 'm16n8k8', 'm16n8k16', 'm16n8k4', 'm16n8k32'. types: 'f32.f16.f16.f32', 'f16.f16.f16.f16',
        'f32.bf16.bf16.f32', 'f32.tf32.tf32.f32', 's32.s8.s8.s32', 's32.s8.u8.s32', 's32.u8.s8.s32',
        's32.u8.u8.s32', 'f32.e4m3.e4m3.f32', 'f32.e4m3.e5m2.f32', 'f32.e5m2.e4m3.f32', 'f32.e5m2.e5m2.f32',
        'f16.e4m3.e4m3.f16', 'f16.e4m3.e5m2.f16', 'f16.e5m2.e4m3.f16', 'f16.e5m2.e5m2.f16'. saturate: False, True.
        """
    @staticmethod
    def and_(shape: Value, types: Value, d: Value, a: Value, b: Value, c: Value, op: Value = ...) -> Any:
        """A warp adds to C how many bits are set in the and of each row of A with each column of B. shape:
        'm8n8k128', 'm16n8k128', 'm16n8k256'. types: 's32.b1.b1.s32'. op: 'and'.
        """
    @staticmethod
    def f64(shape: Value, types: Value, d: Value, a: Value, b: Value, c: Value, rnd: Value = ...) -> Any:
        """A warp computes D = A * B + C in float64, each multiply-add along K rounded once. shape: 'm8n8k4',
        'm16n8k4', 'm16n8k8', 'm16n8k16'. types: 'f64.f64.f64.f64'. rnd: None, 'rn', 'rz', 'rm', 'rp'.
        """
    @staticmethod
    def f8f6f4(shape: Value, types: Value, d: Value, a: Value, b: Value, c: Value, kind: Value = ...) -> Any:
        """A warp computes D = A * B + C on floats of 4, 6 and 8 bits, a byte each: those of 4 bits in bits 2 to 5.
        shape: 'm16n8k32'. types: 'f32.e4m3.e4m3.f32', 'f32.e4m3.e5m2.f32', 'f32.e5m2.e4m3.f32',
        'f32.e5m2.e5m2.f32', 'f16.e4m3.e4m3.f16', 'f16.e4m3.e5m2.f16', 'f16.e5m2.e4m3.f16', 'f16.e5m2.e5m2.f16',
        'f32.e4m3.e3m2.f32', 'f32.e4m3.e2m3.f32', 'f32.e4m3.e2m1.f32', 'f32.e5m2.e3m2.f32', 'f32.e5m2.e2m3.f32',
        'f32.e5m2.e2m1.f32', 'f32.e3m2.e4m3.f32', 'f32.e3m2.e5m2.f32', 'f32.e3m2.e3m2.f32', 'f32.e3m2.e2m3.f32',
        'f32.e3m2.e2m1.f32', 'f32.e2m3.e4m3.f32', 'f32.e2m3.e5m2.f32', 'f32.e2m3.e3m2.f32', 'f32.e2m3.e2m3.f32',
        'f32.e2m3.e2m1.f32', 'f32.e2m1.e4m3.f32', 'f32.e2m1.e5m2.f32', 'f32.e2m1.e3m2.f32', 'f32.e2m1.e2m3.f32',
        'f32.e2m1.e2m1.f32', 'f16.e4m3.e3m2.f16', 'f16.e4m3.e2m3.f16', 'f16.e4m3.e2m1.f16', 'f16.e5m2.e3m2.f16',
        'f16.e5m2.e2m3.f16', 'f16.e5m2.e2m1.f16', 'f16.e3m2.e4m3.f16', 'f16.e3m2.e5m2.f16', 'f16.e3m2.e3m2.f16',
        'f16.e3m2.e2m3.f16', 'f16.e3m2.e2m1.f16', 'f16.e2m3.e4m3.f16', 'f16.e2m3.e5m2.f16', 'f16.e2m3.e3m2.f16',
        'f16.e2m3.e2m3.f16', 'f16.e2m3.e2m1.f16', 'f16.e2m1.e4m3.f16', 'f16.e2m1.e5m2.f16', 'f16.e2m1.e3m2.f16',
        'f16.e2m1.e2m3.f16', 'f16.e2m1.e2m1.f16'. kind: 'f8f6f4'.
        """
    @staticmethod
    def integer(shape: Value, types: Value, d: Value, a: Value, b: Value, c: Value, saturate: Value = ...) -> Any:
        """A warp computes D = A * B + C on 4-bit integers, or on bytes of 8 rows. shape: 'm8n8k16', 'm8n8k32',
        'm16n8k32', 'm16n8k64'. types: 's32.s8.s8.s32', 's32.s8.u8.s32', 's32.u8.s8.s32', 's32.u8.u8.s32',
        's32.s4.s4.s32', 's32.s4.u4.s32', 's32.u4.s4.s32', 's32.u4.u4.s32'. saturate: False, True.
        """
    @staticmethod
    def quads(
        types: Value,
        d: Value,
        a: Value,
        b: Value,
        c: Value,
        a_layout: Value = ...,
        b_layout: Value = ...,
    ) -> Any:
        """A warp computes four products D = A * B + C of 8 x 4 and 4 x 8 matrices of float16, each in eight lanes.
        a_layout: 'row', 'col'. b_layout: 'row', 'col'. types: 'f16.f16.f16.f16', 'f32.f16.f16.f32',
        'f32.f16.f16.f16'.
        """
    @staticmethod
    def sp(
        shape: Value,
        types: Value,
        d: Value,
        a: Value,
        b: Value,
        c: Value,
        e: Value,
        selector: Value = ...,
        ordered: Value = ...,
        saturate: Value = ...,
    ) -> Any:
        """A warp computes D = A * B + C where A has two elements of every four; ``e`` says which, of the lanes that
        the selector names. shape: 'm16n8k16', 'm16n8k32', 'm16n8k8', 'm16n8k64', 'm16n8k128'. types:
        'f32.f16.f16.f32', 'f16.f16.f16.f16', 'f32.bf16.bf16.f32', 'f32.tf32.tf32.f32', 's32.s8.s8.s32',
        's32.s8.u8.s32', 's32.u8.s8.s32', 's32.u8.u8.s32', 's32.s4.s4.s32', 's32.s4.u4.s32', 's32.u4.s4.s32',
        's32.u4.u4.s32', 'f32.e4m3.e4m3.f32', 'f32.e4m3.e5m2.f32', 'f32.e5m2.e4m3.f32', 'f32.e5m2.e5m2.f32'.
        selector: 0, 1, 2, 3. ordered: False, True. saturate: False, True.
        """
    @staticmethod
    def xor(shape: Value, types: Value, d: Value, a: Value, b: Value, c: Value, op: Value = ...) -> Any:
        """A warp adds to C how many bits are set in the xor of each row of A with each column of B. shape:
        'm8n8k128', 'm16n8k128', 'm16n8k256'. types: 's32.b1.b1.s32'. op: 'xor'.
        """

class _ptx_mov:
    def __call__(self, a: Value, type: Value) -> Any:
        """The bits of a. type: 'b16', 'b32', 'b64', 'u16', 'u32', 'u64', 's16', 's32', 's64', 'f32', 'f64', 'pred'."""
    @staticmethod
    def pack2(a: Value, b: Value, type: Value) -> Any:
        """2 registers side by side in one, the first in its low bits. type: 'b32', 'b64'."""
    @staticmethod
    def pack4(a: Value, b: Value, c: Value, d: Value, type: Value) -> Any:
        """4 registers side by side in one, the first in its low bits. type: 'b32', 'b64'."""
    @staticmethod
    def unpack2(a: Value, type: Value, inner: Value, out: Value = ...) -> Any:
        """One of the 2 equal parts of a register; part 0 is in its low bits. type: 'b32', 'b64'. out: 0, 1. inner:
        'b16', 'b32'.
        """
    @staticmethod
    def unpack4(a: Value, type: Value, inner: Value, out: Value = ...) -> Any:
        """One of the 4 equal parts of a register; part 0 is in its low bits. type: 'b32', 'b64'. out: 0, 1, 2, 3.
        inner: 'b8', 'b16'.
        """

class _ptx_red_add:
    def __call__(self, ptr: Value, value: Value, sem: Value = ..., scope: Value = ..., space: Value = ...) -> Any:
        """Adds `value` to what `ptr` points to; returns nothing. sem: 'relaxed', 'release'. scope: 'cta', 'gpu',
        'sys', 'cluster'. space: None, 'global', 'shared', 'shared::cta', 'shared::cluster'.
        """
    @staticmethod
    def bf16x2(ptr: Value, value: Value, sem: Value = ..., scope: Value = ..., space: Value = ...) -> Any:
        """Adds the two bfloat16 of 32 bits, each an access of its own; returns nothing. sem: 'relaxed', 'release'.
        scope: 'cta', 'gpu', 'sys', 'cluster'. space: None, 'global', 'shared', 'shared::cta', 'shared::cluster'.
        """
    @staticmethod
    def f16x2(ptr: Value, value: Value, sem: Value = ..., scope: Value = ..., space: Value = ...) -> Any:
        """Adds the two float16 of 32 bits, each an access of its own; returns nothing. sem: 'relaxed', 'release'.
        scope: 'cta', 'gpu', 'sys', 'cluster'. space: None, 'global', 'shared', 'shared::cta', 'shared::cluster'.
        """

class _ptx_red:
    add: _ptx_red_add
    @staticmethod
    def and_(ptr: Value, value: Value, sem: Value = ..., scope: Value = ..., space: Value = ...) -> Any:
        """Bitwise and of `value` and what `ptr` points to; returns nothing. sem: 'relaxed', 'release'. scope: 'cta',
        'gpu', 'sys', 'cluster'. space: None, 'global', 'shared', 'shared::cta', 'shared::cluster'.
        """
    @staticmethod
    def dec(ptr: Value, value: Value, sem: Value = ..., scope: Value = ..., space: Value = ...) -> Any:
        """Counts down to 0, then from `value` again; returns nothing. sem: 'relaxed', 'release'. scope: 'cta',
        'gpu', 'sys', 'cluster'. space: None, 'global', 'shared', 'shared::cta', 'shared::cluster'.
        """
    @staticmethod
    def inc(ptr: Value, value: Value, sem: Value = ..., scope: Value = ..., space: Value = ...) -> Any:
        """Counts up to `value`, then from 0 again; returns nothing. sem: 'relaxed', 'release'. scope: 'cta', 'gpu',
        'sys', 'cluster'. space: None, 'global', 'shared', 'shared::cta', 'shared::cluster'.
        """
    @staticmethod
    def max(ptr: Value, value: Value, sem: Value = ..., scope: Value = ..., space: Value = ...) -> Any:
        """Keeps the larger of `value` and what `ptr` points to; returns nothing. sem: 'relaxed', 'release'. scope:
        'cta', 'gpu', 'sys', 'cluster'. space: None, 'global', 'shared', 'shared::cta', 'shared::cluster'.
        """
    @staticmethod
    def min(ptr: Value, value: Value, sem: Value = ..., scope: Value = ..., space: Value = ...) -> Any:
        """Keeps the smaller of `value` and what `ptr` points to; returns nothing. sem: 'relaxed', 'release'. scope:
        'cta', 'gpu', 'sys', 'cluster'. space: None, 'global', 'shared', 'shared::cta', 'shared::cluster'.
        """
    @staticmethod
    def or_(ptr: Value, value: Value, sem: Value = ..., scope: Value = ..., space: Value = ...) -> Any:
        """Bitwise or of `value` and what `ptr` points to; returns nothing. sem: 'relaxed', 'release'. scope: 'cta',
        'gpu', 'sys', 'cluster'. space: None, 'global', 'shared', 'shared::cta', 'shared::cluster'.
        """
    @staticmethod
    def vec(
        ptr: Value,
        *value: Value,
        op: Value,
        type: Value,
        vec: Value,
        space: Value = ...,
        sem: Value = ...,
        scope: Value = ...,
    ) -> Any:
        """Combines several numbers in global memory with registers, each for itself. sem: 'relaxed', 'release'.
        scope: 'cta', 'gpu', 'sys', 'cluster'. space: 'global', None. type: 'f32', 'f16', 'bf16', 'f16x2',
        'bf16x2'. vec: 2, 4, 8. op: 'add', 'min', 'max'.
        """
    @staticmethod
    def xor(ptr: Value, value: Value, sem: Value = ..., scope: Value = ..., space: Value = ...) -> Any:
        """Bitwise exclusive or of `value` and what `ptr` points to; returns nothing. sem: 'relaxed', 'release'.
        scope: 'cta', 'gpu', 'sys', 'cluster'. space: None, 'global', 'shared', 'shared::cta', 'shared::cluster'.
        """

class _ptx_red_async:
    @staticmethod
    def add(ptr: Value, value: Value, bar: Value) -> Any:
        """A thread has ``value`` combined with a place in another CTA; ``bar`` there counts its bytes."""
    @staticmethod
    def and_(ptr: Value, value: Value, bar: Value) -> Any:
        """A thread has ``value`` combined with a place in another CTA; ``bar`` there counts its bytes."""
    @staticmethod
    def dec(ptr: Value, value: Value, bar: Value) -> Any:
        """A thread has ``value`` combined with a place in another CTA; ``bar`` there counts its bytes."""
    @staticmethod
    def inc(ptr: Value, value: Value, bar: Value) -> Any:
        """A thread has ``value`` combined with a place in another CTA; ``bar`` there counts its bytes."""
    @staticmethod
    def max(ptr: Value, value: Value, bar: Value) -> Any:
        """A thread has ``value`` combined with a place in another CTA; ``bar`` there counts its bytes."""
    @staticmethod
    def min(ptr: Value, value: Value, bar: Value) -> Any:
        """A thread has ``value`` combined with a place in another CTA; ``bar`` there counts its bytes."""
    @staticmethod
    def or_(ptr: Value, value: Value, bar: Value) -> Any:
        """A thread has ``value`` combined with a place in another CTA; ``bar`` there counts its bytes."""
    @staticmethod
    def xor(ptr: Value, value: Value, bar: Value) -> Any:
        """A thread has ``value`` combined with a place in another CTA; ``bar`` there counts its bytes."""

class _ptx_redux:
    @staticmethod
    def sync(a: Value, mask: Value, op: Value, nan: Value = ..., magnitude: Value = ...) -> Any:
        """What the values of the lanes of the mask come to. op: 'add', 'min', 'max', 'and', 'or', 'xor'. nan: False,
        True. magnitude: False, True.
        """

class _ptx_set:
    def __call__(
        self,
        a: Value,
        b: Value,
        type: Value,
        stype: Value,
        compare: Value,
        bool_op: Value = ...,
        ftz: Value = ...,
    ) -> Any:
        """All ones, or 1.0, where a comparison of a and b holds. type: 'u32', 's32', 'f32', 'f16', 'bf16', 'u16',
        's16', 'f16x2', 'bf16x2'. stype: 'b16', 'b32', 'b64', 's16', 's32', 's64', 'u16', 'u32', 'u64', 'f32',
        'f64', 'f16', 'bf16', 'f16x2', 'bf16x2'. compare: 'eq', 'ne', 'lt', 'le', 'gt', 'ge', 'lo', 'ls', 'hi',
        'hs', 'equ', 'neu', 'ltu', 'leu', 'gtu', 'geu', 'num', 'nan'. bool_op: None. ftz: False, True.
        """
    @staticmethod
    def joined(
        a: Value,
        b: Value,
        c: Value,
        type: Value,
        stype: Value,
        compare: Value,
        bool_op: Value,
        ftz: Value = ...,
    ) -> Any:
        """All ones, or 1.0, where a comparison of a and b holds, joined with c. type: 'u32', 's32', 'f32', 'f16',
        'bf16', 'u16', 's16', 'f16x2', 'bf16x2'. stype: 'b16', 'b32', 'b64', 's16', 's32', 's64', 'u16', 'u32',
        'u64', 'f32', 'f64', 'f16', 'bf16', 'f16x2', 'bf16x2'. compare: 'eq', 'ne', 'lt', 'le', 'gt', 'ge', 'lo',
        'ls', 'hi', 'hs', 'equ', 'neu', 'ltu', 'leu', 'gtu', 'geu', 'num', 'nan'. bool_op: 'and', 'or', 'xor'.
        ftz: False, True.
        """

class _ptx_setp:
    def __call__(
        self,
        a: Value,
        b: Value,
        type: Value,
        compare: Value,
        bool_op: Value = ...,
        out: Value = ...,
        ftz: Value = ...,
    ) -> Any:
        """Whether a comparison of a and b holds; ``out='q'``: of the opposite one, of a pair the upper. type: 'b16',
        'b32', 'b64', 's16', 's32', 's64', 'u16', 'u32', 'u64', 'f32', 'f64', 'f16', 'bf16', 'f16x2', 'bf16x2'.
        compare: 'eq', 'ne', 'lt', 'le', 'gt', 'ge', 'lo', 'ls', 'hi', 'hs', 'equ', 'neu', 'ltu', 'leu', 'gtu',
        'geu', 'num', 'nan'. bool_op: None. out: 'p', 'q'. ftz: False, True.
        """
    @staticmethod
    def joined(
        a: Value,
        b: Value,
        c: Value,
        type: Value,
        compare: Value,
        bool_op: Value,
        out: Value = ...,
        ftz: Value = ...,
    ) -> Any:
        """Whether a comparison of a and b holds, joined with c; ``out='q'``: of the opposite one, of a pair the
        upper. type: 'b16', 'b32', 'b64', 's16', 's32', 's64', 'u16', 'u32', 'u64', 'f32', 'f64', 'f16', 'bf16',
        'f16x2', 'bf16x2'. compare: 'eq', 'ne', 'lt', 'le', 'gt', 'ge', 'lo', 'ls', 'hi', 'hs', 'equ', 'neu',
        'ltu', 'leu', 'gtu', 'geu', 'num', 'nan'. bool_op: 'and', 'or', 'xor'. out: 'p', 'q'. ftz: False, True.
        """

class _ptx_shfl:
    @staticmethod
    def sync(a: Value, b: Value, c: Value, mask: Value, mode: Value, out: Value = ...) -> Any:
        """The value of another lane; c: the end (bits 0 to 4) and segments (8 to 12); ``out='p'``: whether inside.
        mode: 'up', 'down', 'bfly', 'idx'. out: 'd', 'p'.
        """

class _ptx_st:
    def __call__(
        self,
        ptr: Value,
        value: Value,
        sem: Value = ...,
        scope: Value = ...,
        space: Value = ...,
        type: Value = ...,
        vec: Value = ...,
    ) -> Any:
        """Stores ``value`` where ``ptr`` points, of the buffer's dtype or of ``type``; strong unless ``sem`` is
        weak. type: 'b8', 'u8', 's8', 'b16', 'u16', 's16', 'b32', 'u32', 's32', 'b64', 'u64', 's64', 'f32', 'f64'.
        vec: 1. space: 'local', 'param', None, 'global', 'shared', 'shared::cta', 'shared::cluster'. sem: 'weak',
        'volatile', 'relaxed', 'release', 'mmio'. scope: None, 'cta', 'gpu', 'sys', 'cluster'.
        """
    @staticmethod
    def b128(ptr: Value, *r: Value, sem: Value = ..., scope: Value = ..., space: Value = ...) -> Any:
        """One element of 128 bits to where ``ptr`` points, the low half in the first of two registers. sem: 'weak',
        'volatile', 'relaxed', 'release', 'mmio'. scope: None, 'cta', 'gpu', 'sys', 'cluster'. space: None,
        'global', 'shared', 'shared::cta', 'shared::cluster'.
        """
    @staticmethod
    def v2(ptr: Value, *r: Value, sem: Value = ..., scope: Value = ..., space: Value = ...) -> Any:
        """2 registers of 32 bits to where ``ptr`` points; each is an access of its own."""
    @staticmethod
    def v4(ptr: Value, *r: Value, sem: Value = ..., scope: Value = ..., space: Value = ...) -> Any:
        """4 registers of 32 bits to where ``ptr`` points; each is an access of its own."""
    @staticmethod
    def vec(
        ptr: Value,
        *value: Value,
        sem: Value = ...,
        scope: Value = ...,
        space: Value = ...,
        type: Value,
        vec: Value,
    ) -> Any:
        """Several registers to where ``ptr`` points; each is an access of its own. type: 'b8', 'u8', 's8', 'b16',
        'u16', 's16', 'b32', 'u32', 's32', 'b64', 'u64', 's64', 'f32', 'f64'. vec: 2, 4, 8. space: 'local',
        'param', None, 'global', 'shared', 'shared::cta', 'shared::cluster'. sem: 'weak', 'volatile', 'relaxed',
        'release'. scope: None, 'cta', 'gpu', 'sys', 'cluster'.
        """

class _ptx_st_async:
    def __call__(self, ptr: Value, value: Value, bar: Value) -> Any:
        """A thread has ``value`` stored in the shared memory of a CTA of the cluster; ``bar`` there counts its
        bytes.
        """
    @staticmethod
    def vec(vec: Value, ptr: Value, bar: Value, *values: Value) -> Any:
        """A thread has 2 or 4 registers stored in the shared memory of a CTA of the cluster; ``bar`` counts the
        bytes. vec: 2, 4.
        """

class _ptx_sub:
    def __call__(self, a: Value, b: Value, type: Value, sat: Value = ..., rnd: Value = ..., ftz: Value = ...) -> Any:
        """The difference of a and b: integers modulo their width, or clamped; floats rounded once. type: 'u16',
        's16', 'u32', 's32', 'u64', 's64', 'f32', 'f64', 'f16', 'f16x2', 'bf16', 'bf16x2', 'f32x2'. sat: False,
        True. rnd: None, 'rn', 'rz', 'rm', 'rp'. ftz: False, True.
        """
    @staticmethod
    def cc(a: Value, b: Value, type: Value, out: Value = ..., cc: Value = ...) -> Any:
        """The difference of a and b; ``out='cc'``: its borrow. type: 'u32', 's32', 'u64', 's64'. out: 'd', 'cc'. cc:
        True.
        """
    @staticmethod
    def mixed(a: Value, b: Value, atype: Value, rnd: Value = ..., sat: Value = ...) -> Any:
        """sub of numbers of 16 bits and the last one of 32, rounded once. atype: 'f16', 'bf16'. rnd: None, 'rn',
        'rz', 'rm', 'rp'. sat: False, True.
        """

class _ptx_tcgen05_fence:
    @staticmethod
    def after_thread_sync() -> Any:
        """What the thread does to tensor memory from now on comes after what others did before it met them."""
    @staticmethod
    def before_thread_sync() -> Any:
        """What the thread did to tensor memory before comes before what others do after they meet it."""

class _ptx_tcgen05_mma_sp:
    def __call__(
        self,
        d: Value,
        a: Value,
        b_desc: Value,
        sp_meta: Value,
        i_desc: Value,
        *lanes: Value,
        d_dtype: Value,
        a_dtype: Value,
        b_dtype: Value,
        use_a_tmem: Value = ...,
        cta_group: Value = ...,
        enable_input_d: Value = ...,
        collector: Value = ...,
        scale_input_d: Value = ...,
    ) -> Any:
        """A thread has D += A * B computed; A has half of its elements, metadata in tensor memory say which.
        collector: '', 'a::fill', 'a::use', 'a::lastuse', 'a::discard'. cta_group: 1, 2. a_dtype: 'float16',
        'bfloat16', 'tf32', 'float8_e4m3fn', 'float8_e5m2', 'float6_e2m3fn', 'float6_e3m2fn', 'float4_e2m1fn',
        'uint8', 'int8'. b_dtype: 'float16', 'bfloat16', 'tf32', 'float8_e4m3fn', 'float8_e5m2', 'float6_e2m3fn',
        'float6_e3m2fn', 'float4_e2m1fn', 'uint8', 'int8'. d_dtype: 'float32', 'float16', 'int32'. use_a_tmem:
        False, True. scale_input_d: 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15.
        """
    @staticmethod
    def block_scale(
        d: Value,
        a: Value,
        b_desc: Value,
        sp_meta: Value,
        sfa: Value,
        sfb: Value,
        i_desc: Value,
        d_dtype: Value,
        a_dtype: Value,
        b_dtype: Value,
        sfa_dtype: Value,
        sfb_dtype: Value,
        scale_vec: Value = ...,
        kind: Value = ...,
        use_a_tmem: Value = ...,
        cta_group: Value = ...,
        enable_input_d: Value = ...,
        collector: Value = ...,
    ) -> Any:
        """The same with a scale for each block along K; a block spans twice as many elements of the full A.
        collector: '', 'a::fill', 'a::use', 'a::lastuse', 'a::discard'. cta_group: 1, 2. a_dtype: 'float8_e4m3fn',
        'float8_e5m2', 'float6_e2m3fn', 'float6_e3m2fn', 'float4_e2m1fn'. b_dtype: 'float8_e4m3fn', 'float8_e5m2',
        'float6_e2m3fn', 'float6_e3m2fn', 'float4_e2m1fn'. d_dtype: 'float32'. use_a_tmem: False, True. scale_vec:
        None, 'block32', '1X', '2X', 'block16', '4X'. kind: None, 'mxf8f6f4', 'mxf4', 'mxf4nvf4'. sfa_dtype:
        'float8_e8m0fnu', 'float8_e4m3fn'. sfb_dtype: 'float8_e8m0fnu', 'float8_e4m3fn'.
        """

class _ptx_tcgen05_mma_ws:
    def __call__(
        self,
        d: Value,
        a: Value,
        b_desc: Value,
        i_desc: Value,
        d_dtype: Value,
        a_dtype: Value,
        b_dtype: Value,
        use_a_tmem: Value = ...,
        cta_group: Value = ...,
        enable_input_d: Value = ...,
        collector: Value = ...,
        zero_column_mask: Value = ...,
    ) -> Any:
        """A thread has D += A * B computed, with B's columns kept for later products; M is 32, 64 or 128. collector:
        '', 'b0::fill', 'b0::use', 'b0::lastuse', 'b0::discard', 'b1::fill', 'b1::use', 'b1::lastuse',
        'b1::discard', 'b2::fill', 'b2::use', 'b2::lastuse', 'b2::discard', 'b3::fill', 'b3::use', 'b3::lastuse',
        'b3::discard'. cta_group: 1. a_dtype: 'float16', 'bfloat16', 'tf32', 'float8_e4m3fn', 'float8_e5m2',
        'float6_e2m3fn', 'float6_e3m2fn', 'float4_e2m1fn', 'uint8', 'int8'. b_dtype: 'float16', 'bfloat16',
        'tf32', 'float8_e4m3fn', 'float8_e5m2', 'float6_e2m3fn', 'float6_e3m2fn', 'float4_e2m1fn', 'uint8',
        'int8'. d_dtype: 'float32', 'float16', 'int32'. use_a_tmem: False, True. zero_column_mask: None, 'given'.
        """
    @staticmethod
    def sp(
        d: Value,
        a: Value,
        b_desc: Value,
        sp_meta: Value,
        i_desc: Value,
        d_dtype: Value,
        a_dtype: Value,
        b_dtype: Value,
        use_a_tmem: Value = ...,
        cta_group: Value = ...,
        enable_input_d: Value = ...,
        collector: Value = ...,
        zero_column_mask: Value = ...,
    ) -> Any:
        """A thread has D += A * B computed, with B's columns kept for later products; M is 32, 64 or 128. collector:
        '', 'b0::fill', 'b0::use', 'b0::lastuse', 'b0::discard', 'b1::fill', 'b1::use', 'b1::lastuse',
        'b1::discard', 'b2::fill', 'b2::use', 'b2::lastuse', 'b2::discard', 'b3::fill', 'b3::use', 'b3::lastuse',
        'b3::discard'. cta_group: 1. a_dtype: 'float16', 'bfloat16', 'tf32', 'float8_e4m3fn', 'float8_e5m2',
        'float6_e2m3fn', 'float6_e3m2fn', 'float4_e2m1fn', 'uint8', 'int8'. b_dtype: 'float16', 'bfloat16',
        'tf32', 'float8_e4m3fn', 'float8_e5m2', 'float6_e2m3fn', 'float6_e3m2fn', 'float4_e2m1fn', 'uint8',
        'int8'. d_dtype: 'float32', 'float16', 'int32'. use_a_tmem: False, True. zero_column_mask: None, 'given'.
        """

class _ptx_tcgen05_mma:
    def __call__(
        self,
        d: Value,
        a: Value,
        b_desc: Value,
        i_desc: Value,
        *lanes: Value,
        d_dtype: Value,
        a_dtype: Value,
        b_dtype: Value,
        use_a_tmem: Value = ...,
        cta_group: Value = ...,
        enable_input_d: Value = ...,
        collector: Value = ...,
        scale_input_d: Value = ...,
        pred: Value = ...,
        ashift: Value = ...,
    ) -> Any:
        """A thread has D += A * B computed into tensor memory; ``i_desc`` says which product, `commit` when it is
        done. collector: '', 'a::fill', 'a::use', 'a::lastuse', 'a::discard'. cta_group: 1, 2. a_dtype: 'float16',
        'bfloat16', 'tf32', 'float8_e4m3fn', 'float8_e5m2', 'float6_e2m3fn', 'float6_e3m2fn', 'float4_e2m1fn',
        'uint8', 'int8'. b_dtype: 'float16', 'bfloat16', 'tf32', 'float8_e4m3fn', 'float8_e5m2', 'float6_e2m3fn',
        'float6_e3m2fn', 'float4_e2m1fn', 'uint8', 'int8'. d_dtype: 'float32', 'float16', 'int32'. use_a_tmem:
        False, True. ashift: False, True. scale_input_d: 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15.
        pred: None, 'given'.
        """
    @staticmethod
    def block_scale(
        d: Value,
        a: Value,
        b_desc: Value,
        sfa: Value,
        sfb: Value,
        i_desc: Value,
        d_dtype: Value,
        a_dtype: Value,
        b_dtype: Value,
        sfa_dtype: Value,
        sfb_dtype: Value,
        scale_vec: Value = ...,
        kind: Value = ...,
        use_a_tmem: Value = ...,
        cta_group: Value = ...,
        enable_input_d: Value = ...,
        collector: Value = ...,
        pred: Value = ...,
    ) -> Any:
        """A thread has D += A * B computed, each block of A's rows and B's columns along K times its scale in tensor
        memory; ``scale_vec`` says how long blocks are, ``kind`` which product of 4-bit elements it is. collector:
        '', 'a::fill', 'a::use', 'a::lastuse', 'a::discard'. cta_group: 1, 2. a_dtype: 'float8_e4m3fn',
        'float8_e5m2', 'float6_e2m3fn', 'float6_e3m2fn', 'float4_e2m1fn'. b_dtype: 'float8_e4m3fn', 'float8_e5m2',
        'float6_e2m3fn', 'float6_e3m2fn', 'float4_e2m1fn'. d_dtype: 'float32'. use_a_tmem: False, True. scale_vec:
        None, 'block32', '1X', '2X', 'block16', '4X'. kind: None, 'mxf8f6f4', 'mxf4', 'mxf4nvf4'. sfa_dtype:
        'float8_e8m0fnu', 'float8_e4m3fn'. sfb_dtype: 'float8_e8m0fnu', 'float8_e4m3fn'. pred: None, 'given'.
        """
    sp: _ptx_tcgen05_mma_sp
    ws: _ptx_tcgen05_mma_ws

class _ptx_tcgen05_wait:
    @staticmethod
    def ld() -> Any:
        """Waits until the warp's loads from tensor memory are in its registers."""
    @staticmethod
    def st() -> Any:
        """Waits until the warp's stores to tensor memory are in its cells."""

class _ptx_tcgen05:
    @staticmethod
    def alloc(ptr: Value, n_cols: Value, cta_group: Value = ..., requested: Value = ...) -> Any:
        """A warp takes ``n_cols`` columns of tensor memory and finds their address, 32 bits, at ``ptr``. cta_group:
        1, 2.
        """
    @staticmethod
    def commit(ptr: Value, cta_group: Value = ..., cta_mask: Value = ...) -> Any:
        """Arrives at an m-barrier once all copies and products that the thread issued before are complete.
        cta_group: 1, 2. cta_mask: None, 'given'.
        """
    @staticmethod
    def cp(
        taddr: Value,
        desc: Value,
        shape: Value,
        cta_group: Value = ...,
        multicast: Value = ...,
        fmt: Value = ...,
        row: Value = ...,
        col: Value = ...,
    ) -> Any:
        """A thread has a matrix of shared memory copied to tensor memory; `commit` tells when that is done. shape:
        '128x256b', '128x128b', '4x256b', '64x128b', '32x128b'. cta_group: 1, 2. multicast: '', 'warpx2::02_13',
        'warpx2::01_23', 'warpx4'. fmt: '', 'b6x16_p32', 'b4x16_p64'.
        """
    @staticmethod
    def dealloc(addr: Value, n_cols: Value, cta_group: Value = ...) -> Any:
        """A warp gives back the columns that `alloc` took. cta_group: 1, 2."""
    @staticmethod
    def encode_instr_descriptor(
        desc: Value,
        d_dtype: Value,
        a_dtype: Value,
        b_dtype: Value,
        M: Value,
        N: Value,
        K: Value,
        trans_a: Value = ...,
        trans_b: Value = ...,
        n_cta_groups: Value = ...,
        neg_a: Value = ...,
        neg_b: Value = ...,
        is_sparse: Value = ...,
        sat_d: Value = ...,
        selector: Value = ...,
        max_shift: Value = ...,
        ws: Value = ...,
    ) -> Any:
        """The instruction descriptor of tcgen05.mma for D = A * B; ``trans_a`` and ``trans_b`` for MN-major
        operands. a_dtype: 'float16', 'bfloat16', 'tf32', 'float8_e4m3fn', 'float8_e5m2', 'float6_e2m3fn',
        'float6_e3m2fn', 'float4_e2m1fn', 'uint8', 'int8'. b_dtype: 'float16', 'bfloat16', 'tf32',
        'float8_e4m3fn', 'float8_e5m2', 'float6_e2m3fn', 'float6_e3m2fn', 'float4_e2m1fn', 'uint8', 'int8'. K: 16,
        32, 8, 64. d_dtype: 'float32', 'float16', 'int32'. n_cta_groups: 1, 2. is_sparse: False, True. ws: False,
        True.
        """
    @staticmethod
    def encode_instr_descriptor_block_scaled(
        desc: Value,
        d_dtype: Value,
        a_dtype: Value,
        b_dtype: Value,
        sfa_dtype: Value,
        sfb_dtype: Value,
        M: Value,
        N: Value,
        K: Value,
        trans_a: Value = ...,
        trans_b: Value = ...,
        n_cta_groups: Value = ...,
        neg_a: Value = ...,
        neg_b: Value = ...,
        is_sparse: Value = ...,
        sfa_id: Value = ...,
        sfb_id: Value = ...,
    ) -> Any:
        """The same for products with scales of blocks; ``sfa_id`` and ``sfb_id`` are the bytes of the first scales.
        a_dtype: 'float8_e4m3fn', 'float8_e5m2', 'float6_e2m3fn', 'float6_e3m2fn', 'float4_e2m1fn'. b_dtype:
        'float8_e4m3fn', 'float8_e5m2', 'float6_e2m3fn', 'float6_e3m2fn', 'float4_e2m1fn'. K: 32, 64, 128, 96.
        d_dtype: 'float32'. n_cta_groups: 1, 2. is_sparse: False, True. sfa_dtype: 'float8_e8m0fnu',
        'float8_e4m3fn'. sfb_dtype: 'float8_e8m0fnu', 'float8_e4m3fn'.
        """
    @staticmethod
    def encode_matrix_descriptor(desc: Value, ptr: Value, ldo: Value, sdo: Value, swizzle: Value) -> Any:
        """The matrix descriptor of tcgen05 for a tile at ``ptr``; ldo and sdo are in units of 16 bytes. swizzle: 0,
        1, 2, 3.
        """
    fence: _ptx_tcgen05_fence
    @staticmethod
    def ld(
        taddr: Value,
        *r: Value,
        shape: Value,
        num: Value,
        pack: Value = ...,
        split: Value = ...,
        row: Value = ...,
        col: Value = ...,
    ) -> Any:
        """A warp loads cells of its quarter of tensor memory; its registers have them after `wait.ld`. shape:
        '32x32b', '16x64b', '16x128b', '16x256b', '16x32bx2'. num: 1, 2, 4, 8, 16, 32, 64, 128. pack: False, True.
        split: None, 'given'.
        """
    mma: _ptx_tcgen05_mma
    @staticmethod
    def relinquish_alloc_permit(cta_group: Value = ...) -> Any:
        """The CTA takes no more tensor memory; what it has it may still give back. cta_group: 1, 2."""
    @staticmethod
    def shift(taddr: Value, cta_group: Value = ..., row: Value = ..., col: Value = ...) -> Any:
        """A thread has 8 columns of 32 lanes moved up by one lane; `commit` tells when that is done. cta_group: 1,
        2.
        """
    @staticmethod
    def smem_desc_add_16B_offset(desc: Value, units: Value) -> Any:
        """The matrix descriptor of a tile that starts ``units`` times 16 bytes later."""
    @staticmethod
    def st(
        taddr: Value,
        *r: Value,
        shape: Value,
        num: Value,
        unpack: Value = ...,
        split: Value = ...,
        row: Value = ...,
        col: Value = ...,
    ) -> Any:
        """A warp stores its registers to its quarter of tensor memory; the cells have them after `wait.st`. shape:
        '32x32b', '16x64b', '16x128b', '16x256b', '16x32bx2'. num: 1, 2, 4, 8, 16, 32, 64, 128. unpack: False,
        True. split: None, 'given'.
        """
    wait: _ptx_tcgen05_wait

class _ptx_tensormap:
    @staticmethod
    def replace(ptr: Value, value: Value, field: Value, ordinal: Value = ..., space: Value = ...) -> Any:
        """A thread changes a field of the tensor map at ``ptr``: an address, a rank, or the ``ordinal``-th extent,
        stride or box. field: 'global_address', 'rank', 'global_dim', 'global_stride', 'element_stride',
        'box_dim'. ordinal: 0, 1, 2, 3, 4. space: 'global', 'shared'.
        """
    @staticmethod
    def replace_constant(ptr: Value, constant: Value, field: Value, ordinal: Value = ..., space: Value = ...) -> Any:
        """A thread changes the type, interleave, swizzle or fill mode of the tensor map at ``ptr``, by PTX's codes.
        field: 'elemtype', 'interleave_layout', 'swizzle_mode', 'fill_mode'. ordinal: 0. space: 'global',
        'shared'. constant: 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12.
        """

class _ptx_tex:
    def __call__(self, dim: Value, type: Value, coord: Value, tex: Value, r: Value, *coords: Value) -> Any:
        """The four channels of the texel of ``tex`` at the coordinates, or of the mean of those around. dim: '1d',
        '2d', '3d', 'a1d', 'a2d'. type: 'f32', 'u32', 's32'. coord: 'f32', 's32'.
        """
    @staticmethod
    def level(dim: Value, type: Value, coord: Value, tex: Value, lod: Value, r: Value, *coords: Value) -> Any:
        """The same at a level of detail: there is one. dim: '1d', '2d', '3d', 'a1d', 'a2d'. type: 'f32', 'u32',
        's32'. coord: 'f32', 's32'.
        """

class _ptx_vote:
    @staticmethod
    def sync(a: Value, mask: Value, mode: Value) -> Any:
        """Whether a condition holds in all lanes of the mask, in any, alike in all; or a bit for each (ballot).
        mode: 'all', 'any', 'uni', 'ballot'.
        """

class _ptx_wgmma_mma_async_sp:
    @staticmethod
    def rs(
        dB: Value,
        a0: Value,
        a1: Value,
        a2: Value,
        a3: Value,
        e: Value,
        *acc: Value,
        M: Value = ...,
        N: Value,
        K: Value,
        in_dtype: Value,
        out_dtype: Value = ...,
        b_dtype: Value = ...,
        transB: Value = ...,
        scaleA: Value = ...,
        scaleB: Value = ...,
        scaleD: Value = ...,
        saturate: Value = ...,
        selector: Value = ...,
    ) -> Any:
        """A warpgroup has D += A * B computed; A, in registers, has two elements of every four, ``e`` says which. M:
        64. N: 8, 16, 24, 32, 40, 48, 56, 64, 72, 80, 88, 96, 104, 112, 120, 128, 136, 144, 152, 160, 168, 176,
        184, 192, 200, 208, 216, 224, 232, 240, 248, 256. K: 32, 16, 64. out_dtype: 'float32', 'float16', 'int32'.
        in_dtype: 'float16', 'bfloat16', 'tf32', 'float8_e4m3fn', 'float8_e5m2', 'int8', 'uint8'. b_dtype: None,
        'float8_e5m2', 'float8_e4m3fn', 'uint8', 'int8'. saturate: False, True. transB: False, True. scaleA: 1,
        -1. scaleB: 1, -1. selector: 0, 1.
        """
    @staticmethod
    def ss(
        dA: Value,
        dB: Value,
        e: Value,
        *acc: Value,
        M: Value = ...,
        N: Value,
        K: Value,
        in_dtype: Value,
        out_dtype: Value = ...,
        b_dtype: Value = ...,
        transA: Value = ...,
        transB: Value = ...,
        scaleA: Value = ...,
        scaleB: Value = ...,
        scaleD: Value = ...,
        saturate: Value = ...,
        selector: Value = ...,
    ) -> Any:
        """A warpgroup has D += A * B computed; A, in shared memory, has two elements of every four, ``e`` says
        which. M: 64. N: 8, 16, 24, 32, 40, 48, 56, 64, 72, 80, 88, 96, 104, 112, 120, 128, 136, 144, 152, 160,
        168, 176, 184, 192, 200, 208, 216, 224, 232, 240, 248, 256. K: 32, 16, 64. out_dtype: 'float32',
        'float16', 'int32'. in_dtype: 'float16', 'bfloat16', 'tf32', 'float8_e4m3fn', 'float8_e5m2', 'int8',
        'uint8'. b_dtype: None, 'float8_e5m2', 'float8_e4m3fn', 'uint8', 'int8'. saturate: False, True. transA:
        False, True. transB: False, True. scaleA: 1, -1. scaleB: 1, -1. selector: 0, 1.
        """

class _ptx_wgmma_mma_async:
    @staticmethod
    def rs(
        dB: Value,
        a0: Value,
        a1: Value,
        a2: Value,
        a3: Value,
        *acc: Value,
        M: Value = ...,
        N: Value,
        K: Value,
        in_dtype: Value,
        out_dtype: Value = ...,
        b_dtype: Value = ...,
        transB: Value = ...,
        scaleA: Value = ...,
        scaleB: Value = ...,
        scaleD: Value = ...,
        saturate: Value = ...,
    ) -> Any:
        """A warpgroup has D += A * B computed, A in registers, B in shared memory; `wait_group` tells when D is
        there. M: 64. N: 8, 16, 24, 32, 40, 48, 56, 64, 72, 80, 88, 96, 104, 112, 120, 128, 136, 144, 152, 160,
        168, 176, 184, 192, 200, 208, 216, 224, 232, 240, 248, 256. K: 16, 8, 32, 256. out_dtype: 'float32',
        'float16', 'int32'. in_dtype: 'float16', 'bfloat16', 'tf32', 'float8_e4m3fn', 'float8_e5m2', 'int8',
        'uint8', 'b1'. b_dtype: None, 'float8_e5m2', 'float8_e4m3fn', 'uint8', 'int8'. saturate: False, True.
        transB: False, True. scaleA: 1, -1. scaleB: 1, -1.
        """
    sp: _ptx_wgmma_mma_async_sp
    @staticmethod
    def ss(
        dA: Value,
        dB: Value,
        *acc: Value,
        M: Value = ...,
        N: Value,
        K: Value,
        in_dtype: Value,
        out_dtype: Value = ...,
        b_dtype: Value = ...,
        transA: Value = ...,
        transB: Value = ...,
        scaleA: Value = ...,
        scaleB: Value = ...,
        scaleD: Value = ...,
        saturate: Value = ...,
    ) -> Any:
        """A warpgroup has D += A * B computed, A and B in shared memory; `wait_group` tells when D is there. M: 64.
        N: 8, 16, 24, 32, 40, 48, 56, 64, 72, 80, 88, 96, 104, 112, 120, 128, 136, 144, 152, 160, 168, 176, 184,
        192, 200, 208, 216, 224, 232, 240, 248, 256. K: 16, 8, 32, 256. out_dtype: 'float32', 'float16', 'int32'.
        in_dtype: 'float16', 'bfloat16', 'tf32', 'float8_e4m3fn', 'float8_e5m2', 'int8', 'uint8', 'b1'. b_dtype:
        None, 'float8_e5m2', 'float8_e4m3fn', 'uint8', 'int8'. saturate: False, True. transA: False, True. transB:
        False, True. scaleA: 1, -1. scaleB: 1, -1.
        """

class _ptx_wgmma:
    @staticmethod
    def commit_group() -> Any:
        """Closes a group of the products that the warpgroup has issued."""
    @staticmethod
    def encode_matrix_descriptor(desc: Value, ptr: Value, ldo: Value, sdo: Value, swizzle: Value) -> Any:
        """The matrix descriptor of wgmma for a tile at ``ptr``; ldo and sdo are in units of 16 bytes. swizzle: 0, 1,
        2, 3.
        """
    @staticmethod
    def fence() -> Any:
        """Orders what the warp did to the registers of A and D before the products that it issues next."""
    mma_async: _ptx_wgmma_mma_async
    @staticmethod
    def noop_barrier(reg: Value) -> Any:
        """Nothing: a wait keeps uses of accumulators behind it by itself. For kernels that were written elsewhere."""
    @staticmethod
    def wait_group(n: Value) -> Any:
        """Waits until at most the newest ``n`` groups of products are under way."""

class _ptx:
    @staticmethod
    def abs(a: Value, type: Value, ftz: Value = ...) -> Any:
        """The magnitude of a; the smallest integer stays as it is. type: 's16', 's32', 's64', 'f32', 'f64', 'f16',
        'f16x2', 'bf16', 'bf16x2'. ftz: False, True.
        """
    @staticmethod
    def activemask() -> Any:
        """One bit per lane of the warp that executes this together with the caller."""
    add: _ptx_add
    @staticmethod
    def add_f32x2(d: Value, *operands: Value, rounding: Value = ..., ftz: Flag = ...) -> Any:
        """`T.ptx.add` of both float32 of 64 bits, to where ``d`` points."""
    @staticmethod
    def addc(a: Value, b: Value, carry: Value, type: Value, out: Value = ..., cc: Value = ...) -> Any:
        """The sum of a, b and a carry; ``out='cc'``: the next one. type: 'u32', 's32', 'u64', 's64'. out: 'd', 'cc'.
        cc: False, True.
        """
    @staticmethod
    def and_(a: Value, b: Value, type: Value) -> Any:
        """The bits that both have. type: 'b16', 'b32', 'b64', 'pred'."""
    atom: _ptx_atom
    @staticmethod
    def atom_scalar(
        ptr: Value,
        value: Value,
        sem: Value = ...,
        scope: Value = ...,
        space: Value = ...,
        *,
        op: Value,
        ptx_type: Value = ...,
    ) -> Any:
        """`T.ptx.atom.*` with the operation as an argument; gives the value that memory held before."""
    bar: _ptx_bar
    barrier: _ptx_barrier
    @staticmethod
    def bfe(a: Value, position: Value, length: Value, type: Value) -> Any:
        """A field of a as a number; where it leaves the word, zeros or the sign. type: 'u32', 's32', 'u64', 's64'."""
    @staticmethod
    def bfi(a: Value, b: Value, position: Value, length: Value, type: Value) -> Any:
        """b with the low bits of a in the place of a field. type: 'b32', 'b64'."""
    @staticmethod
    def bfind(a: Value, type: Value, shiftamt: Value = ...) -> Any:
        """The place of the highest bit that is not the sign's, or its distance from the top; all ones for none.
        type: 'u32', 's32', 'u64', 's64'. shiftamt: False, True.
        """
    @staticmethod
    def bmsk(a: Value, b: Value, type: Value, mode: Value) -> Any:
        """Ones from bit a on, so many as b says. type: 'b32'. mode: 'clamp', 'wrap'."""
    @staticmethod
    def brev(a: Value, type: Value) -> Any:
        """The bits of a in reverse order. type: 'b32', 'b64'."""
    clusterlaunchcontrol: _ptx_clusterlaunchcontrol
    @staticmethod
    def clz(a: Value, type: Value) -> Any:
        """Zero bits above the highest set bit of a. type: 'b32', 'b64'."""
    @staticmethod
    def cnot(a: Value, type: Value) -> Any:
        """1 where a is 0, else 0. type: 'b16', 'b32', 'b64'."""
    @staticmethod
    def copysign(a: Value, b: Value, type: Value) -> Any:
        """The magnitude of b with the sign of a. type: 'f32', 'f64'."""
    @staticmethod
    def cos(a: Value, type: Value, ftz: Value = ...) -> Any:
        """The cosine of a radians, approximately. type: 'f32'. ftz: False, True."""
    cp_async: _ptx_cp_async
    @staticmethod
    def cp_async_bulk_g2s_cluster(
        dst: Value,
        src: Value,
        n: Value,
        bar: Value,
        cta_mask: Value = ...,
        cache_hint: Value = ...,
        cache_policy: Value = ...,
    ) -> Any:
        """`T.ptx.cp_async.bulk.g2s_cluster`."""
    @staticmethod
    def cp_async_bulk_g2s_cta(
        dst: Value,
        src: Value,
        n: Value,
        bar: Value,
        cache_hint: Value = ...,
        cache_policy: Value = ...,
    ) -> Any:
        """`T.ptx.cp_async.bulk.g2s_cta`."""
    @staticmethod
    def cp_async_bulk_s2c(dst: Value, src: Value, n: Value, bar: Value) -> Any:
        """`T.ptx.cp_async.bulk.s2c`."""
    @staticmethod
    def cp_async_bulk_s2g(
        dst: Value,
        src: Value,
        n: Value,
        cache_hint: Value = ...,
        cache_policy: Value = ...,
        byte_mask: Value = ...,
    ) -> Any:
        """`T.ptx.cp_async.bulk.s2g`."""
    cp_reduce_async: _ptx_cp_reduce_async
    @staticmethod
    def createpolicy(level: Value, other: Value = ..., fraction: Value = ...) -> Any:
        """How caches are to treat an access, which means nothing to what it does. level: 'L2::evict_last',
        'L2::evict_normal', 'L2::evict_first', 'L2::evict_unchanged'. other: None, 'L2::evict_first',
        'L2::evict_unchanged'. fraction: None, 'given'.
        """
    cvt: _ptx_cvt
    cvta: _ptx_cvta
    @staticmethod
    def div(a: Value, b: Value, type: Value, rnd: Value = ..., ftz: Value = ...) -> Any:
        """The quotient: of integers toward zero, all ones by 0; of floats rounded once, or approximately. type:
        'u16', 's16', 'u32', 's32', 'u64', 's64', 'f32', 'f64'. rnd: None, 'rn', 'rz', 'rm', 'rp', 'approx',
        'full'. ftz: False, True.
        """
    @staticmethod
    def dp2a(a: Value, b: Value, c: Value, atype: Value, btype: Value, half: Value) -> Any:
        """The sum of c and the products of two halves of a with two bytes of b, the low or the high ones. atype:
        'u32', 's32'. btype: 'u32', 's32'. half: 'lo', 'hi'.
        """
    @staticmethod
    def dp4a(a: Value, b: Value, c: Value, atype: Value, btype: Value) -> Any:
        """The sum of c and the products of four bytes of a with four of b. atype: 'u32', 's32'. btype: 'u32', 's32'."""
    elect: _ptx_elect
    @staticmethod
    def elect_sync(mask: Value = ...) -> Any:
        """True in exactly one lane of ``mask``, always the same one."""
    @staticmethod
    def ex2(a: Value, type: Value, ftz: Value = ...) -> Any:
        """2 to the power a, approximately. type: 'f32', 'f16', 'f16x2', 'bf16', 'bf16x2'. ftz: False, True."""
    fence: _ptx_fence
    fma: _ptx_fma
    @staticmethod
    def fma_f32x2(d: Value, *operands: Value, rounding: Value = ..., ftz: Flag = ...) -> Any:
        """`T.ptx.fma` of both float32 of 64 bits, to where ``d`` points."""
    @staticmethod
    def fns(mask: Value, base: Value, offset: Value, type: Value) -> Any:
        """The place of the n-th set bit of the mask from ``base`` on, upwards or downwards; all ones for none. type:
        'b32'.
        """
    @staticmethod
    def getctarank(ptr: Value) -> Any:
        """The rank in the cluster of the CTA that a shared address leads into."""
    griddepcontrol: _ptx_griddepcontrol
    ld: _ptx_ld
    @staticmethod
    def ldmatrix(
        trans: Value,
        num: Value,
        type: Value,
        p: Value,
        *r: Value,
        shape: Value = ...,
        space: Value = ...,
    ) -> Any:
        """A warp loads 1, 2 or 4 matrices from shared memory; each lane gives a row's address and gets its fragment.
        shape: 'm8n8', 'm16n16', 'm8n16'. num: 1, 2, 4. trans: False, True. type: '.b16', '.b8',
        '.b8x16.b6x16_p32', '.b8x16.b4x16_p64'. space: 'shared', 'shared::cta', ''.
        """
    @staticmethod
    def ldu(
        ptr: Value,
        sem: Value = ...,
        scope: Value = ...,
        space: Value = ...,
        type: Value = ...,
        vec: Value = ...,
        nc: Value = ...,
    ) -> Any:
        """A register, or a vector of some, from an address that all lanes share, and that nobody writes meanwhile.
        type: 'b8', 'u8', 's8', 'b16', 'u16', 's16', 'b32', 'u32', 's32', 'b64', 'u64', 's64', 'f32', 'f64'. vec:
        1, 2, 4. space: 'global'. sem: 'weak'. scope: None. nc: True.
        """
    @staticmethod
    def lg2(a: Value, type: Value, ftz: Value = ...) -> Any:
        """The logarithm to base 2, approximately. type: 'f32'. ftz: False, True."""
    lop3: _ptx_lop3
    mad: _ptx_mad
    @staticmethod
    def mad24(a: Value, b: Value, c: Value, type: Value, half: Value, sat: Value = ...) -> Any:
        """Of the product of 24-bit numbers the low 32 bits, or bits 16 to 47, and c. type: 'u32', 's32'. half: 'lo',
        'hi'. sat: False, True.
        """
    @staticmethod
    def madc(
        a: Value,
        b: Value,
        c: Value,
        carry: Value,
        type: Value,
        half: Value,
        out: Value = ...,
        cc: Value = ...,
    ) -> Any:
        """Half of the product of a and b, with c and a carry; ``out='cc'``: the carry of the sum. type: 'u32',
        's32', 'u64', 's64'. out: 'd', 'cc'. cc: False, True. half: 'lo', 'hi'.
        """
    @staticmethod
    def map_shared_rank(ptr: Value, rank: Value) -> Any:
        """The same place in the CTA of that rank in the cluster: a generic address, of 64 bits."""
    @staticmethod
    def mapa(ptr: Value, rank: Value) -> Any:
        """The same place in the CTA of that rank in the cluster: an address for what takes shared::cluster."""
    match: _ptx_match
    @staticmethod
    def max(
        a: Value,
        b: Value,
        type: Value,
        relu: Value = ...,
        ftz: Value = ...,
        nan: Value = ...,
        magnitudes: Value = ...,
        c: Value = ...,
    ) -> Any:
        """The larger one, or of three; of floats the number where one is NaN, unless ``nan``; -0 is less than +0.
        type: 'u16', 's16', 'u32', 's32', 'u64', 's64', 'u16x2', 's16x2', 'f32', 'f64', 'f16', 'f16x2', 'bf16',
        'bf16x2'. relu: False, True. ftz: False, True. nan: False, True. magnitudes: None, 'xorsign', 'abs'. c:
        None, 'given'.
        """
    mbarrier: _ptx_mbarrier
    @staticmethod
    def membar(level: Value) -> Any:
        """The older name of T.ptx.fence('sc', ...): ``gl`` is the scope gpu. level: 'cta', 'gl', 'sys'."""
    @staticmethod
    def min(
        a: Value,
        b: Value,
        type: Value,
        relu: Value = ...,
        ftz: Value = ...,
        nan: Value = ...,
        magnitudes: Value = ...,
        c: Value = ...,
    ) -> Any:
        """The smaller one, or of three; of floats the number where one is NaN, unless ``nan``; -0 is less than +0.
        type: 'u16', 's16', 'u32', 's32', 'u64', 's64', 'u16x2', 's16x2', 'f32', 'f64', 'f16', 'f16x2', 'bf16',
        'bf16x2'. relu: False, True. ftz: False, True. nan: False, True. magnitudes: None, 'xorsign', 'abs'. c:
        None, 'given'.
        """
    mma: _ptx_mma
    mov: _ptx_mov
    @staticmethod
    def movmatrix(d: Value, a: Value, shape: Value = ..., trans: Value = ..., type: Value = ...) -> Any:
        """A warp transposes an 8x8 matrix of 16-bit elements from register to register. shape: 'm8n8'. trans: True.
        type: '.b16'.
        """
    @staticmethod
    def mul(
        a: Value,
        b: Value,
        type: Value,
        half: Value = ...,
        rnd: Value = ...,
        ftz: Value = ...,
        sat: Value = ...,
    ) -> Any:
        """The product of a and b: of integers its low or high half, or all of it; of floats rounded once. type:
        'u16', 's16', 'u32', 's32', 'u64', 's64', 'f32', 'f64', 'f16', 'f16x2', 'bf16', 'bf16x2', 'f32x2'. half:
        'lo', 'hi', 'wide', None. rnd: None, 'rn', 'rz', 'rm', 'rp'. ftz: False, True. sat: False, True.
        """
    @staticmethod
    def mul24(a: Value, b: Value, type: Value, half: Value) -> Any:
        """Of the product of 24-bit numbers the low 32 bits, or bits 16 to 47. type: 'u32', 's32'. half: 'lo', 'hi'."""
    @staticmethod
    def mul_f32x2(d: Value, *operands: Value, rounding: Value = ..., ftz: Flag = ...) -> Any:
        """`T.ptx.mul` of both float32 of 64 bits, to where ``d`` points."""
    @staticmethod
    def nanosleep(ns: Value) -> Any:
        """The thread rests for about ``ns`` nanoseconds."""
    @staticmethod
    def neg(a: Value, type: Value, ftz: Value = ...) -> Any:
        """The other sign; the smallest integer stays as it is. type: 's16', 's32', 's64', 'f32', 'f64', 'f16',
        'f16x2', 'bf16', 'bf16x2'. ftz: False, True.
        """
    @staticmethod
    def not_(a: Value, type: Value) -> Any:
        """The bits that a lacks. type: 'b16', 'b32', 'b64', 'pred'."""
    @staticmethod
    def or_(a: Value, b: Value, type: Value) -> Any:
        """The bits that one has. type: 'b16', 'b32', 'b64', 'pred'."""
    @staticmethod
    def popc(a: Value, type: Value) -> Any:
        """How many bits of a are set. type: 'b32', 'b64'."""
    @staticmethod
    def prefetch(ptr: Value, level: Value, space: Value = ...) -> Any:
        """A line of a cache is asked for; nothing else happens. level: 'L1', 'L2'. space: None, 'global', 'local'."""
    @staticmethod
    def prefetch_tensormap(map: Value) -> Any:
        """Has the 128 bytes of a tensor map brought to where the copy engine looks for them; no value changes."""
    @staticmethod
    def prefetchu(ptr: Value, level: Value) -> Any:
        """A line of a cache is asked for; nothing else happens. level: 'L1'."""
    @staticmethod
    def prmt(a: Value, b: Value, c: Value, type: Value, mode: Value = ...) -> Any:
        """Four bytes of the eight of b and a, as the nibbles of c or a mode say. type: 'b32'. mode: None, 'f4e',
        'b4e', 'rc8', 'ecl', 'ecr', 'rc16'.
        """
    @staticmethod
    def rcp(a: Value, type: Value, rnd: Value, ftz: Value = ...) -> Any:
        """The reciprocal, rounded once, or approximately. type: 'f32', 'f64'. rnd: 'rn', 'rz', 'rm', 'rp', 'approx'.
        ftz: False, True.
        """
    red: _ptx_red
    red_async: _ptx_red_async
    @staticmethod
    def red_scalar(
        ptr: Value,
        value: Value,
        sem: Value = ...,
        scope: Value = ...,
        space: Value = ...,
        *,
        op: Value,
        ptx_type: Value = ...,
    ) -> Any:
        """`T.ptx.red.*` with the operation as an argument: no value."""
    @staticmethod
    def reduce3_max_f32(a: Value, b: Value, c: Value) -> Any:
        """The largest of three numbers; NaN only where all are."""
    @staticmethod
    def reduce3_min_f32(a: Value, b: Value, c: Value) -> Any:
        """The smallest of three numbers; NaN only where all are."""
    redux: _ptx_redux
    @staticmethod
    def rem(a: Value, b: Value, type: Value) -> Any:
        """The remainder of a / b, with the sign of a; all ones by 0. type: 'u16', 's16', 'u32', 's32', 'u64', 's64'."""
    @staticmethod
    def rsqrt(a: Value, type: Value, ftz: Value = ...) -> Any:
        """1 / sqrt(a), approximately. type: 'f32', 'f64'. ftz: False, True."""
    @staticmethod
    def sad(a: Value, b: Value, c: Value, type: Value) -> Any:
        """The sum of c and the magnitude of a - b. type: 'u16', 's16', 'u32', 's32', 'u64', 's64'."""
    @staticmethod
    def selp(a: Value, b: Value, c: Value, type: Value) -> Any:
        """a where c holds, else b. type: 'b16', 'b32', 'b64', 'u16', 'u32', 'u64', 's16', 's32', 's64', 'f32',
        'f64'.
        """
    set: _ptx_set
    @staticmethod
    def setmaxnreg(inc: Value, n: Value) -> Any:
        """The warps of a warpgroup take registers of the CTA's pool (``inc``), or give some back, to have ``n``
        each. inc: True, False.
        """
    setp: _ptx_setp
    @staticmethod
    def shf(a: Value, b: Value, c: Value, type: Value, way: Value, mode: Value) -> Any:
        """Of the 64 bits of b and a, moved by c, the upper 32 (l) or the lower 32 (r). type: 'b32'. way: 'l', 'r'.
        mode: 'clamp', 'wrap'.
        """
    shfl: _ptx_shfl
    @staticmethod
    def shl(a: Value, n: Value, type: Value) -> Any:
        """The bits of a moved up by n, at most its width. type: 'b16', 'b32', 'b64'."""
    @staticmethod
    def shr(a: Value, n: Value, type: Value) -> Any:
        """The bits of a moved down by n, at most its width; a signed number fills up with its sign. type: 'b16',
        'b32', 'b64', 'u16', 'u32', 'u64', 's16', 's32', 's64'.
        """
    @staticmethod
    def sin(a: Value, type: Value, ftz: Value = ...) -> Any:
        """The sine of a radians, approximately. type: 'f32'. ftz: False, True."""
    @staticmethod
    def slct(a: Value, b: Value, c: Value, type: Value, ctype: Value, ftz: Value = ...) -> Any:
        """a where c is 0 or more, b where it is less or NaN. type: 'b16', 'b32', 'b64', 'u16', 'u32', 'u64', 's16',
        's32', 's64', 'f32', 'f64'. ctype: 's32', 'f32'. ftz: False, True.
        """
    @staticmethod
    def sqrt(a: Value, type: Value, rnd: Value, ftz: Value = ...) -> Any:
        """The square root, rounded once, or approximately. type: 'f32', 'f64'. rnd: 'rn', 'rz', 'rm', 'rp',
        'approx'. ftz: False, True.
        """
    st: _ptx_st
    st_async: _ptx_st_async
    @staticmethod
    def stmatrix(
        trans: Value,
        num: Value,
        type: Value,
        p: Value,
        *r: Value,
        shape: Value = ...,
        space: Value = ...,
    ) -> Any:
        """A warp stores 1, 2 or 4 matrices to shared memory; each lane gives a row's address and its fragment.
        shape: 'm8n8', 'm16n8'. num: 1, 2, 4. trans: False, True. space: 'shared', 'shared::cta', ''. type:
        '.b16', '.b8'.
        """
    sub: _ptx_sub
    @staticmethod
    def sub_f32x2(d: Value, *operands: Value, rounding: Value = ..., ftz: Flag = ...) -> Any:
        """`T.ptx.sub` of both float32 of 64 bits, to where ``d`` points."""
    @staticmethod
    def subc(a: Value, b: Value, carry: Value, type: Value, out: Value = ..., cc: Value = ...) -> Any:
        """The difference of a, b and a borrow; ``out='cc'``: the next one. type: 'u32', 's32', 'u64', 's64'. out:
        'd', 'cc'. cc: False, True.
        """
    @staticmethod
    def szext(a: Value, b: Value, type: Value, mode: Value) -> Any:
        """The low b bits of a as a number. type: 'u32', 's32'. mode: 'clamp', 'wrap'."""
    @staticmethod
    def tanh(a: Value, type: Value) -> Any:
        """The hyperbolic tangent, approximately. type: 'f32', 'f16', 'f16x2', 'bf16', 'bf16x2'."""
    tcgen05: _ptx_tcgen05
    tensormap: _ptx_tensormap
    @staticmethod
    def testp(a: Value, type: Value, test: Value) -> Any:
        """Whether a is a number of this kind; zeros are normal. type: 'f32', 'f64'. test: 'finite', 'infinite',
        'number', 'notanumber', 'normal', 'subnormal'.
        """
    tex: _ptx_tex
    @staticmethod
    def vabsdiff(
        a: Value,
        b: Value,
        type: Value,
        atype: Value,
        btype: Value,
        sat: Value = ...,
        a_part: Value = ...,
        b_part: Value = ...,
        op2: Value = ...,
        c: Value = ...,
        d_part: Value = ...,
    ) -> Any:
        """The magnitude of the difference, of parts of a and b; with c a second operation, or c with the number as
        its part ``d_part``. type: 'u32', 's32'. atype: 'u32', 's32'. btype: 's32', 'u32'. sat: False, True.
        a_part: None, 'b0', 'b1', 'b2', 'b3', 'h0', 'h1'. b_part: None, 'b0', 'b1', 'b2', 'b3', 'h0', 'h1'. op2:
        None, 'add', 'min', 'max'. c: None, 'given'. d_part: None, 'b0', 'b1', 'b2', 'b3', 'h0', 'h1'.
        """
    @staticmethod
    def vabsdiff2(
        a: Value,
        b: Value,
        c: Value,
        type: Value,
        atype: Value,
        btype: Value,
        d_part: Value = ...,
        sat: Value = ...,
        add: Value = ...,
    ) -> Any:
        """vabsdiff of the 2 parts of a and b, those of c where ``d_part`` lacks one, or their sum. type: 'u32',
        's32'. atype: 'u32', 's32'. btype: 's32', 'u32'. d_part: None, 'h1', 'h0', 'h10'. sat: False, True. add:
        False, True.
        """
    @staticmethod
    def vabsdiff4(
        a: Value,
        b: Value,
        c: Value,
        type: Value,
        atype: Value,
        btype: Value,
        d_part: Value = ...,
        sat: Value = ...,
        add: Value = ...,
    ) -> Any:
        """vabsdiff of the 4 parts of a and b, those of c where ``d_part`` lacks one, or their sum. type: 'u32',
        's32'. atype: 'u32', 's32'. btype: 's32', 'u32'. d_part: None, 'b3', 'b2', 'b1', 'b0', 'b32', 'b31',
        'b30', 'b21', 'b20', 'b10', 'b321', 'b320', 'b310', 'b210', 'b3210'. sat: False, True. add: False, True.
        """
    @staticmethod
    def vadd(
        a: Value,
        b: Value,
        type: Value,
        atype: Value,
        btype: Value,
        sat: Value = ...,
        a_part: Value = ...,
        b_part: Value = ...,
        op2: Value = ...,
        c: Value = ...,
        d_part: Value = ...,
    ) -> Any:
        """The sum, of parts of a and b; with c a second operation, or c with the number as its part ``d_part``.
        type: 'u32', 's32'. atype: 'u32', 's32'. btype: 's32', 'u32'. sat: False, True. a_part: None, 'b0', 'b1',
        'b2', 'b3', 'h0', 'h1'. b_part: None, 'b0', 'b1', 'b2', 'b3', 'h0', 'h1'. op2: None, 'add', 'min', 'max'.
        c: None, 'given'. d_part: None, 'b0', 'b1', 'b2', 'b3', 'h0', 'h1'.
        """
    @staticmethod
    def vadd2(
        a: Value,
        b: Value,
        c: Value,
        type: Value,
        atype: Value,
        btype: Value,
        d_part: Value = ...,
        sat: Value = ...,
        add: Value = ...,
    ) -> Any:
        """vadd of the 2 parts of a and b, those of c where ``d_part`` lacks one, or their sum. type: 'u32', 's32'.
        atype: 'u32', 's32'. btype: 's32', 'u32'. d_part: None, 'h1', 'h0', 'h10'. sat: False, True. add: False,
        True.
        """
    @staticmethod
    def vadd4(
        a: Value,
        b: Value,
        c: Value,
        type: Value,
        atype: Value,
        btype: Value,
        d_part: Value = ...,
        sat: Value = ...,
        add: Value = ...,
    ) -> Any:
        """vadd of the 4 parts of a and b, those of c where ``d_part`` lacks one, or their sum. type: 'u32', 's32'.
        atype: 'u32', 's32'. btype: 's32', 'u32'. d_part: None, 'b3', 'b2', 'b1', 'b0', 'b32', 'b31', 'b30',
        'b21', 'b20', 'b10', 'b321', 'b320', 'b310', 'b210', 'b3210'. sat: False, True. add: False, True.
        """
    @staticmethod
    def vavrg2(
        a: Value,
        b: Value,
        c: Value,
        type: Value,
        atype: Value,
        btype: Value,
        d_part: Value = ...,
        sat: Value = ...,
        add: Value = ...,
    ) -> Any:
        """vavrg of the 2 parts of a and b, those of c where ``d_part`` lacks one, or their sum. type: 'u32', 's32'.
        atype: 'u32', 's32'. btype: 's32', 'u32'. d_part: None, 'h1', 'h0', 'h10'. sat: False, True. add: False,
        True.
        """
    @staticmethod
    def vavrg4(
        a: Value,
        b: Value,
        c: Value,
        type: Value,
        atype: Value,
        btype: Value,
        d_part: Value = ...,
        sat: Value = ...,
        add: Value = ...,
    ) -> Any:
        """vavrg of the 4 parts of a and b, those of c where ``d_part`` lacks one, or their sum. type: 'u32', 's32'.
        atype: 'u32', 's32'. btype: 's32', 'u32'. d_part: None, 'b3', 'b2', 'b1', 'b0', 'b32', 'b31', 'b30',
        'b21', 'b20', 'b10', 'b321', 'b320', 'b310', 'b210', 'b3210'. sat: False, True. add: False, True.
        """
    @staticmethod
    def vmad(
        a: Value,
        b: Value,
        c: Value,
        type: Value,
        atype: Value,
        btype: Value,
        sat: Value = ...,
        a_part: Value = ...,
        b_part: Value = ...,
        scale: Value = ...,
        a_sign: Value = ...,
        c_sign: Value = ...,
        po: Value = ...,
    ) -> Any:
        """The product of parts of a and b, and c; one of them negated, or one more (``po``); moved down and clamped.
        type: 'u32', 's32'. atype: 'u32', 's32'. btype: 's32', 'u32'. sat: False, True. a_part: None, 'b0', 'b1',
        'b2', 'b3', 'h0', 'h1'. b_part: None, 'b0', 'b1', 'b2', 'b3', 'h0', 'h1'. scale: None, 'shr7', 'shr15'.
        a_sign: False, True. c_sign: False, True. po: False, True.
        """
    @staticmethod
    def vmax(
        a: Value,
        b: Value,
        type: Value,
        atype: Value,
        btype: Value,
        sat: Value = ...,
        a_part: Value = ...,
        b_part: Value = ...,
        op2: Value = ...,
        c: Value = ...,
        d_part: Value = ...,
    ) -> Any:
        """The larger one, of parts of a and b; with c a second operation, or c with the number as its part
        ``d_part``. type: 'u32', 's32'. atype: 'u32', 's32'. btype: 's32', 'u32'. sat: False, True. a_part: None,
        'b0', 'b1', 'b2', 'b3', 'h0', 'h1'. b_part: None, 'b0', 'b1', 'b2', 'b3', 'h0', 'h1'. op2: None, 'add',
        'min', 'max'. c: None, 'given'. d_part: None, 'b0', 'b1', 'b2', 'b3', 'h0', 'h1'.
        """
    @staticmethod
    def vmax2(
        a: Value,
        b: Value,
        c: Value,
        type: Value,
        atype: Value,
        btype: Value,
        d_part: Value = ...,
        sat: Value = ...,
        add: Value = ...,
    ) -> Any:
        """vmax of the 2 parts of a and b, those of c where ``d_part`` lacks one, or their sum. type: 'u32', 's32'.
        atype: 'u32', 's32'. btype: 's32', 'u32'. d_part: None, 'h1', 'h0', 'h10'. sat: False, True. add: False,
        True.
        """
    @staticmethod
    def vmax4(
        a: Value,
        b: Value,
        c: Value,
        type: Value,
        atype: Value,
        btype: Value,
        d_part: Value = ...,
        sat: Value = ...,
        add: Value = ...,
    ) -> Any:
        """vmax of the 4 parts of a and b, those of c where ``d_part`` lacks one, or their sum. type: 'u32', 's32'.
        atype: 'u32', 's32'. btype: 's32', 'u32'. d_part: None, 'b3', 'b2', 'b1', 'b0', 'b32', 'b31', 'b30',
        'b21', 'b20', 'b10', 'b321', 'b320', 'b310', 'b210', 'b3210'. sat: False, True. add: False, True.
        """
    @staticmethod
    def vmin(
        a: Value,
        b: Value,
        type: Value,
        atype: Value,
        btype: Value,
        sat: Value = ...,
        a_part: Value = ...,
        b_part: Value = ...,
        op2: Value = ...,
        c: Value = ...,
        d_part: Value = ...,
    ) -> Any:
        """The smaller one, of parts of a and b; with c a second operation, or c with the number as its part
        ``d_part``. type: 'u32', 's32'. atype: 'u32', 's32'. btype: 's32', 'u32'. sat: False, True. a_part: None,
        'b0', 'b1', 'b2', 'b3', 'h0', 'h1'. b_part: None, 'b0', 'b1', 'b2', 'b3', 'h0', 'h1'. op2: None, 'add',
        'min', 'max'. c: None, 'given'. d_part: None, 'b0', 'b1', 'b2', 'b3', 'h0', 'h1'.
        """
    @staticmethod
    def vmin2(
        a: Value,
        b: Value,
        c: Value,
        type: Value,
        atype: Value,
        btype: Value,
        d_part: Value = ...,
        sat: Value = ...,
        add: Value = ...,
    ) -> Any:
        """vmin of the 2 parts of a and b, those of c where ``d_part`` lacks one, or their sum. type: 'u32', 's32'.
        atype: 'u32', 's32'. btype: 's32', 'u32'. d_part: None, 'h1', 'h0', 'h10'. sat: False, True. add: False,
        True.
        """
    @staticmethod
    def vmin4(
        a: Value,
        b: Value,
        c: Value,
        type: Value,
        atype: Value,
        btype: Value,
        d_part: Value = ...,
        sat: Value = ...,
        add: Value = ...,
    ) -> Any:
        """vmin of the 4 parts of a and b, those of c where ``d_part`` lacks one, or their sum. type: 'u32', 's32'.
        atype: 'u32', 's32'. btype: 's32', 'u32'. d_part: None, 'b3', 'b2', 'b1', 'b0', 'b32', 'b31', 'b30',
        'b21', 'b20', 'b10', 'b321', 'b320', 'b310', 'b210', 'b3210'. sat: False, True. add: False, True.
        """
    vote: _ptx_vote
    @staticmethod
    def vset(
        a: Value,
        b: Value,
        atype: Value,
        btype: Value,
        compare: Value,
        a_part: Value = ...,
        b_part: Value = ...,
        op2: Value = ...,
        c: Value = ...,
        d_part: Value = ...,
    ) -> Any:
        """1 where a comparison holds, of parts of a and b; with c a second operation, or c with the number as its
        part ``d_part``. atype: 'u32', 's32'. btype: 's32', 'u32'. compare: 'eq', 'ne', 'lt', 'le', 'gt', 'ge'.
        a_part: None, 'b0', 'b1', 'b2', 'b3', 'h0', 'h1'. b_part: None, 'b0', 'b1', 'b2', 'b3', 'h0', 'h1'. op2:
        None, 'add', 'min', 'max'. c: None, 'given'. d_part: None, 'b0', 'b1', 'b2', 'b3', 'h0', 'h1'.
        """
    @staticmethod
    def vset2(
        a: Value,
        b: Value,
        c: Value,
        atype: Value,
        btype: Value,
        compare: Value,
        d_part: Value = ...,
        add: Value = ...,
    ) -> Any:
        """1 where a comparison of the 2 parts of a and b holds, side by side, or their sum with c. atype: 'u32',
        's32'. btype: 's32', 'u32'. compare: 'eq', 'ne', 'lt', 'le', 'gt', 'ge'. d_part: None, 'h1', 'h0', 'h10'.
        add: False, True.
        """
    @staticmethod
    def vset4(
        a: Value,
        b: Value,
        c: Value,
        atype: Value,
        btype: Value,
        compare: Value,
        d_part: Value = ...,
        add: Value = ...,
    ) -> Any:
        """1 where a comparison of the 4 parts of a and b holds, side by side, or their sum with c. atype: 'u32',
        's32'. btype: 's32', 'u32'. compare: 'eq', 'ne', 'lt', 'le', 'gt', 'ge'. d_part: None, 'b3', 'b2', 'b1',
        'b0', 'b32', 'b31', 'b30', 'b21', 'b20', 'b10', 'b321', 'b320', 'b310', 'b210', 'b3210'. add: False, True.
        """
    @staticmethod
    def vshl(
        a: Value,
        b: Value,
        type: Value,
        atype: Value,
        mode: Value,
        sat: Value = ...,
        a_part: Value = ...,
        b_part: Value = ...,
        op2: Value = ...,
        c: Value = ...,
        d_part: Value = ...,
    ) -> Any:
        """The first moved up by the second, of parts of a and b; with c a second operation, or c with the number as
        its part ``d_part``. type: 'u32', 's32'. atype: 's32', 'u32'. sat: False, True. mode: 'clamp', 'wrap'.
        a_part: None, 'b0', 'b1', 'b2', 'b3', 'h0', 'h1'. b_part: None, 'b0', 'b1', 'b2', 'b3', 'h0', 'h1'. op2:
        None, 'add', 'min', 'max'. c: None, 'given'. d_part: None, 'b0', 'b1', 'b2', 'b3', 'h0', 'h1'.
        """
    @staticmethod
    def vshr(
        a: Value,
        b: Value,
        type: Value,
        atype: Value,
        mode: Value,
        sat: Value = ...,
        a_part: Value = ...,
        b_part: Value = ...,
        op2: Value = ...,
        c: Value = ...,
        d_part: Value = ...,
    ) -> Any:
        """The first moved down by the second, of parts of a and b; with c a second operation, or c with the number
        as its part ``d_part``. type: 'u32', 's32'. atype: 's32', 'u32'. sat: False, True. mode: 'clamp', 'wrap'.
        a_part: None, 'b0', 'b1', 'b2', 'b3', 'h0', 'h1'. b_part: None, 'b0', 'b1', 'b2', 'b3', 'h0', 'h1'. op2:
        None, 'add', 'min', 'max'. c: None, 'given'. d_part: None, 'b0', 'b1', 'b2', 'b3', 'h0', 'h1'.
        """
    @staticmethod
    def vsub(
        a: Value,
        b: Value,
        type: Value,
        atype: Value,
        btype: Value,
        sat: Value = ...,
        a_part: Value = ...,
        b_part: Value = ...,
        op2: Value = ...,
        c: Value = ...,
        d_part: Value = ...,
    ) -> Any:
        """The difference, of parts of a and b; with c a second operation, or c with the number as its part
        ``d_part``. type: 'u32', 's32'. atype: 'u32', 's32'. btype: 's32', 'u32'. sat: False, True. a_part: None,
        'b0', 'b1', 'b2', 'b3', 'h0', 'h1'. b_part: None, 'b0', 'b1', 'b2', 'b3', 'h0', 'h1'. op2: None, 'add',
        'min', 'max'. c: None, 'given'. d_part: None, 'b0', 'b1', 'b2', 'b3', 'h0', 'h1'.
        """
    @staticmethod
    def vsub2(
        a: Value,
        b: Value,
        c: Value,
        type: Value,
        atype: Value,
        btype: Value,
        d_part: Value = ...,
        sat: Value = ...,
        add: Value = ...,
    ) -> Any:
        """vsub of the 2 parts of a and b, those of c where ``d_part`` lacks one, or their sum. type: 'u32', 's32'.
        atype: 'u32', 's32'. btype: 's32', 'u32'. d_part: None, 'h1', 'h0', 'h10'. sat: False, True. add: False,
        True.
        """
    @staticmethod
    def vsub4(
        a: Value,
        b: Value,
        c: Value,
        type: Value,
        atype: Value,
        btype: Value,
        d_part: Value = ...,
        sat: Value = ...,
        add: Value = ...,
    ) -> Any:
        """vsub of the 4 parts of a and b, those of c where ``d_part`` lacks one, or their sum. type: 'u32', 's32'.
        atype: 'u32', 's32'. btype: 's32', 'u32'. d_part: None, 'b3', 'b2', 'b1', 'b0', 'b32', 'b31', 'b30',
        'b21', 'b20', 'b10', 'b321', 'b320', 'b310', 'b210', 'b3210'. sat: False, True. add: False, True.
        """
    wgmma: _ptx_wgmma
    @staticmethod
    def xor(a: Value, b: Value, type: Value) -> Any:
        """The bits that differ. type: 'b16', 'b32', 'b64', 'pred'."""

class _Vectors:
    boolx2: Any
    boolx4: Any
    boolx8: Any
    int8x2: Any
    int8x4: Any
    int8x8: Any
    int16x2: Any
    int16x4: Any
    int16x8: Any
    int32x2: Any
    int32x4: Any
    int32x8: Any
    int64x2: Any
    int64x4: Any
    int64x8: Any
    uint8x2: Any
    uint8x4: Any
    uint8x8: Any
    uint16x2: Any
    uint16x4: Any
    uint16x8: Any
    uint32x2: Any
    uint32x4: Any
    uint32x8: Any
    uint64x2: Any
    uint64x4: Any
    uint64x8: Any
    float16x2: Any
    float16x4: Any
    float16x8: Any
    bfloat16x2: Any
    bfloat16x4: Any
    bfloat16x8: Any
    float32x2: Any
    float32x4: Any
    float32x8: Any
    tf32x2: Any
    tf32x4: Any
    tf32x8: Any
    float64x2: Any
    float64x4: Any
    float64x8: Any
    float8_e4m3fnx2: Any
    float8_e4m3fnx4: Any
    float8_e4m3fnx8: Any
    float8_e5m2x2: Any
    float8_e5m2x4: Any
    float8_e5m2x8: Any
    float8_e8m0fnux2: Any
    float8_e8m0fnux4: Any
    float8_e8m0fnux8: Any
    float6_e2m3fnx2: Any
    float6_e2m3fnx4: Any
    float6_e2m3fnx8: Any
    float6_e3m2fnx2: Any
    float6_e3m2fnx4: Any
    float6_e3m2fnx8: Any
    float4_e2m1fnx2: Any
    float4_e2m1fnx4: Any
    float4_e2m1fnx8: Any

class T(_Vectors):
    @overload
    @staticmethod
    def prim_func(function: Callable[..., object], /) -> Kernel: ...
    @overload
    @staticmethod
    def prim_func(
        *, check_well_formed: Flag = True, private: Flag = False, stage: str = "tile"
    ) -> Callable[[Callable[..., object]], Kernel]: ...
    @overload
    @staticmethod
    def jit(function: Callable[..., object], /) -> JitKernel: ...
    @overload
    @staticmethod
    def jit(
        *, check_well_formed: Flag = True, private: Flag = False
    ) -> Callable[[Callable[..., object]], JitKernel]: ...
    @staticmethod
    def inline(function: Callable[..., object]) -> Any:
        """A function whose statements are put where a kernel calls it."""
    @staticmethod
    def meta_class(cls: C) -> C:
        """A class whose methods are inlined: its objects exist while a kernel is parsed."""
    @staticmethod
    def And(a: Value, b: Value) -> Any:
        """``a and b``"""
    Axis = _Axis
    @staticmethod
    def Broadcast(value: Value, lanes: int) -> Any:
        """A vector of so many times the same value."""
    @staticmethod
    def Buffer(shape: Value, dtype: Value = ..., **keywords: Value) -> Any:
        """``T.Buffer``: the type of a parameter; with ``data=`` a view of memory that exists, as `decl_buffer`
        makes.
        """
    @staticmethod
    def Cast(kind: Value, value: Value) -> Any:
        """`T.cast` with the dtype first."""
    ClusterPersistentScheduler2D = _ClusterPersistentScheduler2D
    ComposeLayout = _ComposeLayout
    DynamicScheduler2D = _DynamicScheduler2D
    @staticmethod
    def Else() -> Any:
        """What happens where the condition of the ``T.If`` around it does not hold."""
    @staticmethod
    def FloatImm(kind: Value, value: Value) -> Any:
        """``T.FloatImm("float32", 1.0)``, ``T.IntImm("int32", 1)``: a constant of a dtype."""
    @staticmethod
    def If(cond: Value) -> Any:
        """``with T.If(cond):`` around ``T.Then`` and ``T.Else``; mutable while it is open."""
    @staticmethod
    def IntImm(kind: Value, value: Value) -> Any:
        """``T.FloatImm("float32", 1.0)``, ``T.IntImm("int32", 1)``: a constant of a dtype."""
    Iter = _Iter
    MBarrier = _MBarrier
    @staticmethod
    def Or(a: Value, b: Value) -> Any:
        """``a or b``"""
    Pipeline = _Pipeline
    PipelineState = _PipelineState
    @staticmethod
    def PointerType(to: Value, scope: Value = ...) -> Any:
        """``T.PointerType(T.PrimType("uint64"))``: the type of a pointer, whose dtype is handle."""
    @staticmethod
    def PrimType(kind: Value) -> Any:
        """``T.PrimType("uint64")``: the dtype."""
    R: Any
    S: Any
    @staticmethod
    def SMEMPool(ptr: Value = ...) -> Any:
        """Deals out shared memory front to back; mutable. ``move_base_to`` sets where the next buffer goes, in
        bytes.
        """
    @staticmethod
    def Select(cond: Value, a: Value, b: Value) -> Any:
        """``a`` where ``cond``, else ``b``, of their common dtype; the chosen side where ``cond`` is a constant."""
    SmemDescriptor = _SmemDescriptor
    SwizzleLayout = _SwizzleLayout
    SwizzleMode = _SwizzleMode
    @staticmethod
    def SymmetricBuffer(
        shape: Value,
        dtype: Value = ...,
        ranks: int = ...,
        layout: Value = ...,
        strides: Value = ...,
        align: int = ...,
    ) -> Any:
        """``x: T.SymmetricBuffer((1024,), "float32", ranks=4)``: a parameter that each of four GPUs has, in memory
        that the others reach: ``x.peer(r)`` is the one of rank r, ``x`` itself that of the calling GPU.
        """
    TCGen05Bar = _TCGen05Bar
    TMABar = _TMABar
    @staticmethod
    def TMEMPool(
        pool: Value,
        total_cols: int = ...,
        *,
        cta_group: int = ...,
        alloc_warp: int = ...,
        dealloc_warp: int | None = ...,
        tmem_addr: Value = ...,
    ) -> Any:
        """Deals out columns front to back; mutable. ``commit`` asks for all of them, by one warp, ``dealloc`` gives
        them back. The hardware writes the address to shared memory, and every buffer begins at an offset from it.
        """
    @staticmethod
    def TMEMStages(buf: Value, col: int, width: int, stages: int, stride: int | None = ...) -> Any:
        """Stages in the columns of a buffer: ``stages[i]`` is ``width`` columns, from ``col + i * stride`` on."""
    @staticmethod
    def TensorMap() -> Any:
        """``m: T.TensorMap``, also called without arguments: a parameter that is a tensor map."""
    @staticmethod
    def Then() -> Any:
        """What happens where the condition of the ``T.If`` around it holds."""
    TileLayout = _TileLayout
    TileQueue = _TileQueue
    @staticmethod
    def Var(name: Value = ..., dtype: Value = ..., ty: Value = ...) -> Any:
        """A variable with a dtype, or with a type that is a pointer: the annotation of a ``T.let``."""
    @staticmethod
    def WarpRole(warp_id: Value, i: int, regs: int | None = ..., increase: Flag = ...) -> Any:
        """``with T.WarpRole(warp_id, i):`` what warp ``i`` does; regs: registers of each of its threads from here
        on.
        """
    @staticmethod
    def WarpgroupRole(wg: Value, i: Value, regs: int | None = ..., increase: Flag = ...) -> Any:
        """``with T.WarpgroupRole(wg, i):`` what warpgroup ``i`` does, or those from ``i[0]`` up to before ``i[1]``."""
    WarpgroupTurns = _WarpgroupTurns
    @staticmethod
    def abs(x: Value) -> Any:
        """The magnitude of x; the smallest integer stays as it is."""
    @staticmethod
    def acos(x: Value) -> Any:
        """The angle with cosine x; CUDA is within 3 ulp in float32, 2 in float64."""
    @staticmethod
    def address_of(place: Value) -> Any:
        """A pointer to an element; to the first one of a buffer or region; to a tensor map."""
    @staticmethod
    def all(*values: Value, axis: Value = ..., keepdims: Flag = ..., **keywords: Value) -> Any:
        """The answers whether no element is 0 of a tile along ``axis``, of the whole tile where it is left out.
        `Tx.all` has the other keywords.
        """
    @staticmethod
    def alloc_buffer(
        shape: Value,
        dtype: Value = ...,
        data: Value = ...,
        strides: Value = ...,
        elem_offset: Value = ...,
        byte_offset: Value = ...,
        scope: Value = ...,
        *,
        layout: Value = ...,
        align: int = ...,
        offset: int | None = ...,
        flat: Flag = ...,
    ) -> Any:
        """Storage for a tile of a logical shape. A local one whose layout has thread axes holds a part in each
        thread.
        """
    @staticmethod
    def alloc_cast_frag(src: Value, dtype: Value) -> Any:
        """Registers for the elements of ``src`` as another dtype, each where it is in ``src``."""
    @staticmethod
    def alloc_local(shape: Value, dtype: Value = ..., *, layout: Value = ..., align: int = ...) -> Any:
        """`alloc_buffer` in registers."""
    @staticmethod
    def alloc_scalar(dtype: Value = ..., scope: Value = ...) -> Any:
        """One value in memory of its own, in registers or shared: a name for it reads and assigns that value."""
    @staticmethod
    def alloc_shared(shape: Value, dtype: Value = ..., *, layout: Value = ..., align: int = ...) -> Any:
        """`alloc_buffer` in shared memory."""
    @staticmethod
    def alloc_tcgen05_ldst_frag(shape_name: Value, shape: Value, dtype: Value = ...) -> Any:
        """Registers for (rows, cols) of tensor memory, in the fragment of tcgen05.ld and st of this shape
        ("32x32b").
        """
    @staticmethod
    def any(*values: Value, axis: Value = ..., keepdims: Flag = ..., **keywords: Value) -> Any:
        """The answers whether some element is not 0 of a tile along ``axis``, of the whole tile where it is left
        out. `Tx.any` has the other keywords.
        """
    @staticmethod
    def argmax(*values: Value, axis: Value = ..., keepdims: Flag = ..., **keywords: Value) -> Any:
        """The places of the first largest elements of a tile along ``axis``, of the whole tile where it is left out.
        `Tx.argmax` has the other keywords.
        """
    @staticmethod
    def argmin(*values: Value, axis: Value = ..., keepdims: Flag = ..., **keywords: Value) -> Any:
        """The places of the first smallest elements of a tile along ``axis``, of the whole tile where it is left
        out. `Tx.argmin` has the other keywords.
        """
    @staticmethod
    def asin(x: Value) -> Any:
        """The angle with sine x; CUDA is within 4 ulp in float32, 2 in float64."""
    @staticmethod
    def assume(cond: Value) -> Any:
        """A fact about the arguments (``T.assume(n % 8 == 0)``), checked when the kernel is called."""
    @staticmethod
    def atan(x: Value) -> Any:
        """The angle with tangent x; CUDA is within 2 ulp in float32, 2 in float64."""
    @staticmethod
    def atan2(y: Value, x: Value) -> Any:
        """The angle of the point (x, y); CUDA is within 3 ulp in float32, 2 in float64."""
    @staticmethod
    def attr(settings: Value) -> Any:
        """Settings of the kernel: ``T.attr({"min_blocks": 2})``, in full "tirx.launch_bounds_min_blocks_per_sm"."""
    bf16: Any
    bfloat16: Any
    @staticmethod
    def bitwise_and(a: Value, b: Value) -> Any:
        """``a & b``"""
    @staticmethod
    def bitwise_not(value: Value) -> Any:
        """``~value``."""
    @staticmethod
    def bitwise_or(a: Value, b: Value) -> Any:
        """``a | b``"""
    @staticmethod
    def bitwise_xor(a: Value, b: Value) -> Any:
        """``a ^ b``"""
    bool: Any
    @staticmethod
    def brev(x: Value) -> Any:
        """The bits of x in reverse order."""
    @staticmethod
    def call_packed(name: Value, *fields: Value) -> Any:
        """Makes a tensor map of an argument: ``T.call_packed("runtime.cuTensorMapEncodeTiled", m, dtype, rank,
        A.data, *sizes, *strides, *box, *element_strides, interleave, swizzle, l2, oob)``, the innermost dimension
        first, its stride left out, strides in bytes.
        """
    @staticmethod
    def cast(value: Value, kind: Value) -> Any:
        """``value`` converted as C does; float to int truncates and saturates, NaN becomes 0."""
    @staticmethod
    def ceil(x: Value) -> Any:
        """The smallest integer not below x."""
    @staticmethod
    def ceildiv(a: Value, b: Value) -> Any:
        """How many times ``b`` it takes to cover ``a``, for a positive ``b``."""
    cluster_ctaid: XYZ
    cluster_ctarank: Any
    @staticmethod
    def cluster_id(counts: Value = ..., *more: Value, preferred: Value = ...) -> Any:
        """The cluster of the grid: 0 up to its extents, which may be left out where they follow from other ids."""
    clusterid: XYZ
    @staticmethod
    def clz(x: Value) -> Any:
        """Zero bits above the highest set bit of x, an int32."""
    constexpr: Any
    @staticmethod
    def copysign(x: Value, y: Value) -> Any:
        """The magnitude of x with the sign of y."""
    @staticmethod
    def cos(x: Value) -> Any:
        """The cosine of x radians; CUDA is within 2 ulp in float32, 2 in float64."""
    @staticmethod
    def cosh(x: Value) -> Any:
        """The hyperbolic cosine; CUDA is within 2 ulp in float32, 2 in float64."""
    @staticmethod
    def cta_id(counts: Value = ..., *more: Value, preferred: Value = ...) -> Any:
        """The CTA of the grid: 0 up to its extents, which may be left out where they follow from other ids."""
    @staticmethod
    def cta_id_in_cluster(counts: Value = ..., *more: Value, preferred: Value = ...) -> Any:
        """The CTA of its cluster: 0 up to its extents, which may be left out where they follow from other ids."""
    @staticmethod
    def cta_id_in_pair(counts: Value = ..., *more: Value, preferred: Value = ...) -> Any:
        """The CTA of a pair that works together: 0 up to its extents, which may be left out where they follow from
        other ids.
        """
    ctaid: XYZ
    cuda: _cuda
    @staticmethod
    def decl_buffer(
        shape: Value,
        dtype: Value = ...,
        data: Value = ...,
        strides: Value = ...,
        elem_offset: Value = ...,
        byte_offset: Value = ...,
        scope: Value = ...,
        *,
        layout: Value = ...,
        align: int = ...,
        allocated_addr: Value = ...,
        flat: Flag = ...,
    ) -> Any:
        """A view of memory that exists: ``data`` points to it, an offset in elements or bytes leads to its first
        element.
        """
    @staticmethod
    def decl_scalar(
        dtype: Value = ...,
        data: Value = ...,
        scope: Value = ...,
        elem_offset: Value = ...,
        byte_offset: Value = ...,
    ) -> Any:
        """One value in memory that exists: a name for it reads and assigns that value."""
    @staticmethod
    def device_entry() -> Any:
        """From here on the code runs on the device."""
    @staticmethod
    def erf(x: Value) -> Any:
        """The error function; CUDA is within 2 ulp in float32, 2 in float64."""
    @staticmethod
    def evaluate(value: Value) -> Any:
        """Compute an expression for its effect."""
    @staticmethod
    def exactly(op: Value, *operands: Value, kind: Value = ...) -> Any:
        """The node itself, unfolded: how a printed script writes what building it again would simplify."""
    @staticmethod
    def exp(x: Value) -> Any:
        """The exponential of x; CUDA is within 2 ulp in float32, 1 in float64."""
    @staticmethod
    def exp10(x: Value) -> Any:
        """10 to the power x; CUDA is within 2 ulp in float32, 1 in float64."""
    @staticmethod
    def exp2(x: Value) -> Any:
        """2 to the power x; CUDA is within 2 ulp in float32, 1 in float64."""
    @staticmethod
    def expm1(x: Value) -> Any:
        """The exponential of x less 1, without cancellation; CUDA is within 1 ulp in float32, 2 in float64."""
    f16: Any
    f32: Any
    f64: Any
    @staticmethod
    def fabs(x: Value) -> Any:
        """The magnitude of x."""
    @staticmethod
    def ffs(x: Value) -> Any:
        """The place of the lowest set bit of x from 1 on, 0 for none, an int32."""
    float16: Any
    float32: Any
    float4_e2m1fn: Any
    float64: Any
    float6_e2m3fn: Any
    float6_e3m2fn: Any
    float8_e4m3fn: Any
    float8_e5m2: Any
    float8_e8m0fnu: Any
    @staticmethod
    def floor(x: Value) -> Any:
        """The largest integer not above x."""
    @staticmethod
    def floordiv(a: Value, b: Value) -> Any:
        """``a // b``"""
    @staticmethod
    def floormod(a: Value, b: Value) -> Any:
        """``a % b``"""
    @staticmethod
    def fma(a: Value, b: Value, c: Value) -> Any:
        """The value of a * b + c, rounded once."""
    @staticmethod
    def fmax(x: Value, y: Value) -> Any:
        """The larger; the number where one is NaN."""
    @staticmethod
    def fmin(x: Value, y: Value) -> Any:
        """The smaller; the number where one is NaN."""
    @staticmethod
    def fmod(x: Value, y: Value) -> Any:
        """The remainder of x / y with the sign of x."""
    @staticmethod
    def func_attr(settings: Value) -> Any:
        """Settings of the function as a whole, `Kernel.attrs`: ``{"min_blocks": 2, "global_symbol": "main"}``."""
    @staticmethod
    def gelu(*args: Value, **keywords: Value) -> Any:
        """src by the normal distribution below it."""
    @staticmethod
    def grid(*extents: Value) -> Any:
        """Nested loops: ``for i, j in T.grid(8, 4)``; ``T.grid((2, 8), 4)`` goes from 2 to 7."""
    handle: Any
    @staticmethod
    def hash32(x: Value) -> Any:
        """The 32 bits of x mixed to a uint32, each bit of which depends on all of them; 0 stays 0."""
    @staticmethod
    def hint(*message: Value, **settings: Value) -> Any:
        """Advice to readers that changes no meaning: a comment of the lowered kernel and of its CUDA text."""
    @staticmethod
    def hypot(x: Value, y: Value) -> Any:
        """The length of (x, y); CUDA is within 3 ulp in float32, 2 in float64."""
    i16: Any
    i32: Any
    i64: Any
    i8: Any
    @staticmethod
    def if_then_else(cond: Value, a: Value, b: Value) -> Any:
        """``a`` where ``cond`` holds, else ``b``; of tiles, for each element."""
    @staticmethod
    def infinity(kind: Value) -> Any:
        """The positive infinity of a float dtype."""
    int16: Any
    int32: Any
    int64: Any
    int8: Any
    @staticmethod
    def invert(*args: Value, **keywords: Value) -> Any:
        """The bits that `src` has not; of bools, the other one."""
    @staticmethod
    def isfinite(x: Value) -> Any:
        """Whether x is neither infinite nor NaN."""
    @staticmethod
    def isinf(x: Value) -> Any:
        """Whether x is infinite."""
    @staticmethod
    def isnan(x: Value) -> Any:
        """Whether x is not a number."""
    @staticmethod
    def lane_id(counts: Value = ..., *more: Value, preferred: Value = ...) -> Any:
        """The lane of its warp: 0 up to its extents, which may be left out where they follow from other ids."""
    laneid: Any
    @staticmethod
    def launch(
        *,
        grid: Value,
        threads: int,
        cluster: Value = ...,
        shared_bytes: int = ...,
        min_blocks_per_sm: int = ...,
        non_portable_cluster: Flag = ...,
        max_registers: int = ...,
    ) -> Any:
        """How the kernel is launched: a line of printed scripts of the lowered stage."""
    @staticmethod
    def launch_thread(thread: Value, extent: Value) -> Any:
        """Where the thread stands on one axis of the launch, which has this extent: "blockIdx.x", "threadIdx.y"."""
    let: Any
    @staticmethod
    def likely(cond: Value) -> Any:
        """The condition itself: how often it holds changes nothing here."""
    @staticmethod
    def local_scalar(dtype: Value = ...) -> Any:
        """`alloc_scalar` in registers."""
    @staticmethod
    def log(x: Value) -> Any:
        """The natural logarithm; CUDA is within 1 ulp in float32, 1 in float64."""
    @staticmethod
    def log10(x: Value) -> Any:
        """The logarithm to base 10; CUDA is within 2 ulp in float32, 2 in float64."""
    @staticmethod
    def log1p(x: Value) -> Any:
        """Log(1 + x), without cancellation; CUDA is within 1 ulp in float32, 2 in float64."""
    @staticmethod
    def log2(x: Value) -> Any:
        """The logarithm to base 2; CUDA is within 1 ulp in float32, 2 in float64."""
    @staticmethod
    def match_buffer(
        param: Value,
        shape: Value,
        dtype: Value = ...,
        *,
        layout: Value = ...,
        strides: Value = ...,
        scope: Value = ...,
        elem_offset: Value = ...,
        align: int = ...,
        flat: Flag = ...,
        peers: int = ...,
    ) -> Any:
        """The array behind a handle parameter. Symbolic extents and strides (``n = T.int32()``) take their values
        from the call. strides: in elements, ``(lda, 1)`` for rows that are lda elements apart. peers: of a
        `T.SymmetricBuffer` in printed scripts, its ranks.
        """
    @staticmethod
    def match_symmetric(
        param: Value,
        shape: Value,
        dtype: Value = ...,
        *,
        ranks: int,
        layout: Value = ...,
        strides: Value = ...,
        align: int = ...,
    ) -> Any:
        """`T.match_buffer` of an array that each of several GPUs has, as `T.SymmetricBuffer`, also of symbolic
        extents.
        """
    @staticmethod
    def max(*values: Value, axis: Value = ..., keepdims: Flag = ..., **keywords: Value) -> Any:
        """The largest elements of a tile along ``axis``, of the whole tile where it is left out; of several values
        ``T.max(a, b)`` the largest. `Tx.max` has the other keywords.
        """
    @staticmethod
    def max_value(kind: Value) -> Any:
        """The largest finite number of a dtype."""
    @staticmethod
    def maximum(a: Value, b: Value) -> Any:
        """The larger one; NaN where either is NaN."""
    @staticmethod
    def meta_var(value: Value) -> Any:
        """Bind a name to a Python value or an expression itself: no scalar is made."""
    @staticmethod
    def min(*values: Value, axis: Value = ..., keepdims: Flag = ..., **keywords: Value) -> Any:
        """The smallest elements of a tile along ``axis``, of the whole tile where it is left out; of several values
        ``T.min(a, b)`` the smallest. `Tx.min` has the other keywords.
        """
    @staticmethod
    def min_value(kind: Value) -> Any:
        """The smallest finite number of a dtype."""
    @staticmethod
    def minimum(a: Value, b: Value) -> Any:
        """The smaller one; NaN where either is NaN."""
    multimem: _multimem
    nctaid: XYZ
    @staticmethod
    def nearbyint(x: Value) -> Any:
        """The nearest integer, halves to even."""
    @staticmethod
    def neg(*args: Value, **keywords: Value) -> Any:
        """`src` with the other sign."""
    ntid: Any
    @staticmethod
    def popcount(x: Value) -> Any:
        """How many bits of x are set, an int32."""
    @staticmethod
    def pow(x: Value, y: Value) -> Any:
        """The power y of x; CUDA is within 4 ulp in float32, 2 in float64."""
    @staticmethod
    def printf(fmt: Value, *args: Value) -> Any:
        """Prints one line per active lane, formatted as C does."""
    @staticmethod
    def prod(*values: Value, axis: Value = ..., keepdims: Flag = ..., **keywords: Value) -> Any:
        """The products of a tile along ``axis``, of the whole tile where it is left out. `Tx.prod` has the other
        keywords.
        """
    @staticmethod
    def ptr_byte_offset(ptr: Value, offset: Value, dtype: Value = ...) -> Any:
        """A pointer so many bytes further on; ``dtype`` is for readers."""
    ptx: _ptx
    @staticmethod
    def rand(seed: Value, offset: Value, word: Value = ...) -> Any:
        """A random float32 in [0, 1) that seed and offset, of up to 64 bits, decide by Philox-4x32-10; word: which
        of four, 0 to 3. word: 0, 1, 2, 3.
        """
    @staticmethod
    def randint(seed: Value, offset: Value, word: Value = ...) -> Any:
        """A random uint32 that seed and offset, of up to 64 bits, decide by Philox-4x32-10; word: which of four, 0
        to 3. word: 0, 1, 2, 3.
        """
    @staticmethod
    def rank_id(counts: Value = ...) -> Any:
        """The rank of the GPU that runs the kernel: 0 up to its extent, ``rank = T.rank_id([4])``."""
    @staticmethod
    def reciprocal(*args: Value, **keywords: Value) -> Any:
        """1 / src, correctly rounded."""
    @staticmethod
    def region(buffer: Value, *box: Value) -> Any:
        """The box of a buffer with (start, extent) for each dimension: where slices would simplify the extent."""
    @staticmethod
    def reinterpret(kind: Value, value: Value) -> Any:
        """The bits of ``value`` as another dtype of the same size."""
    @staticmethod
    def relu(*args: Value, **keywords: Value) -> Any:
        """`src` where it is positive, else 0; NaN stays."""
    @staticmethod
    def rint(x: Value) -> Any:
        """The nearest integer, halves to even."""
    @staticmethod
    def round(x: Value) -> Any:
        """The nearest integer, halves away from zero."""
    @staticmethod
    def rounded_add(a: Value, b: Value, rounding: Value = ...) -> Any:
        """The sum of float32, rounded to nearest (rn), to zero (rz), down (rm) or up (rp). rounding: 'rn', 'rz',
        'rm', 'rp'.
        """
    @staticmethod
    def rounded_div(a: Value, b: Value, rounding: Value = ...) -> Any:
        """The quotient of float32, rounded to nearest (rn), to zero (rz), down (rm) or up (rp). rounding: 'rn',
        'rz', 'rm', 'rp'.
        """
    @staticmethod
    def rounded_fma(a: Value, b: Value, c: Value, rounding: Value = ...) -> Any:
        """The value of a * b + c of float32, rounded to nearest (rn), to zero (rz), down (rm) or up (rp). rounding:
        'rn', 'rz', 'rm', 'rp'.
        """
    @staticmethod
    def rounded_mul(a: Value, b: Value, rounding: Value = ...) -> Any:
        """The product of float32, rounded to nearest (rn), to zero (rz), down (rm) or up (rp). rounding: 'rn', 'rz',
        'rm', 'rp'.
        """
    @staticmethod
    def rounded_sub(a: Value, b: Value, rounding: Value = ...) -> Any:
        """The difference of float32, rounded to nearest (rn), to zero (rz), down (rm) or up (rp). rounding: 'rn',
        'rz', 'rm', 'rp'.
        """
    @staticmethod
    def rsqrt(x: Value) -> Any:
        """1 / sqrt(x); CUDA is within 2 ulp in float32, 1 in float64."""
    @staticmethod
    def saturated(x: Value, to: Value = ...) -> Any:
        """The float32 x as a float of 8, 6 or 4 bits, the dtype `to`; beyond the range the largest or smallest
        value. to: 'float8_e4m3fn', 'float8_e5m2', 'float6_e2m3fn', 'float6_e3m2fn', 'float4_e2m1fn'.
        """
    @staticmethod
    def select(cond: Value, a: Value, b: Value) -> Any:
        """``a`` where ``cond`` holds, else ``b``; of tiles, for each element."""
    @staticmethod
    def serial(*bounds: Value, step: Value = ..., unroll: Value = ..., annotations: Value = ...) -> Any:
        """A serial loop. ``unroll=4``, or ``annotations={"unroll": 4}``, writes out four rounds at a time, True all
        of them, False none.
        """
    @staticmethod
    def shared_scalar(dtype: Value = ...) -> Any:
        """`alloc_scalar` in shared memory."""
    @staticmethod
    def shift_left(a: Value, b: Value) -> Any:
        """``a << b``"""
    @staticmethod
    def shift_right(a: Value, b: Value) -> Any:
        """``a >> b``"""
    @staticmethod
    def sigmoid(*args: Value, **keywords: Value) -> Any:
        """1 / (1 + exp(-src))."""
    @staticmethod
    def silu(*args: Value, **keywords: Value) -> Any:
        """src / (1 + exp(-src))."""
    @staticmethod
    def sin(x: Value) -> Any:
        """The sine of x radians; CUDA is within 2 ulp in float32, 2 in float64."""
    @staticmethod
    def sinh(x: Value) -> Any:
        """The hyperbolic sine; CUDA is within 3 ulp in float32, 2 in float64."""
    @staticmethod
    def smem_desc_add_16B_offset(desc: Value, units: Value) -> Any:
        """The matrix descriptor of a tile that starts ``units`` times 16 bytes later."""
    @staticmethod
    def special(name: Value) -> Any:
        """A special register by its name, as the lowered stage has them: ``T.special("ctaid.x")`` or ``T.ctaid.x``."""
    @staticmethod
    def sqrt(x: Value) -> Any:
        """The square root, correctly rounded."""
    @staticmethod
    def sum(*values: Value, axis: Value = ..., keepdims: Flag = ..., **keywords: Value) -> Any:
        """The sums of a tile along ``axis``, of the whole tile where it is left out. `Tx.sum` has the other
        keywords.
        """
    @staticmethod
    def tan(x: Value) -> Any:
        """The tangent of x radians; CUDA is within 4 ulp in float32, 2 in float64."""
    @staticmethod
    def tanh(x: Value) -> Any:
        """The hyperbolic tangent; CUDA is within 2 ulp in float32, 2 in float64."""
    @staticmethod
    def tensor_map(
        buffer: Value,
        *,
        box: Value,
        swizzle: int = ...,
        dtype: Value = ...,
        dims: Value = ...,
        strides: Value = ...,
        oob: Value = ...,
        offset: Value = ...,
        steps: Value = ...,
        im2col: Value = ...,
    ) -> Any:
        """A tensor map of an argument, which every call makes: ``T.ptx.cp_async.bulk.tensor`` takes it."""
    tf32: Any
    @staticmethod
    def thread_binding(*bounds: Value, thread: Value = ...) -> Any:
        """``for tx in T.thread_binding(32, thread="threadIdx.x")``: the body is done by every thread, once."""
    @staticmethod
    def thread_id(counts: Value = ..., *more: Value, preferred: Value = ...) -> Any:
        """The thread of its CTA: 0 up to its extents, which may be left out where they follow from other ids."""
    @staticmethod
    def thread_id_in_wg(counts: Value = ..., *more: Value, preferred: Value = ...) -> Any:
        """The thread of its warpgroup: 0 up to its extents, which may be left out where they follow from other ids."""
    tid: Any
    @staticmethod
    def trace(name: Value) -> Any:
        """A mark in the kernel, where a warp is at: an event of a recorded run, a clock stamp of ``exe.trace(...)``."""
    @staticmethod
    def trunc(x: Value) -> Any:
        """The integer part of x."""
    @staticmethod
    def truncdiv(a: Value, b: Value) -> Any:
        """``a truncdiv b``"""
    @staticmethod
    def truncmod(a: Value, b: Value) -> Any:
        """``a truncmod b``"""
    @staticmethod
    def tvm_stack_alloca(kind: Value, count: int = ...) -> Any:
        """Room for a tensor map: ``m = T.tvm_stack_alloca("tensormap", 1)``, which `T.call_packed` then fills."""
    @staticmethod
    def tvm_storage_sync(scope: Value) -> Any:
        """The barrier that orders accesses to a memory: of the CTA for "shared", of the warp for "warp"."""
    @staticmethod
    def tvm_warp_activemask() -> Any:
        """`T.cuda.activemask`."""
    @staticmethod
    def tvm_warp_shuffle(mask: Value, value: Value, lane: Value, width: Value = ..., warp_size: int = ...) -> Any:
        """`T.cuda.shfl_sync`; the size of a warp is 32."""
    @staticmethod
    def tvm_warp_shuffle_down(mask: Value, value: Value, lane: Value, width: Value = ..., warp_size: int = ...) -> Any:
        """`T.cuda.shfl_down_sync`; the size of a warp is 32."""
    @staticmethod
    def tvm_warp_shuffle_up(mask: Value, value: Value, lane: Value, width: Value = ..., warp_size: int = ...) -> Any:
        """`T.cuda.shfl_up_sync`; the size of a warp is 32."""
    @staticmethod
    def tvm_warp_shuffle_xor(mask: Value, value: Value, lane: Value, width: Value = ..., warp_size: int = ...) -> Any:
        """`T.cuda.shfl_xor_sync`; the size of a warp is 32."""
    u16: Any
    u32: Any
    u64: Any
    u8: Any
    uint16: Any
    uint32: Any
    uint64: Any
    uint8: Any
    @staticmethod
    def unroll(*bounds: Value, step: Value = ..., annotations: Value = ...) -> Any:
        """A loop whose rounds are written out; ``annotations={"unroll": 4}`` four at a time."""
    @staticmethod
    def vectorized(*bounds: Value, step: Value = ..., annotations: Value = ...) -> Any:
        """A loop whose rounds may run at once."""
    void: Any
    @staticmethod
    def warp_id(counts: Value = ..., *more: Value, preferred: Value = ...) -> Any:
        """The warp of its CTA: 0 up to its extents, which may be left out where they follow from other ids."""
    @staticmethod
    def warp_id_in_wg(counts: Value = ..., *more: Value, preferred: Value = ...) -> Any:
        """The warp of its warpgroup: 0 up to its extents, which may be left out where they follow from other ids."""
    @staticmethod
    def warpgroup_id(counts: Value = ..., *more: Value, preferred: Value = ...) -> Any:
        """The warpgroup of its CTA: 0 up to its extents, which may be left out where they follow from other ids."""
    warpid: Any
    @staticmethod
    def wg_reg_tile(n: int, dtype: Value = ...) -> Any:
        """Registers for 128 rows of ``n`` elements, a row for each thread of a warpgroup."""
