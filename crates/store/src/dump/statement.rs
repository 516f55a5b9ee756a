//! The statements that a dump may have besides its data. They are recognised and dropped: none of them is ever
//! executed, so that a dump can do nothing but fill tables.

use crate::dump::{
    header::MIGRATIONS,
    lexer::{Token, shown},
    schema::{elements, is_constraint},
};

/// What a statement means for the reader.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Statement {
    /// Lines of data follow.
    Copy { table: String, columns: Vec<String> },
    /// The number last given to a row; `None` if none was.
    Sequence { name: String, last: Option<i64> },
    /// The columns of a table in their order there.
    Columns { table: String, columns: Vec<String> },
    /// Nothing.
    Dropped,
}

/// Settings that `pg_dump` 13 to 18 writes at the top of a dump.
const SETTINGS: &[&str] = &[
    "statement_timeout",
    "lock_timeout",
    "idle_in_transaction_session_timeout",
    "transaction_timeout",
    "client_encoding",
    "standard_conforming_strings",
    "check_function_bodies",
    "xmloption",
    "client_min_messages",
    "row_security",
    "default_tablespace",
    "default_table_access_method",
];

/// The schema whose tables a dump has. All of them must lie in one.
#[derive(Debug, Default)]
pub(crate) struct Namespace(Option<String>);

impl Namespace {
    /// Reads the name of a table or a sequence with its schema in front, and returns it with the tokens after it.
    pub(crate) fn qualified<'a>(&mut self, tokens: &'a [Token]) -> Result<(&'a str, &'a [Token]), String> {
        let [schema, dot, name, rest @ ..] = tokens else { return Err("a name is missing".to_owned()) };
        let (Some(schema), true, Some(name)) = (schema.name(), dot.is_symbol('.'), name.name()) else {
            return Err("a name must be written as in `public.usage`".to_owned());
        };
        self.check(schema)?;
        Ok((name, rest))
    }

    /// Reads a name as [`Self::qualified`] does, from a text.
    fn qualified_text<'a>(&mut self, text: &'a str) -> Result<&'a str, String> {
        let (schema, name) = text.split_once('.').ok_or("a name must be written as in `public.usage`")?;
        self.check(schema.trim_matches('"'))?;
        Ok(name.trim_matches('"'))
    }

    fn check(&mut self, schema: &str) -> Result<(), String> {
        let known = self.0.get_or_insert_with(|| schema.to_owned());
        if known == schema {
            return Ok(());
        }
        Err(format!(
            "the schema `{}`: all of a dump must lie in one schema, here `{}`",
            shown(schema),
            shown(known)
        ))
    }
}

/// Reads a statement of our own dumps.
pub(crate) fn own(tokens: &[Token], namespace: &mut Namespace) -> Result<Statement, String> {
    match tokens {
        [copy, rest @ ..] if copy.is("copy") => read_copy(rest, namespace),
        [select, rest @ ..] if select.is("select") => read_select(rest, namespace),
        _ => Err(refused(tokens)),
    }
}

/// Reads a statement of `pg_dump`.
pub(crate) fn foreign(tokens: &[Token], namespace: &mut Namespace) -> Result<Statement, String> {
    let dropped = |found: bool| if found { Ok(Statement::Dropped) } else { Err(refused(tokens)) };
    let [first, rest @ ..] = tokens else { return Err("an empty statement".to_owned()) };
    let word = |at: usize, word: &str| tokens.get(at).is_some_and(|it| it.is(word));
    match first {
        it if it.is("copy") => read_copy(rest, namespace),
        it if it.is("select") => read_select(rest, namespace),
        it if it.is("set") => read_set(rest).map(|()| Statement::Dropped),
        it if it.is("create") && word(1, "table") => read_create_table(&tokens[2..], namespace),
        it if it.is("create") && word(1, "index") => read_index(&tokens[2..], namespace),
        it if it.is("create") && word(1, "unique") && word(2, "index") => read_index(&tokens[3..], namespace),
        it if it.is("create") && word(1, "sequence") => {
            namespace.qualified(&tokens[2..])?;
            Ok(Statement::Dropped)
        }
        it if it.is("create") && word(1, "schema") => {
            dropped(tokens.len() == 3 && tokens[2].name().is_some())
        }
        it if it.is("alter") && word(1, "schema") => {
            dropped(word(3, "owner") && word(4, "to") && tokens.len() == 6)
        }
        it if it.is("alter") && word(1, "sequence") => {
            let (_, change) = namespace.qualified(&tokens[2..])?;
            dropped(begins(change, &["owner", "to"]) || begins(change, &["owned", "by"]))
        }
        it if it.is("alter") && word(1, "table") => dropped(read_alter_table(&tokens[2..], namespace)?),
        it if it.is("comment") => {
            let text = matches!(tokens.last(), Some(Token::Text(_)));
            dropped(word(1, "on") && word(2, "schema") && word(4, "is") && text && tokens.len() == 6)
        }
        _ => Err(refused(tokens)),
    }
}

