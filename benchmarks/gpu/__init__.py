"""What only a GPU can answer: speed against its limits, and what its memories do. ``make bench-gpu`` runs all of it."""
