-- Which events are notes of iterations, to be found by project, by run and by their words: those stand here as they are
-- cut everywhere in taskdaemon (package words), with blanks between them.
CREATE TABLE notes (
  cursor  INTEGER PRIMARY KEY,
  task    INTEGER NOT NULL,
  project TEXT    NOT NULL,
  run     TEXT    NOT NULL,
  words   TEXT    NOT NULL
) STRICT;
CREATE INDEX notes_task ON notes (task);
CREATE INDEX notes_project ON notes (project);
CREATE INDEX notes_run ON notes (project, run);
