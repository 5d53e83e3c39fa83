"""numpy: its arrays, scalars and generators of random numbers, and its functions on them."""

from . import functions, generators, values  # noqa: F401  (they fill the tables)
