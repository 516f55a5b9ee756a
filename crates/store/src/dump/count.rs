//! Counts a database as a dump of it would be counted.

use crate::{
    Proof, StoreResult,
    dump::{filter::Filter, proof::Tally, schema::Schema, source::Conn},
};

/// Reads every row of the database.
pub(crate) async fn count(mut conn: Conn<'_>, schema: &Schema) -> StoreResult<Proof> {
    let (filter, mut tally) = (Filter::new(schema), Tally::new(schema));
    for (at, table) in schema.tables.iter().enumerate() {
        if !filter.leaves_out_table(at) {
            conn.each_row(table, &mut |row| {
                if !filter.leaves_out(at, row) {
                    tally.add(at, row);
                }
                Ok(())
            })
            .await?;
        }
        if table.counts {
            tally.sequence(at, conn.sequence(table).await?.unwrap_or(0));
        }
    }
    Ok(tally.proof(schema))
}
