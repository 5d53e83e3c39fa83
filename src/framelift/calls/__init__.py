"""Which rule serves a call: the tables that map callables to substitutes and rules, and views of the calling frames."""
