-- The ledger of what models cost. Amounts are millionths of a dollar; days are text like 2026-11-15.

CREATE TABLE spend (
  task        INTEGER NOT NULL,
  day         TEXT    NOT NULL,
  model       TEXT    NOT NULL,
  cause       TEXT    NOT NULL,
  tree        INTEGER NOT NULL,
  amount      INTEGER NOT NULL,
  calls       INTEGER NOT NULL,
  unpriced    INTEGER NOT NULL,
  input       INTEGER NOT NULL,
  output      INTEGER NOT NULL,
  cache_read  INTEGER NOT NULL,
  cache_write INTEGER NOT NULL,
  PRIMARY KEY (task, day, model, cause)
) STRICT, WITHOUT ROWID;
CREATE INDEX spend_tree ON spend (tree, amount);

-- The sums that caps of days and months are held against: adding up every task's would take too long.
CREATE TABLE spend_days (
  day    TEXT PRIMARY KEY,
  amount INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE reserved (
  task   INTEGER NOT NULL,
  step   TEXT    NOT NULL,
  tree   INTEGER NOT NULL,
  day    TEXT    NOT NULL,
  amount INTEGER NOT NULL,
  PRIMARY KEY (task, step)
) STRICT, WITHOUT ROWID;

-- What people said about caps: how far they were raised, and what they were told.
CREATE TABLE caps (
  scope  TEXT NOT NULL,
  key    TEXT NOT NULL,
  raised INTEGER NOT NULL,
  warned INTEGER NOT NULL,
  PRIMARY KEY (scope, key)
) STRICT, WITHOUT ROWID;

-- What earlier versions recorded, task by task: booked to the day of the task's last record.
INSERT INTO spend
  SELECT t.n, substr(CAST(l.live AS TEXT) ->> '$.updated_at', 1, 10),
    coalesce(CAST(l.live AS TEXT) ->> '$.last_model', 'unknown'), 'turn',
    coalesce((SELECT p.n FROM tasks p WHERE p.id = CAST(s.brief AS TEXT) ->> '$.parent'), t.n),
    min(CAST(l.live AS TEXT) ->> '$.cost', 1000000000000), CAST(l.live AS TEXT) ->> '$.turns', 0,
    min(CAST(l.live AS TEXT) ->> '$.usage.input', 1000000000000), min(CAST(l.live AS TEXT) ->> '$.usage.output', 1000000000000),
    min(coalesce(CAST(l.live AS TEXT) ->> '$.usage.cache_read', 0), 1000000000000),
    min(coalesce(CAST(l.live AS TEXT) ->> '$.usage.cache_write', 0), 1000000000000)
  FROM tasks t JOIN lives l ON l.task = t.n JOIN specs s ON s.task = t.n
  WHERE CAST(l.live AS TEXT) ->> '$.cost' > 0;
INSERT INTO spend_days SELECT day, sum(amount) FROM spend GROUP BY day;
