"""The verbs for people. Each module has `add_parser(verbs)`, which adds the verb with its function as `run`."""
