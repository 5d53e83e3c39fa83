"""Functions that run in place of a callable while a frame is rehearsed, by the library the callable belongs to.

A substitute gives the answer that the callable would give, reads external objects through the boundary, and writes
to nothing but values that were made inside the rehearsal.
"""
