//! Parts that all lists share: sort order, and texts prepared for columns and patterns.

use std::borrow::Cow;

use gantry_domain::name;

/// The direction of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Order {
    /// The smallest value first.
    #[default]
    Asc,
    /// The largest value first.
    Desc,
}

/// Order of a list by one of the columns in the closed set `C`. Rows with equal values are sorted by id in the same
/// direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sort<C> {
    /// The column.
    pub by: C,
    /// The direction.
    pub order: Order,
}

/// Declares what a list can be sorted by: an enum of [`words!`](gantry_domain::words!), where each column has its word
/// in the API and its `ORDER BY` for both directions. Also makes the function `$listing`, which returns the SQL text for
/// a [`Sort`]; the macro `$listing!` of the same name makes that text from an `ORDER BY`.
macro_rules! sort_columns {
    (
        $(#[$about:meta])* $type:ident in $listing:ident {
            $($(#[$about_column:meta])* $column:ident = $word:literal, $asc:literal, $desc:literal;)+
        }
    ) => {
        gantry_domain::words! {
            $(#[$about])*
            #[derive(Default)]
            pub enum $type {
                $($(#[$about_column])* $column = $word,)+
            }
        }

        fn $listing(sort: $crate::Sort<$type>) -> &'static str {
            match (sort.by, sort.order) {
                $(
                    ($type::$column, $crate::Order::Asc) => $listing!($asc),
                    ($type::$column, $crate::Order::Desc) => $listing!($desc),
                )+
            }
        }
    };
}
pub(crate) use sort_columns;

/// Replaces NUL characters. Postgres can't store NUL in texts, and a NUL from a client must not make a whole batch
/// fail.
pub(crate) fn clean(text: &str) -> Cow<'_, str> {
    if text.contains('\0') { text.replace('\0', "\u{fffd}").into() } else { text.into() }
}

/// Returns the form in which names are compared. The databases don't fold them: SQLite folds ASCII only, and Postgres
/// folds as its locale says.
pub(crate) fn fold(text: &str) -> String {
    name::folded(&clean(text))
}

/// Returns a pattern for `column_lower LIKE $n ESCAPE '\'` that finds `text` literally, anywhere.
pub(crate) fn containing(text: &str) -> String {
    let mut pattern = String::with_capacity(text.len() + 2);
    pattern.push('%');
    for char in fold(text).chars() {
        if matches!(char, '%' | '_' | '\\') {
            pattern.push('\\');
        }
        pattern.push(char);
    }
    pattern.push('%');
    pattern
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wildcards_of_the_user_are_literal() {
        assert_eq!(containing(r"50%_Ä\"), r"%50\%\_ä\\%");
    }

    #[test]
    fn nul_never_reaches_the_database() {
        assert_eq!(clean("a\0b"), "a\u{fffd}b");
        assert!(matches!(clean("ab"), Cow::Borrowed("ab")));
    }
}
