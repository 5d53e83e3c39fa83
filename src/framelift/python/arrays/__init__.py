"""numpy: its arrays and scalars, and its functions on them."""

from . import functions, generators, values  # noqa: F401  (they fill the tables)