fn begins(tokens: &[Token], words: &[&str]) -> bool {
    tokens.len() >= words.len() && tokens.iter().zip(words).all(|(token, word)| token.is(word))
}

fn refused(tokens: &[Token]) -> String {
    let words: Vec<&str> = tokens.iter().take(3).map_while(Token::name).collect();
    let hint = match words.first() {
        Some(&"drop") => ": write the dump without --clean",
        Some(&"grant" | &"revoke") => ": write the dump with --no-privileges",
        Some(it) if it.starts_with("pgdmp") => ": write the dump with --format=plain",
        _ => "",
    };
    let what = if words.is_empty() {
        tokens.first().map_or_else(|| "an empty statement".to_owned(), ToString::to_string)
    } else {
        format!("`{}`", shown(&words.join(" ").to_ascii_uppercase()))
    };
    format!("{what} is no statement that a dump of Gantry has{hint}")
}

/// `COPY public.t (a, b) FROM stdin`, without its first word.
fn read_copy(tokens: &[Token], namespace: &mut Namespace) -> Result<Statement, String> {
    let (table, rest) = namespace.qualified(tokens)?;
    let (columns, rest) = names(rest)?;
    match rest {
        [from, stdin] if from.is("from") && stdin.is("stdin") => {
            Ok(Statement::Copy { table: table.to_owned(), columns })
        }
        _ => Err("COPY must end with `FROM stdin`".to_owned()),
    }
}

/// Reads names in parentheses, and returns them with the tokens after them.
pub(crate) fn names(tokens: &[Token]) -> Result<(Vec<String>, &[Token]), String> {
    let wrong = || "a list of columns is expected".to_owned();
    let lists = elements(tokens).ok_or_else(wrong)?;
    let name = |it: &&[Token]| match it {
        [one] => one.name().map(str::to_owned),
        _ => None,
    };
    let names: Vec<String> = lists.iter().map(name).collect::<Option<_>>().ok_or_else(wrong)?;
    Ok((names, &tokens[2 * lists.len() + 1..]))
}

/// The two calls that a dump has, without the first word.
fn read_select(tokens: &[Token], namespace: &mut Namespace) -> Result<Statement, String> {
    let unknown = || "`SELECT` of anything but `pg_catalog.set_config` and `pg_catalog.setval`".to_owned();
    let [catalog, dot, function, arguments @ ..] = tokens else { return Err(unknown()) };
    if !catalog.is("pg_catalog") || !dot.is_symbol('.') {
        return Err(unknown());
    }
    let (Some(arguments_list), Some(close)) = (elements(arguments), arguments.last()) else {
        return Err(unknown());
    };
    let length: usize = arguments_list.iter().map(|it| it.len()).sum();
    if !close.is_symbol(')') || length + arguments_list.len() + 1 != arguments.len() {
        return Err(unknown());
    }
    match arguments_list.as_slice() {
        [[Token::Text(name)], [Token::Text(value)], [local]]
            if function.is("set_config")
                && name == "search_path"
                && value.is_empty()
                && local.is("false") =>
        {
            Ok(Statement::Dropped)
        }
        [[Token::Text(sequence)], [Token::Number(last)], [called]]
            if function.is("setval") && (called.is("true") || called.is("false")) =>
        {
            let name = namespace.qualified_text(sequence)?.to_owned();
            let last = last.parse::<i64>().ok().filter(|it| *it > 0);
            let last = last.ok_or("`setval` takes a number from 1 on")?;
            Ok(Statement::Sequence { name, last: called.is("true").then_some(last) })
        }
        _ => Err(unknown()),
    }
}

