-- Which request asks to raise a budget of everybody, and the limit at which a person said that it stays.

ALTER TABLE caps ADD COLUMN asker INTEGER NOT NULL DEFAULT 0;
ALTER TABLE caps ADD COLUMN asked TEXT NOT NULL DEFAULT '';
ALTER TABLE caps ADD COLUMN kept INTEGER NOT NULL DEFAULT 0;
