-- Tokens that count towards token budgets, and calls whose usage was estimated or that a cassette answered.

ALTER TABLE spend ADD COLUMN estimated INTEGER NOT NULL DEFAULT 0;
ALTER TABLE spend ADD COLUMN replayed INTEGER NOT NULL DEFAULT 0;
ALTER TABLE spend ADD COLUMN tokens INTEGER NOT NULL DEFAULT 0;
CREATE INDEX spend_tree_tokens ON spend (tree, tokens);
ALTER TABLE spend_days ADD COLUMN tokens INTEGER NOT NULL DEFAULT 0;
ALTER TABLE reserved ADD COLUMN tokens INTEGER NOT NULL DEFAULT 0;
