"""Views of a vectorized environment, one module per library: import the one you need."""
