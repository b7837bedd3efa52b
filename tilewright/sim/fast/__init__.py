"""Many small instructions as few large ones: the same values, one NumPy call for dozens of statements.

products, sums      runs of matrix products; the matrices that they are added to, late
loads               loops of small loads
"""
