-- What is asked for all the time, summed up as it changes: it must not take longer the more tasks have ended.

-- The ledger without its tasks. Caps of days and months are held against it, too.
CREATE TABLE spend_sums (
  day         TEXT    NOT NULL,
  model       TEXT    NOT NULL,
  cause       TEXT    NOT NULL,
  amount      INTEGER NOT NULL,
  calls       INTEGER NOT NULL,
  unpriced    INTEGER NOT NULL,
  input       INTEGER NOT NULL,
  output      INTEGER NOT NULL,
  cache_read  INTEGER NOT NULL,
  cache_write INTEGER NOT NULL,
  estimated   INTEGER NOT NULL,
  replayed    INTEGER NOT NULL,
  tokens      INTEGER NOT NULL,
  PRIMARY KEY (day, model, cause)
) STRICT, WITHOUT ROWID;
INSERT INTO spend_sums
  SELECT day, model, cause, sum(amount), sum(calls), sum(unpriced), sum(input), sum(output), sum(cache_read), sum(cache_write),
    sum(estimated), sum(replayed), sum(tokens)
  FROM spend GROUP BY day, model, cause;
DROP TABLE spend_days;

-- How many tasks are in each state.
CREATE TABLE counts (
  state TEXT    PRIMARY KEY,
  tasks INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO counts SELECT state, count(*) FROM tasks WHERE n > 0 GROUP BY state;
CREATE TRIGGER tasks_added AFTER INSERT ON tasks WHEN NEW.n > 0 BEGIN
  INSERT INTO counts VALUES (NEW.state, 1) ON CONFLICT DO UPDATE SET tasks = tasks + 1;
END;
CREATE TRIGGER tasks_moved AFTER UPDATE OF state ON tasks WHEN NEW.n > 0 AND NEW.state <> OLD.state BEGIN
  UPDATE counts SET tasks = tasks - 1 WHERE state = OLD.state;
  INSERT INTO counts VALUES (NEW.state, 1) ON CONFLICT DO UPDATE SET tasks = tasks + 1;
END;
