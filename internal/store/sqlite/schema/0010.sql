-- What happened, tallied by slots of ten minutes as records are written (td.Tally): stats of a day must not take longer the more tasks
-- ended in it.
CREATE TABLE tallies (
  slot        INTEGER NOT NULL,
  type        TEXT    NOT NULL,
  kind        TEXT    NOT NULL,
  name        TEXT    NOT NULL,
  took        INTEGER NOT NULL,
  count       INTEGER NOT NULL,
  failed      INTEGER NOT NULL,
  calls       INTEGER NOT NULL,
  input       INTEGER NOT NULL,
  output      INTEGER NOT NULL,
  cache_read  INTEGER NOT NULL,
  cache_write INTEGER NOT NULL,
  cost        INTEGER NOT NULL,
  PRIMARY KEY (slot, type, kind, name, took)
) STRICT, WITHOUT ROWID;
