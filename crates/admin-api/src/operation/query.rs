//! Query strings: each parameter is declared once, in [`query!`](crate::operation::query), and read, checked and
//! documented from there.

use std::{borrow::Cow, collections::BTreeMap};

use axum::{
    extract::{FromRequestParts, Query as Pairs},
    http::{Uri, request::Parts},
};
use gantry_domain::{ErrorCode, schema::Components};
use gantry_store::{Order, Sort};
use serde_json::Value;

use super::{Doc, Listed};
use crate::error::Problem;

/// Longest `q`, in characters.
pub(crate) const MAX_SEARCH: usize = 200;

/// A query string with only known parameters.
pub(crate) struct Params(BTreeMap<String, String>);

impl<S: Send + Sync> FromRequestParts<S> for Params {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        Self::of(&parts.uri)
    }
}

/// Checks the query string of a route that reads none: it must have no parameters.
///
/// # Errors
/// 422 `validation_error` with the first parameter; 400 if it can't be read.
pub(crate) fn without_query(uri: &Uri) -> Result<(), Problem> {
    Params::of(uri)?.finish()
}

impl Params {
    fn of(uri: &Uri) -> Result<Self, Problem> {
        let pairs = Pairs::<Vec<(String, String)>>::try_from_uri(uri);
        let Ok(Pairs(pairs)) = pairs else {
            return Err(Problem::new(ErrorCode::InvalidRequest, "the query string can't be read"));
        };
        let mut map = BTreeMap::new();
        for (name, value) in pairs {
            if map.insert(name.clone(), value).is_some() {
                return Err(Problem::invalid(&name, format!("`{name}` stands twice in the query")));
            }
        }
        Ok(Self(map))
    }

    /// Takes a parameter; an empty one counts as absent.
    pub(crate) fn text(&mut self, name: &str) -> Option<String> {
        self.0.remove(name).filter(|it| !it.is_empty())
    }

    pub(crate) fn parsed<T>(
        &mut self,
        name: &str,
        allowed: &str,
        read: impl FnOnce(&str) -> Option<T>,
    ) -> Result<Option<T>, Problem> {
        match self.text(name) {
            None => Ok(None),
            Some(text) => match read(&text) {
                Some(value) => Ok(Some(value)),
                None => Err(Problem::invalid(name, format!("`{name}` must be {allowed}"))),
            },
        }
    }

    pub(crate) fn number(&mut self, name: &str, default: i64, max: i64) -> Result<i64, Problem> {
        let allowed = format!("a whole number from 1 to {max}");
        let read = |it: &str| it.parse().ok().filter(|n| (1..=max).contains(n));
        Ok(self.parsed(name, &allowed, read)?.unwrap_or(default))
    }

    pub(crate) fn flag_or(&mut self, name: &str, default: bool) -> Result<bool, Problem> {
        let read = |it: &str| match it {
            "true" | "1" => Some(true),
            "false" | "0" => Some(false),
            _ => None,
        };
        Ok(self.parsed(name, "true or false", read)?.unwrap_or(default))
    }

    /// `sort`: a column, in descending order with `-` in front or `:desc` behind; `:asc` is the default.
    pub(crate) fn sort<C>(
        &mut self,
        columns: &str,
        read: impl FnOnce(&str) -> Option<C>,
    ) -> Result<Option<Sort<C>>, Problem> {
        let allowed = format!("{columns}, with `-` in front or `:desc` behind for the largest first");
        self.parsed("sort", &allowed, |text| {
            let (column, order) = match (text.strip_prefix('-'), text.split_once(':')) {
                (Some(column), None) | (None, Some((column, "desc"))) => (column, Order::Desc),
                (None, Some((column, "asc"))) => (column, Order::Asc),
                (None, None) => (text, Order::Asc),
                (_, Some(_)) => return None,
            };
            Some(Sort { by: read(column)?, order })
        })
    }

    /// `limit` (1–1000, default 100) and `offset`.
    pub(crate) fn page(&mut self) -> Result<Page, Problem> {
        let limit = self.number("limit", 100, 1000);
        let offset = self.parsed("offset", "a whole number from 0 to 1000000000", |it| {
            it.parse().ok().filter(|n| (0..=1_000_000_000).contains(n))
        });
        Ok(Page { limit: limit?, offset: offset?.unwrap_or(0) })
    }

    /// # Errors
    /// 422 for a parameter that the handler did not take.
    pub(crate) fn finish(self) -> Result<(), Problem> {
        match self.0.keys().next() {
            None => Ok(()),
            Some(name) => Err(Problem::invalid(name, format!("there is no query parameter `{name}`"))),
        }
    }
}

