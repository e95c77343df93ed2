"""Commands for users, such as `phrasemt status`. The function `add_parser` of each module adds one command."""
