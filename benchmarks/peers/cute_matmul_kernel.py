"""A bfloat16 product in CuTe's DSL, as `kernels.matmul` has it.

Tiles of 128 x 256, 4 stages, a warp that loads, two warpgroups that multiply, clusters of 2 that share B, CTAs that
stay. C is stored through shared memory.
"""

# ruff: noqa: PLR0915

import cutlass
import cutlass.utils.hopper_helpers as hopper
from cutlass import cute, pipeline, utils
from cutlass.cute.nvgpu import cpasync, warp, warpgroup

TILE, STAGES, EPILOGUE, BAND = (128, 256, 64), 4, (128, 32), 8
KIND, SUMS = cutlass.BFloat16, cutlass.Float32


@cute.jit
def place(tile, rows, columns):
    """Where the tile of a cluster is, in bands of 8 rows."""
    whole = BAND * columns
    first = tile // whole * BAND
    height = cutlass.min(rows - first, BAND)
    return first + tile % whole % height, tile % whole // height


@cute.kernel
def product(
    mma: cute.TiledMma,
    load_a: cute.CopyAtom,
    a: cute.Tensor,
    load_b: cute.CopyAtom,
    b: cute.Tensor,
    store_c: cute.CopyAtom,
    c: cute.Tensor,
    layout_a: cute.ComposedLayout,
    layout_b: cute.ComposedLayout,
    layout_c: cute.ComposedLayout,
    rows: cutlass.Int32,
    columns: cutlass.Int32,
    clusters: cutlass.Int32,
):
    thread, _, _ = cute.arch.thread_idx()
    cta, _, _ = cute.arch.block_idx()
    wid = cute.arch.make_warp_uniform(thread // 32)
    rank = cute.arch.make_warp_uniform(cute.arch.block_idx_in_cluster())
    memory = utils.SmemAllocator()
    bars = memory.allocate_array(cutlass.Int64, 2 * STAGES)
    ring_a = memory.allocate_tensor(KIND, layout_a.outer, 1024, swizzle=layout_a.inner)
    ring_b = memory.allocate_tensor(KIND, layout_b.outer, 1024, swizzle=layout_b.inner)
    slabs = memory.allocate_tensor(KIND, layout_c.outer, 1024, swizzle=layout_c.inner)
    cluster = cute.make_layout((1, 2, 1, 1))
    ring = pipeline.PipelineTmaAsync.create(
        num_stages=STAGES,
        producer_group=pipeline.CooperativeGroup(pipeline.Agent.Thread),
        consumer_group=pipeline.CooperativeGroup(pipeline.Agent.Thread, 2 * 8),
        tx_count=(TILE[0] + TILE[1]) * TILE[2] * 2,
        barrier_storage=bars,
        cta_layout_vmnk=cluster,
    )
    cute.arch.cluster_arrive()
    cute.arch.cluster_wait()
    tiles_a = cute.local_tile(a, (TILE[0], TILE[2]), (None, None))
    tiles_b = cute.local_tile(b, (TILE[1], TILE[2]), (None, None))
    tiles_c = cute.local_tile(c, (TILE[0], TILE[1]), (None, None))
    to_a, from_a = cpasync.tma_partition(
        load_a, 0, cute.make_layout(1), cute.group_modes(ring_a, 0, 2), cute.group_modes(tiles_a, 0, 2)
    )
    to_b, from_b = cpasync.tma_partition(
        load_b, rank, cute.make_layout(2), cute.group_modes(ring_b, 0, 2), cute.group_modes(tiles_b, 0, 2)
    )
    steps = cute.size(tiles_a, mode=[3])

    if wid < 4:
        cute.arch.setmaxregister_decrease(40)
        if wid == 0:
            put = pipeline.make_pipeline_state(pipeline.PipelineUserType.Producer, STAGES)
            tile = cta // 2
            while tile < rows * columns:
                row, column = place(tile, rows, columns)
                for i in cutlass.range(steps, unroll=1):
                    ring.producer_acquire(put)
                    bar = ring.producer_get_barrier(put)
                    cute.copy(load_a, from_a[(None, 2 * row + rank, i)], to_a[(None, put.index)], tma_bar_ptr=bar)
                    cute.copy(
                        load_b,
                        from_b[(None, column, i)],
                        to_b[(None, put.index)],
                        tma_bar_ptr=bar,
                        mcast_mask=cutlass.Int16(3),
                    )
                    ring.producer_commit(put)
                    put.advance()
                tile += clusters
            ring.producer_tail(put)
    else:
        cute.arch.setmaxregister_increase(232)
        me = thread - 128
        mine = mma.get_slice(me)
        left = mma.make_fragment_A(mine.partition_A(ring_a))
        right = mma.make_fragment_B(mine.partition_B(ring_b))
        sums = cute.make_rmem_tensor(mine.partition_shape_C((TILE[0], TILE[1])), SUMS)
        atom = cute.make_copy_atom(warp.StMatrix8x8x16bOp(False, 4), KIND)
        copy = cute.make_tiled_copy_S(atom, cute.make_tiled_copy_C_atom(atom, mma))
        take = pipeline.make_pipeline_state(pipeline.PipelineUserType.Consumer, STAGES)
        free = pipeline.make_pipeline_state(pipeline.PipelineUserType.Consumer, STAGES)
        tile = cta // 2
        while tile < rows * columns:
            row, column = place(tile, rows, columns)
            mma.set(warpgroup.Field.ACCUMULATE, False)
            for i in cutlass.range(steps, unroll=1):
                ring.consumer_wait(take)
                warpgroup.fence()
                for k in cutlass.range_constexpr(TILE[2] // 16):
                    cute.gemm(mma, sums, left[(None, None, k, take.index)], right[(None, None, k, take.index)], sums)
                    mma.set(warpgroup.Field.ACCUMULATE, True)
                warpgroup.commit_group()
                warpgroup.wait_group(1)
                if i > 0:
                    ring.consumer_release(free)
                    free.advance()
                take.advance()
            warpgroup.wait_group(0)
            ring.consumer_release(free)
            free.advance()
            store(sums, me, copy, slabs, store_c, tiles_c[(None, None, 2 * row + rank, column)], wid)
            tile += clusters
        cute.arch.cp_async_bulk_wait_group(0, read=True)


@cute.jit
def store(
    sums: cute.Tensor,
    me: cutlass.Int32,
    copy: cute.TiledCopy,
    slabs: cute.Tensor,
    store_c: cute.CopyAtom,
    tile: cute.Tensor,
    wid: cutlass.Int32,
):
    """32 columns at a time, through two slabs that take turns."""
    mine = copy.get_slice(me)
    to = mine.partition_D(slabs)
    held = mine.retile(sums)
    shape = cute.shape(mine.partition_S(slabs))
    part = cute.make_rmem_tensor(shape[:3], KIND)
    wide = cute.make_rmem_tensor(shape[:3], SUMS)
    many = cute.size(part)
    from_slab, to_c = cpasync.tma_partition(
        store_c,
        0,
        cute.make_layout(1),
        cute.group_modes(slabs, 0, 2),
        cute.group_modes(cute.zipped_divide(tile, EPILOGUE), 0, 1),
    )
    for i in cutlass.range_constexpr(TILE[1] // EPILOGUE[1]):
        for j in cutlass.range_constexpr(many):
            wide[j] = held[i * many + j]
        part.store(wide.load().to(KIND))
        if wid == 4:
            cute.arch.cp_async_bulk_wait_group(1, read=True)
        cute.arch.barrier(barrier_id=1, number_of_threads=256)
        cute.copy(copy, part, to[(None, None, None, i % 2)])
        cute.arch.fence_proxy("async.shared", space="cta")
        cute.arch.barrier(barrier_id=1, number_of_threads=256)
        if wid == 4:
            cute.copy(store_c, from_slab[(None, i % 2)], to_c[(None, i)])
            cute.arch.cp_async_bulk_commit_group()


@cute.jit
def matmul(a: cute.Tensor, b: cute.Tensor, c: cute.Tensor, clusters: cutlass.Int32):
    major = utils.LayoutEnum.ROW_MAJOR
    k_major = warpgroup.OperandMajorMode.K
    mma = hopper.make_trivial_tiled_mma(KIND, KIND, k_major, k_major, SUMS, (2, 1, 1), (64, TILE[1]))
    layout_a = hopper.make_smem_layout_a(major, TILE, KIND, STAGES)
    layout_b = hopper.make_smem_layout_b(major, TILE, KIND, STAGES)
    layout_c = hopper.make_smem_layout_epi(KIND, major, EPILOGUE, 2)
    load_a, whole_a = cpasync.make_tiled_tma_atom(
        cpasync.CopyBulkTensorTileG2SOp(), a, cute.slice_(layout_a, (None, None, 0)), (TILE[0], TILE[2])
    )
    load_b, whole_b = cpasync.make_tiled_tma_atom(
        cpasync.CopyBulkTensorTileG2SMulticastOp(), b, cute.slice_(layout_b, (None, None, 0)), (TILE[1], TILE[2]), 2
    )
    store_c, whole_c = cpasync.make_tiled_tma_atom(
        cpasync.CopyBulkTensorTileS2GOp(), c, cute.slice_(layout_c, (None, None, 0)), EPILOGUE
    )
    rows, columns = cute.ceil_div(c.shape[0], 2 * TILE[0]), cute.ceil_div(c.shape[1], TILE[1])
    product(
        mma, load_a, whole_a, load_b, whole_b, store_c, whole_c, layout_a, layout_b, layout_c, rows, columns, clusters
    ).launch(grid=[2 * clusters, 1, 1], block=[384, 1, 1], cluster=[2, 1, 1], min_blocks_per_mp=1)
