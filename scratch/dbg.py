import sys; sys.argv=["x"]
import numpy as np
from tilewright.sim.order import engine
from tilewright.sim.order.asynchronous import on_behalf as ob
E=engine.OrderEngine if hasattr(engine,"OrderEngine") else [c for c in vars(engine).values() if isinstance(c,type) and hasattr(c,"acquired") and c.__module__==engine.__name__][0]
r,a=E.released,E.acquired
def released(self,wave,ctas,warps,here,barrier,rows,sync):
    o=self.orders[wave]; 
    print("released",barrier,"warps",np.arange(wave.run.warps)[warps][here[0]],"now",o.clocks.now, "known32",[int(o.clocks.known[0,w,32]) for w in range(12)])
    return r(self,wave,ctas,warps,here,barrier,rows,sync)
def acquired(self,wave,ctas,waiting,barrier,rows):
    a(self,wave,ctas,waiting,barrier,rows)
    o=self.orders[wave]; print("acquired",barrier,np.nonzero(waiting)[1],"now",o.clocks.now,"known of thread 32",[int(o.clocks.known[0,w,32]) for w in range(12)])
E.released,E.acquired=released,acquired
d=ob._did
def did(races,op,one,over,at):
    d(races,op,one,over,at); print("did",at and at.line,op.number,one.space,over, races.orders[op.batch.wave].clocks.now)
ob._did=did
from tilewright.sim.order.asynchronous.operations import Operations as O
w0=O.awaited
def aw(self,waiting):
    print("AW before",[(o.number,u.tolist()) for o,_,u in self.unawaited],waiting.effect.reads)
    yield from w0(self,waiting)
    print("AW after",[(o.number,u.tolist()) for o,_,u in self.unawaited])
O.awaited=aw
sys.path.insert(0,"scratch"); import t8
