-- Of a model: which life of the machine its last start began in, and when the gateway started it again by itself since
-- the operator's last command. JSON, read and written whole.
ALTER TABLE models ADD COLUMN starts TEXT;
