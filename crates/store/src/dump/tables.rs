//! Which tables a dump has: known from its header, or, in a dump of `pg_dump`, from its `CREATE TABLE` statements and
//! from the rows of the table of migrations.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    DatabaseKind,
    dump::{
        header::MIGRATIONS,
        lexer::shown,
        row::{Row, Value},
        schema::{Column, Kind, Schema, Table},
        statement::counted_table,
    },
    migrate,
};

/// Where rows belong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Target {
    Migrations,
    /// Index in the schema.
    Table(usize),
}

/// The tables of a dump, as far as they are known.
#[derive(Debug)]
pub(crate) struct Tables {
    version: Option<i64>,
    schema: Schema,
    /// Columns of `CREATE TABLE`, by table.
    created: BTreeMap<String, Vec<String>>,
    /// Tables whose data came by COPY.
    copied: BTreeSet<Target>,
    migrations: Table,
    /// Numbers and checksums of the versions in a dump of `pg_dump`.
    versions: Vec<(i64, Vec<u8>)>,
}

impl Tables {
    pub(crate) fn new() -> Self {
        Self {
            version: None,
            schema: Schema::default(),
            created: BTreeMap::new(),
            copied: BTreeSet::new(),
            migrations: migrations(),
            versions: Vec::new(),
        }
    }

    /// Returns the version of the schema, once it is known.
    pub(crate) fn version(&self) -> Option<i64> {
        self.version
    }

    /// Returns the tables of the version; none before it is known.
    pub(crate) fn schema(&self) -> &Schema {
        &self.schema
    }

    pub(crate) fn table(&self, target: Target) -> &Table {
        match target {
            Target::Migrations => &self.migrations,
            Target::Table(at) => &self.schema.tables[at],
        }
    }

    /// Sets the version.
    ///
    /// # Errors
    /// This program does not know it.
    pub(crate) fn set_version(&mut self, version: i64) -> Result<(), String> {
        if !migrate::versions().any(|(known, _)| known == version) {
            return Err(format!(
                "schema version {version} is not known to this program: use the one that wrote the dump"
            ));
        }
        self.schema = Schema::at(version).map_err(|it| it.to_string())?;
        self.version = Some(version);
        Ok(())
    }

    /// Notes the columns of a `CREATE TABLE`.
    pub(crate) fn create(&mut self, table: String, columns: Vec<String>) -> Result<(), String> {
        let newest = migrate::versions().map(|it| it.0).max().unwrap_or(0);
        let known = Schema::at(newest).map_err(|it| it.to_string())?;
        if self.version.is_some() {
            return Err(format!("`CREATE TABLE {}` after data", shown(&table)));
        }
        if table != MIGRATIONS && known.index(&table).is_none() {
            return Err(unknown(&table));
        }
        match self.created.insert(table, columns) {
            None => Ok(()),
            Some(_) => Err("a table is created twice".to_owned()),
        }
    }

    /// Finds the table that a statement puts rows into, and for each value of a row the index of its column. `columns`:
    /// those that the statement names; `None` for those of `CREATE TABLE`.
    pub(crate) fn target(
        &mut self,
        name: &str,
        columns: Option<&[String]>,
    ) -> Result<(Target, Vec<usize>), String> {
        let target = if name != MIGRATIONS {
            self.fix_version()?;
            Target::Table(self.schema.index(name).ok_or_else(|| unknown(name))?)
        } else if self.version.is_none() {
            Target::Migrations
        } else {
            return Err(format!("`{MIGRATIONS}` in a dump whose version is known already"));
        };
        let created = || self.created.get(name).map(Vec::as_slice);
        let columns =
            columns.or_else(created).ok_or("`INSERT` without columns into a table that was not created")?;
        let order = order(self.table(target), columns)?;
        Ok((target, order))
    }

    /// Notes that a COPY into the table begins.
    pub(crate) fn copy_into(&mut self, target: Target) -> Result<(), String> {
        if self.copied.insert(target) {
            return Ok(());
        }
        Err(format!("a second COPY into `{}`", self.table(target).name))
    }

