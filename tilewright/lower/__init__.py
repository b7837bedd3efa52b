"""From authored to flat: scope ids become special registers, layouts addresses, shared buffers offsets in one arena.

All of it is in `flatten`.
"""

from dataclasses import replace

from tilewright.ir import AllocBuffer, DeclBuffer, Kernel, statements
from tilewright.ir.launch import launch_of, scope_id_exprs
from tilewright.ir.ranges import RangeFacts
from tilewright.lower.flatten import flatten, plan_shared, settle_tmem, shared_alignment

__all__ = ["lower", "plan_shared", "shared_alignment"]


def lower(kernel: Kernel) -> Kernel:
    """The lowered stage of a kernel whose tile calls are resolved.

    Before: buffers have layouts, scope ids are names. After: storage is flat, every access is one offset, scope ids are
    special registers, shared buffers have their offsets, tensor memory is allocated in sizes that exist, and ``launch``
    says how to start it.
    """
    facts = RangeFacts.of_kernel(kernel)
    offsets, shared_bytes = plan_shared(kernel.body)
    body = settle_tmem(flatten(kernel.body, scope_id_exprs(kernel), offsets, facts))
    launch = replace(launch_of(kernel), shared_bytes=shared_bytes)
    authored = (
        *kernel.buffers,
        *(s.buffer for s in statements(kernel.body) if isinstance(s, (AllocBuffer, DeclBuffer))),
    )
    buffers = tuple(replace(buffer.flat(), elem_offset=0) for buffer in kernel.buffers)
    return replace(kernel, buffers=buffers, body=body, stage="lowered", launch=launch, authored=authored)