/// A window of a list.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Page {
    pub(crate) limit: i64,
    pub(crate) offset: i64,
}

impl Page {
    /// Returns this window of a list that is in memory as a whole.
    pub(crate) fn of<T>(self, all: Vec<T>) -> Listed<T> {
        let n = all.len() as i64;
        Listed(all.into_iter().skip(self.offset as usize).take(self.limit as usize).collect(), n)
    }
}

/// A query string that is read as `Q`; other parameters are refused.
pub(crate) struct Query<Q>(pub(crate) Q);

/// The parameters of a query string. Declared by [`query!`].
pub(crate) trait Parameters: Sized {
    /// Takes them, all of them even if one is illegal.
    ///
    /// # Errors
    /// 422 for the first illegal or missing one.
    fn read(params: &mut Params) -> Result<Self, Problem>;

    /// Adds them to the documentation.
    fn describe(doc: &mut Doc);
}

impl<S: Send + Sync, Q: Parameters> FromRequestParts<S> for Query<Q> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let mut params = Params::of(&parts.uri)?;
        let read = Q::read(&mut params);
        // This comes first, because a misspelt name is often the reason why another one is missing.
        params.finish()?;
        read.map(Self)
    }
}

/// One parameter, or a group of parameters that belong together.
pub(crate) trait Parameter: Sized {
    /// Takes it. `name` is the name of its field.
    fn read(params: &mut Params, name: &'static str) -> Result<Self, Problem>;

    /// Adds it to the documentation. `about` is the doc comment of its field.
    fn describe(doc: &mut Doc, name: &'static str, about: &str);
}

/// Declares the parameters of a query string: the type, the reader and the documentation come from one list. The types of
/// the fields are [`Parameter`]s; the doc comment of a field is its description in the document.
macro_rules! query {
    (
        $(#[$meta:meta])*
        $vis:vis struct $type:ident {
            $($(#[doc = $doc:literal])* $fvis:vis $field:ident: $ty:ty),* $(,)?
        }
    ) => {
        $(#[$meta])*
        $vis struct $type {
            $($(#[doc = $doc])* $fvis $field: $ty,)*
        }

        impl $crate::operation::Parameters for $type {
            fn read(params: &mut $crate::operation::Params) -> Result<Self, $crate::Problem> {
                let _ = &params;
                // All are taken before the first error is returned: what is left over is unknown.
                $(
                    let name = gantry_domain::schema::field_name(stringify!($field));
                    let $field = <$ty as $crate::operation::Parameter>::read(params, name);
                )*
                Ok(Self { $($field: $field?,)* })
            }

            fn describe(doc: &mut $crate::operation::Doc) {
                let _ = &doc;
                $(
                    let about: &[&str] = &[$($doc.trim_ascii()),*];
                    let name = gantry_domain::schema::field_name(stringify!($field));
                    <$ty as $crate::operation::Parameter>::describe(doc, name, &about.join(" "));
                )*
            }
        }
    };
}
pub(crate) use query;

/// A value of one parameter.
pub(crate) trait QueryValue: Sized {
    /// What it takes, in words: "`name` must be …".
    fn allowed() -> Cow<'static, str>;

    /// Reads a text that is not empty. `None` if it is illegal.
    fn parse(text: &str) -> Option<Self>;

    /// The same in a schema.
    fn schema(all: &mut Components) -> Value;
}

impl<T: QueryValue> Parameter for Option<T> {
    fn read(params: &mut Params, name: &'static str) -> Result<Self, Problem> {
        params.parsed(name, &T::allowed(), T::parse)
    }

    fn describe(doc: &mut Doc, name: &'static str, about: &str) {
        let schema = T::schema(&mut doc.components);
        doc.parameter(name, schema, false, about);
    }
}

/// A parameter that must be there.
pub(crate) struct Required<T>(pub(crate) T);

impl<T: QueryValue> Parameter for Required<T> {
    fn read(params: &mut Params, name: &'static str) -> Result<Self, Problem> {
        let given = params.parsed(name, &T::allowed(), T::parse)?;
        given.map(Self).ok_or_else(|| Problem::invalid(name, format!("`{name}` is required")))
    }

    fn describe(doc: &mut Doc, name: &'static str, about: &str) {
        let mut schema = T::schema(&mut doc.components);
        if schema["type"] == "string" && schema["enum"].is_null() {
            // An empty one counts as absent.
            schema["minLength"] = 1.into();
        }
        doc.parameter(name, schema, true, about);
    }
}
