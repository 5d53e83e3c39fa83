"""From a torch call to a recorded step: arguments, metadata of the result, writes, and what is known of values."""
