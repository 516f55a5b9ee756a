//! Reads a dump row by row: one of ours, or one of `pg_dump`. Strict: whatever is not expected is refused with its
//! line, and no statement of the dump is ever executed.

use std::io::Read;

use crate::{
    Proof,
    dump::{
        filter::Filter,
        header::{DumpHeader, DumpKind, FORMAT, HEADER, PG_DUMP_END, TRAILER},
        lexer::{DumpError, Lexer, ROW_LIMIT, STATEMENT_LIMIT, Token, shown},
        packed,
        proof::Tally,
        row::Row,
        schema::{Column, Kind, Schema, Table},
        statement::{self, Namespace, Statement},
        tables::{Tables, Target},
    },
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Between,
    Copy(Target),
    Insert(Target),
    Done,
}

/// A dump that is being read.
pub(crate) struct Reader<R> {
    lexer: Lexer<R>,
    state: State,
    header: Option<DumpHeader>,
    tables: Tables,
    /// Made once the tables are known.
    counting: Option<(Filter, Tally)>,
    namespace: Namespace,
    /// For each value of a row in the dump, the index of its column.
    order: Vec<usize>,
    row: Row,
    text: String,
    /// The line in which the statement began.
    began: u64,
    pg_dump_ended: bool,
}

impl<R: Read> Reader<R> {
    /// Reads the first line.
    ///
    /// # Errors
    /// It is the first line of a dump of another format or version, or the dump is packed.
    pub(crate) fn new(from: R) -> Result<Self, DumpError> {
        let mut reader = Self {
            lexer: Lexer::new(from),
            state: State::Between,
            header: None,
            tables: Tables::new(),
            counting: None,
            namespace: Namespace::default(),
            order: Vec::new(),
            row: Row::default(),
            text: String::new(),
            began: 1,
            pg_dump_ended: false,
        };
        if let Some(what) = packed::named(reader.lexer.beginning()) {
            return Err(reader.refused(what));
        }
        if reader.lexer.peek()? == Some(b'-') {
            reader.first_line()?;
        }
        Ok(reader)
    }

    pub(crate) fn kind(&self) -> DumpKind {
        if self.header.is_some() { DumpKind::Gantry } else { DumpKind::PgDump }
    }

    pub(crate) fn header(&self) -> Option<&DumpHeader> {
        self.header.as_ref()
    }

    /// Returns the version of the schema, if it is known yet; it is before the first row.
    pub(crate) fn version(&self) -> Option<i64> {
        self.tables.version()
    }

    /// Returns the tables of the dump; none before the version is known.
    pub(crate) fn schema(&self) -> &Schema {
        self.tables.schema()
    }

    /// Returns the row that [`Self::next_row`] read.
    pub(crate) fn row(&self) -> &Row {
        &self.row
    }

    /// Returns the number of the line after the one that was read last.
    pub(crate) fn line(&self) -> u64 {
        self.lexer.line()
    }

    /// Returns what was counted so far, and which rows of it a gateway could not read.
    pub(crate) fn proof(&self) -> (Proof, Vec<String>) {
        let Some((_, tally)) = &self.counting else { return Default::default() };
        (tally.proof(self.schema()), tally.unreadable(self.schema()))
    }

    /// Reads the next row, and returns the index of its table in [`Self::schema`]; `None` after the last one. Rows that
    /// belong to the gateway that runs on a database are left out.
    ///
    /// # Errors
    /// The dump is not accepted, or it is not complete.
    pub(crate) fn next_row(&mut self) -> Result<Option<usize>, DumpError> {
        loop {
            let target = match self.state {
                State::Done => return Ok(None),
                State::Between => {
                    self.next_statement()?;
                    continue;
                }
                State::Copy(target) => {
                    if !self.copy_row(target)? {
                        self.state = State::Between;
                        continue;
                    }
                    target
                }
                State::Insert(target) => {
                    self.insert_row(target)?;
                    target
                }
            };
            match target {
                Target::Migrations => self.tables.note_version(&self.row),
                Target::Table(table) => {
                    if self.count(table) {
                        return Ok(Some(table));
                    }
                }
            }
        }
    }

