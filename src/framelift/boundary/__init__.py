"""The only way from the outside world into a rehearsal: every external object is imported here, with guards."""
