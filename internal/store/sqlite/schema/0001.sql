-- Times are nanoseconds since 1970, UTC. docs/journal.md explains every column.

CREATE TABLE tasks (
  n          INTEGER PRIMARY KEY,
  id         TEXT    NOT NULL UNIQUE,
  handle     TEXT    NOT NULL UNIQUE,
  state      TEXT    NOT NULL,
  dir        TEXT    NOT NULL,
  priority   INTEGER NOT NULL,
  created_at INTEGER NOT NULL,
  ended_at   INTEGER,
  trimmed    INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX tasks_state ON tasks (state, priority, created_at);
CREATE INDEX tasks_ended ON tasks (ended_at) WHERE ended_at IS NOT NULL;

-- What changes with every event is apart from what seldom does and from what never does.
CREATE TABLE lives (
  task   INTEGER PRIMARY KEY,
  newest INTEGER NOT NULL,
  live   BLOB    NOT NULL
) STRICT;
CREATE TABLE specs (
  task  INTEGER PRIMARY KEY,
  brief BLOB NOT NULL,
  spec  BLOB NOT NULL
) STRICT;

-- A task's events are a chain, from lives.newest back through prev. An index over (task, seq) would
-- cost every event a page of its own in the log, for each task has its own place in it.
CREATE TABLE events (
  cursor INTEGER PRIMARY KEY,
  task   INTEGER NOT NULL,
  seq    INTEGER NOT NULL,
  prev   INTEGER NOT NULL,
  epoch  INTEGER NOT NULL,
  at     INTEGER NOT NULL,
  type   TEXT    NOT NULL,
  takes  TEXT,
  blob   BLOB,
  size   INTEGER NOT NULL,
  body   BLOB
) STRICT;
CREATE INDEX events_blob ON events (blob) WHERE blob IS NOT NULL;

CREATE TABLE claims (
  task    INTEGER PRIMARY KEY,
  epoch   INTEGER NOT NULL,
  holder  TEXT,
  expires INTEGER NOT NULL
) STRICT;
CREATE INDEX claims_holder ON claims (holder) WHERE holder IS NOT NULL;

CREATE TABLE inbox (
  n        INTEGER PRIMARY KEY,
  task     INTEGER NOT NULL,
  key      TEXT    NOT NULL,
  command  BLOB    NOT NULL,
  consumed INTEGER,
  UNIQUE (task, key)
) STRICT;
CREATE INDEX inbox_pending ON inbox (task, n) WHERE consumed IS NULL;

CREATE TABLE requests (
  task   INTEGER NOT NULL,
  id     TEXT    NOT NULL,
  handle TEXT    NOT NULL,
  PRIMARY KEY (task, id)
) STRICT, WITHOUT ROWID;

CREATE TABLE keys (
  key  TEXT PRIMARY KEY,
  task INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE cursors (
  name TEXT PRIMARY KEY,
  at   INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE meta (
  key   TEXT PRIMARY KEY,
  value TEXT NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO meta VALUES ('clean', 'yes');