/// `SET name = value`, without its first word.
fn read_set(tokens: &[Token]) -> Result<(), String> {
    let [name, equals, value] = tokens else { return Err("`SET` of an unknown form".to_owned()) };
    let name = name.name().filter(|it| SETTINGS.contains(it) && equals.is_symbol('='));
    let name = name.ok_or("`SET` of a setting that no dump has")?;
    match (name, value) {
        ("client_encoding", Token::Text(it)) if it == "UTF8" => Ok(()),
        ("client_encoding", _) => Err("the dump must be written with `--encoding=UTF8`".to_owned()),
        ("standard_conforming_strings", it) if !it.is("on") => {
            Err("`standard_conforming_strings` must be `on`".to_owned())
        }
        (_, Token::Symbol(_)) => Err("`SET` of an unknown form".to_owned()),
        _ => Ok(()),
    }
}

/// What follows `CREATE TABLE`.
fn read_create_table(tokens: &[Token], namespace: &mut Namespace) -> Result<Statement, String> {
    let (table, list) = namespace.qualified(tokens)?;
    let parts = elements(list).ok_or("`CREATE TABLE` without a list of columns")?;
    let length: usize = parts.iter().map(|it| it.len() + 1).sum::<usize>() + 1;
    if !list[length..].is_empty() && !begins(&list[length..], &["with"]) {
        return Err("`CREATE TABLE` with more than columns and constraints".to_owned());
    }
    let name = |it: &&&[Token]| it.first().and_then(Token::name).map(str::to_owned);
    let columns: Option<Vec<String>> =
        parts.iter().filter(|it| !is_constraint(it)).map(|it| name(&it)).collect();
    let columns = columns.ok_or("`CREATE TABLE` with a column without a name")?;
    Ok(Statement::Columns { table: table.to_owned(), columns })
}

/// What follows `CREATE INDEX`.
fn read_index(tokens: &[Token], namespace: &mut Namespace) -> Result<Statement, String> {
    let [name, on, rest @ ..] = tokens else { return Err("`CREATE INDEX` without a table".to_owned()) };
    if name.name().is_none() || !on.is("on") {
        return Err("`CREATE INDEX` of an unknown form".to_owned());
    }
    let rest = if begins(rest, &["only"]) { &rest[1..] } else { rest };
    namespace.qualified(rest)?;
    Ok(Statement::Dropped)
}

/// What follows `ALTER TABLE`. Returns whether the change is one that may be dropped.
fn read_alter_table(tokens: &[Token], namespace: &mut Namespace) -> Result<bool, String> {
    let rest = if begins(tokens, &["only"]) { &tokens[1..] } else { tokens };
    let (_, change) = namespace.qualified(rest)?;
    if begins(change, &["owner", "to"]) {
        return Ok(change.len() == 3);
    }
    if begins(change, &["add", "constraint"]) {
        return Ok(true);
    }
    let [alter, column, _, what @ ..] = change else { return Ok(false) };
    let generated = begins(what, &["add", "generated"]);
    let set = ["storage", "statistics", "compression"]
        .iter()
        .any(|it| begins(what, &["set", it]) && what.len() == 3);
    Ok(alter.is("alter") && column.is("column") && (generated || set))
}

/// Returns the table whose key a sequence counts up: `orgs` for `orgs_id_seq`.
pub(crate) fn counted_table(sequence: &str) -> Option<&str> {
    sequence.strip_suffix("_id_seq").filter(|it| *it != MIGRATIONS)
}
