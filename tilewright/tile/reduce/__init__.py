"""The variants of the reductions: from registers, from memory, and by way of shared memory."""
