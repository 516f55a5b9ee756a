//! What belongs to the gateway that runs on a database, and is therefore neither dumped nor restored: sessions, password
//! links, jobs that run, who supervises, the counter of changes, the data directory that the database belongs to, and its
//! last restore.

use crate::dump::{
    row::Row,
    schema::{Schema, Table},
};

#[derive(Debug, Clone, Copy)]
enum Rule {
    Keep,
    /// The rows are the live gateway's, whatever they hold.
    Table,
    /// The rows with one of these values in this column are.
    Rows {
        column: usize,
        values: &'static [&'static str],
    },
}

/// Decides for rows of a schema.
#[derive(Debug, Clone)]
pub(crate) struct Filter(Vec<Rule>);

impl Filter {
    pub(crate) fn new(schema: &Schema) -> Self {
        let rows = |table: &Table, column, values| {
            table.column(column).map_or(Rule::Keep, |column| Rule::Rows { column, values })
        };
        let rule = |table: &Table| match table.name.as_str() {
            "sessions" | "password_links" | "supervisor" | "changes" => Rule::Table,
            "jobs" => rows(table, "state", &["running"]),
            "meta" => rows(table, "key", &["home", "restored"]),
            _ => Rule::Keep,
        };
        Self(schema.tables.iter().map(rule).collect())
    }

    /// Returns whether no row of the table is dumped or restored.
    pub(crate) fn leaves_out_table(&self, table: usize) -> bool {
        matches!(self.0.get(table), Some(Rule::Table))
    }

    /// Returns whether the row is left out.
    pub(crate) fn leaves_out(&self, table: usize, row: &Row) -> bool {
        match self.0.get(table) {
            None | Some(Rule::Keep) => false,
            Some(Rule::Table) => true,
            Some(Rule::Rows { column, values }) => values.contains(&row.text(*column)),
        }
    }
}