    /// Counts the row, unless it is left out.
    fn count(&mut self, table: usize) -> bool {
        let row = std::mem::take(&mut self.row);
        let (filter, tally) = self.counting();
        let kept = !filter.leaves_out(table, &row);
        if kept {
            tally.add(table, &row);
        }
        self.row = row;
        kept
    }

    fn counting(&mut self) -> &mut (Filter, Tally) {
        let schema = self.tables.schema();
        self.counting.get_or_insert_with(|| (Filter::new(schema), Tally::new(schema)))
    }

    fn refused(&self, why: impl Into<String>) -> DumpError {
        self.lexer.refused(why)
    }

    /// Refuses a statement that was read to its end.
    fn refused_statement(&self, why: String) -> DumpError {
        DumpError::Refused { line: self.began, why }
    }

    fn first_line(&mut self) -> Result<(), DumpError> {
        let mut line = String::new();
        self.lexer.rest_of_line(&mut line)?;
        let wrong = |why: String| DumpError::Refused { line: 1, why };
        let Some(json) = line.strip_prefix(HEADER) else {
            return if line.starts_with("--") { Ok(()) } else { Err(wrong(no_comment())) };
        };
        let header: DumpHeader = serde_json::from_str(json)
            .map_err(|it| wrong(format!("the header of the dump is damaged: {it}")))?;
        if header.format != FORMAT {
            let why = format!("format {} of dumps: this program reads format {FORMAT}", header.format);
            return Err(wrong(why));
        }
        self.tables.set_version(header.schema_version).map_err(wrong)?;
        self.header = Some(header);
        Ok(())
    }

    fn next_statement(&mut self) -> Result<(), DumpError> {
        self.lexer.skip_blanks()?;
        self.began = self.lexer.line();
        match self.lexer.peek()? {
            None => self.end(),
            Some(b'-') => self.comment(),
            Some(b'\\') => self.backslash(),
            Some(_) => {
                let first = self.lexer.token(&mut { STATEMENT_LIMIT })?;
                if first.is("insert") && self.kind() == DumpKind::PgDump {
                    return self.insert();
                }
                let mut tokens = vec![first];
                if !tokens[0].is_symbol(';') {
                    tokens.extend(self.lexer.statement()?);
                }
                self.statement(&tokens)
            }
        }
    }

    fn comment(&mut self) -> Result<(), DumpError> {
        let mut line = String::new();
        self.lexer.rest_of_line(&mut line)?;
        if !line.starts_with("--") {
            return Err(self.refused_statement(no_comment()));
        }
        if self.kind() == DumpKind::PgDump {
            self.pg_dump_ended |= line == PG_DUMP_END;
            return Ok(());
        }
        let Some(json) = line.strip_prefix(TRAILER) else { return Ok(()) };
        self.trailer(json).map_err(|why| self.refused_statement(why))?;
        self.lexer.skip_blanks()?;
        if self.lexer.peek()?.is_some() {
            return Err(self.refused("more text after the end of the dump"));
        }
        self.state = State::Done;
        Ok(())
    }

    /// Compares what was read with what the writer counted.
    fn trailer(&mut self, json: &str) -> Result<(), String> {
        let written: Proof =
            serde_json::from_str(json).map_err(|it| format!("the last line of the dump is damaged: {it}"))?;
        self.tables.complete()?;
        self.counting();
        let (read, _) = self.proof();
        let mut differences = written.differences(&read);
        if !written.rows.keys().chain(written.digests.keys()).eq(read.rows.keys().chain(read.digests.keys()))
        {
            differences.push("its tables".to_owned());
        }
        if differences.is_empty() {
            return Ok(());
        }
        differences.truncate(5);
        let differences = differences.join("; ");
        Err(format!("the dump was changed after it was written, as its last line shows: {differences}"))
    }

