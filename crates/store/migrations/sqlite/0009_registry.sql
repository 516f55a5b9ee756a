-- An engine elsewhere may have several addresses (a JSON array) and another name for the model than the served one.

ALTER TABLE registry ADD COLUMN urls TEXT NOT NULL DEFAULT '[]';
UPDATE registry SET urls = json_array(url);
ALTER TABLE registry DROP COLUMN url;
ALTER TABLE registry ADD COLUMN upstream_model TEXT;

-- What an engine elsewhere is, nobody knows: chats with one have no engine type.

ALTER TABLE chat_sessions ADD COLUMN engine TEXT;
UPDATE chat_sessions SET engine = engine_type;
ALTER TABLE chat_sessions DROP COLUMN engine_type;
ALTER TABLE chat_sessions RENAME COLUMN engine TO engine_type;
