"""The variants of the reductions: from registers, from memory, and through shared memory."""
