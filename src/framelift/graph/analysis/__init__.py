"""Questions about a finished tape: where a value comes from, what is written, which calls cannot fail."""
