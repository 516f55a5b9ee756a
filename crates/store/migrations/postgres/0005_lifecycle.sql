-- Of a model: why it failed last, what its container was made from, the last settings that got ready, and the apply that
-- is under way. JSON, read and written whole.
ALTER TABLE models ADD COLUMN diagnosis TEXT;
ALTER TABLE models ADD COLUMN launched TEXT;
ALTER TABLE models ADD COLUMN last_good TEXT;
ALTER TABLE models ADD COLUMN apply TEXT;
