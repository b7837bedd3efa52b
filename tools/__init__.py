"""What the project's own checks run: nothing here ships."""