    /// A line of `psql`: the two that `pg_dump` writes since its releases of August 2025 are dropped.
    fn backslash(&mut self) -> Result<(), DumpError> {
        let at_start = self.lexer.is_at_start();
        let mut line = String::new();
        self.lexer.rest_of_line(&mut line)?;
        let word = line.strip_prefix("\\restrict ").or_else(|| line.strip_prefix("\\unrestrict "));
        let plain = word.is_some_and(|it| !it.is_empty() && it.bytes().all(|it| it.is_ascii_alphanumeric()));
        if plain && at_start && self.kind() == DumpKind::PgDump {
            return Ok(());
        }
        let why = format!("`{}` is a command of psql, which no dump of Gantry has", shown(&line));
        Err(self.refused_statement(why))
    }

    fn statement(&mut self, tokens: &[Token]) -> Result<(), DumpError> {
        let read = match self.kind() {
            DumpKind::Gantry => statement::own(tokens, &mut self.namespace),
            DumpKind::PgDump => statement::foreign(tokens, &mut self.namespace),
        };
        let read = read.and_then(|it| self.take(it));
        let copies = read.map_err(|why| self.refused_statement(why))?;
        if copies {
            let mut rest = String::new();
            self.lexer.rest_of_line(&mut rest)?;
            if !rest.is_empty() {
                return Err(self.refused_statement("more text in the line of a COPY".to_owned()));
            }
        }
        Ok(())
    }

