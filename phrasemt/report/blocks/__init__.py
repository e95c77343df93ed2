"""The blocks of the results table, one module for each kind of score."""