    /// Finds the table that a sequence counts.
    pub(crate) fn counted(&mut self, sequence: &str) -> Result<usize, String> {
        self.fix_version()?;
        let table = counted_table(sequence).and_then(|it| self.schema.index(it));
        let table = table.filter(|it| self.schema.tables[*it].counts);
        table.ok_or_else(|| format!("the sequence `{}` is none of Gantry's", shown(sequence)))
    }

    /// Notes the version in a row of [`MIGRATIONS`]. One that did not succeed has no checksum of ours.
    pub(crate) fn note_version(&mut self, row: &Row) {
        let checksum = match row.get(2) {
            Value::Bytes(it) if row.integer(1) == 1 => it.to_vec(),
            _ => Vec::new(),
        };
        self.versions.push((row.integer(0), checksum));
    }

    /// Derives the version from the rows of [`MIGRATIONS`], if it is not known yet, and checks the tables that were
    /// created against it.
    pub(crate) fn fix_version(&mut self) -> Result<(), String> {
        if self.version.is_some() {
            return Ok(());
        }
        self.versions.sort();
        let known = migrate::checksums(DatabaseKind::Postgres);
        let Some((version, _)) = self.versions.last().cloned() else {
            return Err(format!("data before the rows of `{MIGRATIONS}`, which say what version they have"));
        };
        if known.get(..self.versions.len()) != Some(&self.versions) {
            return Err(format!("its schema, version {version}, is not one that this program made"));
        }
        self.set_version(version)?;
        for (name, columns) in self.created.iter().filter(|it| it.0 != MIGRATIONS) {
            let table = self.schema.index(name).ok_or_else(|| unknown(name))?;
            order(&self.schema.tables[table], columns)?;
        }
        self.all_there(|it, table| it.created.is_empty() || it.created.contains_key(&table.name))
    }

    /// Checks that no table is missing at the end of a dump. `INSERT` leaves empty tables out; then the created ones
    /// say which there are.
    pub(crate) fn complete(&self) -> Result<(), String> {
        let index = |table: &Table| self.schema.index(&table.name).map(Target::Table);
        self.all_there(|it, table| {
            !it.created.is_empty() || index(table).is_some_and(|target| it.copied.contains(&target))
        })
    }

    fn all_there(&self, is_there: impl Fn(&Self, &Table) -> bool) -> Result<(), String> {
        match self.schema.tables.iter().find(|it| !is_there(self, it)) {
            None => Ok(()),
            Some(table) => Err(format!("the table `{}` is missing", table.name)),
        }
    }
}

/// Finds the index of each column that a statement names. All of the table's must be there.
fn order(table: &Table, columns: &[String]) -> Result<Vec<usize>, String> {
    let index = |name: &String| {
        let unknown = || format!("the table `{}` has no column `{}`", table.name, shown(name));
        table.column(name).ok_or_else(unknown)
    };
    let order: Vec<usize> = columns.iter().map(index).collect::<Result<_, _>>()?;
    let all: BTreeSet<usize> = order.iter().copied().collect();
    if all.len() == order.len() && order.len() == table.columns.len() {
        return Ok(order);
    }
    Err(format!(
        "the table `{}` has {} columns, each of which must be named once",
        table.name,
        table.columns.len()
    ))
}

fn unknown(table: &str) -> String {
    format!("the table `{}` is none of Gantry's", shown(table))
}

/// The table that sqlx keeps (sqlx-postgres/src/migrate.rs @ 0.9.0), in the order that [`Tables::note_version`] reads.
fn migrations() -> Table {
    let column = |name: &str, kind| Column { name: name.to_owned(), kind, nullable: false };
    let columns = vec![
        column("version", Kind::BigInt),
        column("success", Kind::Boolean),
        column("checksum", Kind::Bytes),
        column("description", Kind::Text),
        column("installed_on", Kind::Text),
        column("execution_time", Kind::BigInt),
    ];
    Table { name: MIGRATIONS.to_owned(), columns, key: 0, counts: false }
}
