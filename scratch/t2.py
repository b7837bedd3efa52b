from t import *
try: case(m=256); print("ok full")
except Exception as e: print(e)
try: case(m=256,causal=True); print("ok causal")
except Exception as e: print(e)
try: case(m=256,h=2); print("ok 2 heads")
except Exception as e: print(e)
try: case(m=128,h=2,hk=1); print("ok group")
except Exception as e: print(e)
