-- An engine elsewhere may have several addresses (a JSON array) and another name for the model than the served one.

ALTER TABLE registry ADD COLUMN urls TEXT NOT NULL DEFAULT '[]';
UPDATE registry SET urls = json_build_array(url)::text;
ALTER TABLE registry DROP COLUMN url;
ALTER TABLE registry ADD COLUMN upstream_model TEXT;

-- What an engine elsewhere is, nobody knows: chats with one have no engine type.

ALTER TABLE chat_sessions ALTER COLUMN engine_type DROP NOT NULL;
