//! Which tables and columns each version of the schema has, read from the migrations of Postgres, whose types say more
//! than those of SQLite. A test compares this with the catalogs of both databases.

use crate::{
    dump::lexer::{Lexer, Token},
    migrate,
};

/// What a column holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// 64 bits.
    BigInt,
    /// 32 bits.
    Integer,
    Boolean,
    Text,
    Bytes,
    /// 16 bytes.
    Uuid,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Column {
    pub(crate) name: String,
    pub(crate) kind: Kind,
    pub(crate) nullable: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Table {
    pub(crate) name: String,
    pub(crate) columns: Vec<Column>,
    /// Index of the column that is the primary key.
    pub(crate) key: usize,
    /// Whether the database counts up the primary key.
    pub(crate) counts: bool,
}

impl Table {
    /// Returns the index of a column.
    pub(crate) fn column(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|it| it.name == name)
    }

    /// Returns the names of the columns for a statement.
    pub(crate) fn column_list(&self) -> String {
        self.columns.iter().map(|it| it.name.as_str()).collect::<Vec<_>>().join(", ")
    }
}

/// The tables of one version, by name, without the one that holds the version itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Schema {
    pub(crate) tables: Vec<Table>,
}

/// What in a migration this reader does not understand. A test reads all migrations.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("migration {version} has a statement that is not understood: {what}")]
pub(crate) struct Unclear {
    version: i64,
    what: String,
}

impl Schema {
    /// Returns the schema of a version; one without tables for a version that this program does not know.
    pub(crate) fn at(version: i64) -> Result<Self, Unclear> {
        let mut schema = Self::default();
        for (number, text) in migrate::postgres_texts().filter(|it| it.0 <= version) {
            let unclear = |what: String| Unclear { version: number, what };
            let code: String =
                text.lines().filter(|it| !it.trim_start().starts_with("--")).collect::<Vec<_>>().join("\n");
            let mut lexer = Lexer::new(code.as_bytes());
            while lexer
                .skip_blanks()
                .and_then(|()| lexer.peek())
                .map_err(|it| unclear(it.to_string()))?
                .is_some()
            {
                let tokens = lexer.statement().map_err(|it| unclear(it.to_string()))?;
                schema.apply(&tokens).ok_or_else(|| unclear(format!("{tokens:?}")))?;
            }
        }
        schema.tables.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(schema)
    }

    /// Returns the index of a table.
    pub(crate) fn index(&self, name: &str) -> Option<usize> {
        self.tables.iter().position(|it| it.name == name)
    }

    fn apply(&mut self, tokens: &[Token]) -> Option<()> {
        let words: Vec<&str> = tokens.iter().map(|it| it.name().unwrap_or_default()).collect();
        match words.as_slice() {
            ["create", "table", name, ..] => {
                let table = new_table(name, tokens.get(3..)?)?;
                self.tables.push(table);
            }
            ["alter", "table", name, "add", "column", ..] => {
                let column = column(tokens.get(5..)?)?;
                self.table(name)?.columns.push(column);
            }
            ["alter", "table", name, "drop", "column", column] => {
                let table = self.table(name)?;
                let at = table.column(column)?;
                table.columns.remove(at);
                table.key -= usize::from(at < table.key);
            }
            ["alter", "table", name, "alter", "column", column, "drop", "not", "null"] => {
                let table = self.table(name)?;
                let at = table.column(column)?;
                table.columns[at].nullable = true;
            }
            ["alter", "table", _, "alter", "column", _, "set", "storage", _]
            | ["create", "index", ..]
            | ["create", "unique", "index", ..]
            | ["drop", "index", _]
            | ["insert" | "update", ..] => {}
            _ => return None,
        }
        Some(())
    }

    fn table(&mut self, name: &str) -> Option<&mut Table> {
        self.tables.iter_mut().find(|it| it.name == name)
    }
}

fn new_table(name: &str, list: &[Token]) -> Option<Table> {
    let (mut columns, mut key, mut counts) = (Vec::new(), None, false);
    for element in elements(list)? {
        if is_constraint(element) {
            continue;
        }
        let has = |word: &str| element.iter().any(|it| it.is(word));
        if has("primary") {
            key = Some(columns.len());
            counts = has("identity");
        }
        columns.push(column(element)?);
    }
    Some(Table { name: name.to_owned(), columns, key: key?, counts })
}

/// Reads a column's name, type and whether it may be NULL.
fn column(element: &[Token]) -> Option<Column> {
    let kind = match element.get(1)? {
        Token::Word(it) => match it.as_str() {
            "bigint" => Kind::BigInt,
            "integer" => Kind::Integer,
            "boolean" => Kind::Boolean,
            "text" => Kind::Text,
            "bytea" => Kind::Bytes,
            "uuid" => Kind::Uuid,
            _ => return None,
        },
        _ => return None,
    };
    let not_null = element.windows(2).any(|it| it[0].is("not") && it[1].is("null"));
    let identity = element.iter().any(|it| it.is("identity"));
    Some(Column { name: element[0].name()?.to_owned(), kind, nullable: !not_null && !identity })
}

/// Splits what stands in the parentheses of `CREATE TABLE` at its outer commas. Tokens after the closing parenthesis are
/// left to the caller.
pub(crate) fn elements(list: &[Token]) -> Option<Vec<&[Token]>> {
    if !list.first()?.is_symbol('(') {
        return None;
    }
    let (mut depth, mut start, mut found) = (0_usize, 1, Vec::new());
    for (at, token) in list.iter().enumerate() {
        match token {
            Token::Symbol('(') => depth += 1,
            Token::Symbol(')') if depth == 1 => {
                found.push(&list[start..at]);
                return found.iter().all(|it| !it.is_empty()).then_some(found);
            }
            Token::Symbol(')') => depth -= 1,
            Token::Symbol(',') if depth == 1 => {
                found.push(&list[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    None
}

/// Returns whether an element of `CREATE TABLE` is a constraint and not a column.
pub(crate) fn is_constraint(element: &[Token]) -> bool {
    const BEGIN: [&str; 6] = ["constraint", "check", "foreign", "primary", "unique", "exclude"];
    BEGIN.iter().any(|it| element.first().is_some_and(|first| first.is(it)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_migration_is_understood() {
        let newest = migrate::postgres_texts().last().unwrap().0;
        for version in 1..=newest {
            assert!(!Schema::at(version).unwrap().tables.is_empty());
        }
        let first = Schema::at(1).unwrap();
        let registry = &first.tables[first.index("registry").unwrap()];
        assert!(registry.column("url").is_some() && !registry.counts && registry.key == 0);
        let now = Schema::at(newest).unwrap();
        let registry = &now.tables[now.index("registry").unwrap()];
        assert!(registry.column("url").is_none() && registry.column("urls").is_some());
        let usage = &now.tables[now.index("usage").unwrap()];
        assert_eq!(usage.columns[0].kind, Kind::Uuid);
        assert!(!usage.columns[0].nullable && usage.columns[usage.column("key_id").unwrap()].nullable);
        let chats = &now.tables[now.index("chat_sessions").unwrap()];
        assert!(chats.columns[chats.column("engine_type").unwrap()].nullable);
        assert_eq!(chats.columns[chats.column("pinned").unwrap()].kind, Kind::Boolean);
        assert!(now.tables[now.index("orgs").unwrap()].counts);
        assert_eq!(Schema::at(0).unwrap(), Schema::default());
    }
}
