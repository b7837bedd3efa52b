"""Many small instructions as few large ones: the same values, one NumPy call for dozens of statements.

products            runs of matrix products
loads               loops of small loads
"""
