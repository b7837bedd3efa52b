"""Many small instructions as few large ones: the same values, one NumPy call for dozens of statements.

products        runs of matrix products; matrices to which products are added late
loads           loops and runs of small loads
copies          copies that CTAs make alike
"""
