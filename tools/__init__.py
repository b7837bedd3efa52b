"""Programs for the project's own checks and pages: nothing here ships."""