    /// Does what a statement means; `true` if data follow in lines.
    fn take(&mut self, statement: Statement) -> Result<bool, String> {
        match statement {
            Statement::Dropped => {}
            Statement::Columns { table, columns } => self.tables.create(table, columns)?,
            Statement::Sequence { name, last } => {
                let table = self.tables.counted(&name)?;
                if let Some(last) = last {
                    self.counting().1.sequence(table, last);
                }
            }
            Statement::Copy { table, columns } => {
                let (target, order) = self.tables.target(&table, Some(&columns))?;
                self.tables.copy_into(target)?;
                self.order = order;
                self.state = State::Copy(target);
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Reads a line of COPY; `false` at the end of the data.
    fn copy_row(&mut self, target: Target) -> Result<bool, DumpError> {
        let mut text = std::mem::take(&mut self.text);
        let number = self.lexer.rest_of_line(&mut text)?;
        let Some(line) = number else {
            return Err(self.refused("the dump ends within the data of a table: it is cut off"));
        };
        let more = text != "\\.";
        if more {
            self.copy_values(target, &text).map_err(|why| DumpError::Refused { line, why })?;
        }
        self.text = text;
        Ok(more)
    }

    fn copy_values(&mut self, target: Target, line: &str) -> Result<(), String> {
        if line.contains('\r') {
            return Err("a carriage return in the data".to_owned());
        }
        let Self { tables, row, order, .. } = self;
        let table = tables.table(target);
        let wrong_number = || format!("a row of `{}` must have {} values", table.name, table.columns.len());
        row.clear(table.columns.len());
        let mut fields = line.split('\t');
        for at in order.iter().copied() {
            let column = &table.columns[at];
            let field = fields.next().ok_or_else(wrong_number)?;
            row.parse_copy(at, column.kind, field).map_err(|it| unfit(table, column, &it, field))?;
        }
        if fields.next().is_some() { Err(wrong_number()) } else { not_missing(row, table) }
    }

    /// Reads what follows `INSERT`, up to its rows.
    fn insert(&mut self) -> Result<(), DumpError> {
        let mut left = STATEMENT_LIMIT;
        let mut tokens = Vec::new();
        loop {
            match self.lexer.token(&mut left)? {
                it if it.is("values") => break,
                Token::Symbol(';') => return Err(self.refused("`INSERT` without `VALUES`")),
                it => tokens.push(it),
            }
        }
        let found = self.insert_target(&tokens);
        let (target, order) = found.map_err(|why| self.refused_statement(why))?;
        self.order = order;
        self.state = State::Insert(target);
        Ok(())
    }

    fn insert_target(&mut self, tokens: &[Token]) -> Result<(Target, Vec<usize>), String> {
        let unknown = || "`INSERT` of an unknown form".to_owned();
        let [into, rest @ ..] = tokens else { return Err(unknown()) };
        if !into.is("into") {
            return Err(unknown());
        }
        let (table, rest) = self.namespace.qualified(rest)?;
        if rest.is_empty() {
            return self.tables.target(table, None);
        }
        let (columns, rest) = statement::names(rest)?;
        if rest.is_empty() { self.tables.target(table, Some(&columns)) } else { Err(unknown()) }
    }

    /// Reads one row of an INSERT, and whether another one follows.
    fn insert_row(&mut self, target: Target) -> Result<(), DumpError> {
        let mut left = ROW_LIMIT;
        self.expect('(', &mut left)?;
        self.row.clear(self.tables.table(target).columns.len());
        for n in 0..self.order.len() {
            if n > 0 {
                self.expect(',', &mut left)?;
            }
            let first = self.lexer.token(&mut left)?;
            let negative = first.is_symbol('-');
            let token = if negative { self.lexer.token(&mut left)? } else { first };
            let put = self.insert_value(target, self.order[n], negative, &token);
            put.map_err(|why| self.refused(why))?;
        }
        self.expect(')', &mut left)?;
        not_missing(&self.row, self.tables.table(target)).map_err(|why| self.refused(why))?;
        match self.lexer.token(&mut left)? {
            Token::Symbol(',') => Ok(()),
            Token::Symbol(';') => {
                self.state = State::Between;
                Ok(())
            }
            other => Err(self.refused(format!("{other} after a row"))),
        }
    }

    fn insert_value(
        &mut self,
        target: Target,
        at: usize,
        negative: bool,
        token: &Token,
    ) -> Result<(), String> {
        let Self { tables, row, .. } = self;
        let table = tables.table(target);
        let column = &table.columns[at];
        let number = matches!(column.kind, Kind::BigInt | Kind::Integer);
        let text = match token {
            Token::Number(it) if number && negative => format!("-{it}"),
            Token::Number(it) if number => it.clone(),
            Token::Word(it) if !negative && it == "null" => {
                row.set_null(at);
                return Ok(());
            }
            Token::Word(it) if !negative && column.kind == Kind::Boolean => it.clone(),
            Token::Text(it) if !negative => it.clone(),
            other => return Err(format!("{other} is no value of the column `{}`", column.name)),
        };
        row.parse(at, column.kind, &text).map_err(|it| unfit(table, column, &it, &text))
    }

    fn expect(&mut self, symbol: char, left: &mut usize) -> Result<(), DumpError> {
        match self.lexer.token(left)? {
            Token::Symbol(it) if it == symbol => Ok(()),
            other => Err(self.refused(format!("`{symbol}` is expected, not {other}"))),
        }
    }

    /// The source ends between two statements.
    fn end(&mut self) -> Result<(), DumpError> {
        if self.kind() == DumpKind::Gantry || !self.pg_dump_ended {
            return Err(self.refused("the end of the dump is missing: it is cut off, or it is no dump"));
        }
        let complete = self.tables.fix_version().and_then(|()| self.tables.complete());
        complete.map_err(|why| self.refused(why))?;
        self.counting();
        self.state = State::Done;
        Ok(())
    }
}

fn no_comment() -> String {
    "a line that begins with `-` and is no comment".to_owned()
}

fn unfit(table: &Table, column: &Column, why: &impl ToString, value: &str) -> String {
    format!("`{}` in `{}.{}`: it takes {}", shown(value), table.name, column.name, why.to_string())
}

fn not_missing(row: &Row, table: &Table) -> Result<(), String> {
    let missing = row.missing(table);
    missing.map_or(Ok(()), |it| Err(format!("`{}.{}` must have a value", table.name, it.name)))
}
