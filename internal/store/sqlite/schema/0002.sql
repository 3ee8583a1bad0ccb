-- What steps in flight have leased, and who waits for it: taken from lives, to be found by resource.
CREATE TABLE leases (
  resource TEXT    NOT NULL,
  task     INTEGER NOT NULL,
  step     TEXT    NOT NULL,
  fence    INTEGER NOT NULL,
  PRIMARY KEY (resource, task, step)
) STRICT, WITHOUT ROWID;
CREATE INDEX leases_task ON leases (task);

CREATE TABLE waiters (
  resource TEXT    NOT NULL,
  ticket   INTEGER NOT NULL,
  task     INTEGER NOT NULL,
  PRIMARY KEY (resource, ticket)
) STRICT, WITHOUT ROWID;
CREATE INDEX waiters_task ON waiters (task);
