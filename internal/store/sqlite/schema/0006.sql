-- What the records of the daemon's own stream say of runs over graphs, by name; first is the cursor of the oldest record.
CREATE TABLE runs (
  name    TEXT    PRIMARY KEY,
  project TEXT    NOT NULL,
  first   INTEGER NOT NULL,
  open    INTEGER NOT NULL,
  run     BLOB    NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX runs_open ON runs (first) WHERE open;
