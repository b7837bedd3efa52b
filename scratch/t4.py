import numpy as np, tilewright as tw
from tilewright import T, Tx
def kern(mode):
    @T.prim_func
    def k(SUMS: T.Buffer((2,512,), "float32")):
        T.func_attr({"min_blocks": 1})
        T.cta_id([1]); g=T.warpgroup_id([3]); w=T.warp_id_in_wg([4]); t=T.thread_id_in_wg([128])
        near=T.alloc_shared((2,512,),"float32",align=128)
        if g==0:
          if w==1:
            for i in T.serial(3, unroll=False):
              for who in T.unroll(2):
                T.ptx.bar.sync(2+who,160)
                if mode == "plain":
                    if t==32: SUMS[who,0]=near[who,0]
                if mode == "plainsync":
                    if t==32: SUMS[who,0]=near[who,0]
                    T.cuda.warp_sync()
                if mode == "tma":
                    if T.ptx.elect_sync():
                        Tx.copy_async(SUMS[who,:], near[who,:], use_tma_reduce="add")
                        T.ptx.cp_async.bulk.commit_group()
                        T.ptx.cp_async.bulk.wait_group(0, read=True)
                    T.cuda.warp_sync()
                if mode == "tmafull":
                    if T.ptx.elect_sync():
                        Tx.copy_async(SUMS[who,:], near[who,:], use_tma_reduce="add")
                        T.ptx.cp_async.bulk.commit_group()
                        T.ptx.cp_async.bulk.wait_group(0)
                    T.cuda.warp_sync()
                T.ptx.bar.arrive(4+who,160)
            if mode in ("tma","tmafull"):
              if T.ptx.elect_sync():
                T.ptx.cp_async.bulk.wait_group(0)
        with T.WarpgroupRole(g, (1,3)):
            who: T.let = g-1
            for i in T.serial(3, unroll=False):
                if i != 0: T.ptx.bar.sync(4+who,160)
                for x in T.vectorized(4): near[who, t*4+x]=1.0
                T.ptx.fence.proxy_async("shared::cta")
                T.ptx.bar.arrive(2+who,160)
    return k
for args in ("plain","plainsync","tma","tmafull"):
    a=np.zeros((2,512),np.float32)
    try: print(args,tw.simulate(kern(args),a,target="sm_90a",check="all").warnings, a[0,0],a[1,0])
    except Exception as e: print(args,str(e))
