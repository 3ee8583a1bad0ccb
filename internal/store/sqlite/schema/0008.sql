-- How many groups of calls were committed: the mark beside the journal says how many were acknowledged.
CREATE TABLE commits (
  one INTEGER PRIMARY KEY CHECK (one = 1),
  n   INTEGER NOT NULL
) STRICT;
INSERT INTO commits VALUES (1, 0);
