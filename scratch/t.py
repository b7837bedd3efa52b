import sys, time, numpy as np, ml_dtypes, tilewright as tw
from tilewright.kernels import attention_backward as ab
from tilewright.compiler import Executable
def run(exe,*args):
    t=time.time(); w=exe.simulate(*args,check="all").warnings
    if len(sys.argv)>1 and sys.argv[1]=="-v": print("   ", time.time()-t)
    for x in w: print("WARN",x)
Executable.__call__=run
def ref(q,k,v,do,scale,seen,cap=0):
    q,k,v,do=(x.astype(np.float64) for x in (q,k,v,do))
    g=q.shape[1]//k.shape[1]
    kk,vv=(np.repeat(x,g,1) for x in (k,v))
    s=q@kk.swapaxes(2,3)*scale
    t=None
    if cap: t=np.tanh(s/cap); s=t*cap
    s=np.where(seen,s,-np.inf)
    mx=s.max(-1,keepdims=True); mx=np.where(np.isinf(mx),0,mx)
    p=np.exp(s-mx); l=p.sum(-1,keepdims=True)
    with np.errstate(divide="ignore"): lse=(np.log(l)+mx)[...,0]
    p=p/np.where(l==0,1,l)
    o=p@vv
    dp=do@vv.swapaxes(2,3)
    ds=p*(dp-(do*o).sum(-1,keepdims=True))
    if cap: ds=ds*(1-t*t)
    dq=ds@kk*scale
    dk=(ds.swapaxes(2,3)@q*scale).reshape(*k.shape[:2],g,*k.shape[2:]).sum(2)
    dv=(p.swapaxes(2,3)@do).reshape(*v.shape[:2],g,*v.shape[2:]).sum(2)
    return o,lse,dq,dk,dv
def case(b=1,h=1,hk=1,m=128,n=128,d=64,dv=None,kind="bfloat16",check="all",causal=False,window=(-1,-1),cap=0.,det=False,align="bottom-right",seed=0):
    rng=np.random.default_rng(seed)
    dv=dv or d
    q=rng.standard_normal((b,h,m,d)).astype(kind); do=rng.standard_normal((b,h,m,dv)).astype(kind)
    k=rng.standard_normal((b,hk,n,d)).astype(kind); v=rng.standard_normal((b,hk,n,dv)).astype(kind)
    shift=n-m if align=="bottom-right" else 0
    i,j=np.arange(m)[:,None],np.arange(n)
    left,right=window
    if causal: right=0
    seen=np.ones((m,n),bool)
    if left>=0: seen&=j>=i+shift-left
    if right>=0: seen&=j<=i+shift+right
    o,lse,*want=ref(q,k,v,do,d**-.5,seen,cap)
    t=time.time()
    kw={}
    if align!="bottom-right": kw=dict(align=align)
    if 1:
        got=ab.attention_backward(q,k,v,o.astype(kind),lse.astype(np.float32),do,causal=causal,window=window,softcap=cap,deterministic=det,**kw)
    for name,g,w in zip(("dq","dk","dv"),got,want):
        err=np.abs(g.astype(np.float64)-w); print(f"  {name} max err {err.max():.4f} of {np.abs(w).max():.3f}  rel {np.linalg.norm(err)/np.linalg.norm(w):.5f}")
        assert np.linalg.norm(err)/np.linalg.norm(w)<1e-2, (b,h,hk,m,n,d)
    print(f"{time.time()-t:.1f} s", (b,h,hk,m,n,d,dv,kind,causal,window,cap,det))
if __name__=="__main__":
    case()
    case(h=2,hk=1,m=200,n=300,d=64,causal=True)
    case(m=300,n=200,d=64,causal=True)
    case(m=128,n=128,d=128)
    case(h=4,hk=2,m=100,n=260,d=128,causal=True,kind="float16")
    case(m=200,n=260,d=128,window=(30,10))
