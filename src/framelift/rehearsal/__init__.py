"""A rehearsal: the session that joins boundary, recording and substitutes, and the rule for every call."""
