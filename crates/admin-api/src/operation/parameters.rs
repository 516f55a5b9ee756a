//! The kinds of query parameters that several operations have: a page, an order, a search, numbers, flags and choices.

use std::borrow::Cow;

use gantry_domain::{
    schema::{self, Components},
    words::either,
};
use gantry_store::{Order, Sort};
use serde_json::Value;

use super::{
    Doc,
    query::{MAX_SEARCH, Page, Parameter, Parameters, Params, QueryValue},
};
use crate::error::Problem;

/// `q`: part of a name. A longer text would find nothing, and databases have limits of their own.
pub(crate) struct Search(pub(crate) String);

impl QueryValue for Search {
    fn allowed() -> Cow<'static, str> {
        format!("a text of at most {MAX_SEARCH} characters").into()
    }

    fn parse(text: &str) -> Option<Self> {
        (text.chars().count() <= MAX_SEARCH).then(|| Self(text.to_owned()))
    }

    fn schema(_: &mut Components) -> Value {
        schema::text_of(0, MAX_SEARCH)
    }
}

/// A whole number from 1 to `MAX`; `DEFAULT` without the parameter.
pub(crate) struct Number<const DEFAULT: i64, const MAX: i64>(pub(crate) i64);

impl<const DEFAULT: i64, const MAX: i64> Parameter for Number<DEFAULT, MAX> {
    fn read(params: &mut Params, name: &'static str) -> Result<Self, Problem> {
        params.number(name, DEFAULT, MAX).map(Self)
    }

    fn describe(doc: &mut Doc, name: &'static str, about: &str) {
        doc.parameter(name, schema::defaulted(schema::whole(1, MAX), DEFAULT), false, about);
    }
}

/// A flag: `true`, `false`, `1` or `0`; `DEFAULT` without the parameter.
pub(crate) struct Switch<const DEFAULT: bool>(pub(crate) bool);

impl<const DEFAULT: bool> Parameter for Switch<DEFAULT> {
    fn read(params: &mut Params, name: &'static str) -> Result<Self, Problem> {
        params.flag_or(name, DEFAULT).map(Self)
    }

    fn describe(doc: &mut Doc, name: &'static str, about: &str) {
        let schema = if DEFAULT { schema::query_flag_on() } else { schema::query_flag() };
        doc.parameter(name, schema, false, about);
    }
}

/// One of a few words; without the parameter, the default one.
pub(crate) struct Choice<T>(pub(crate) T);

/// The words of a [`Choice`].
pub(crate) trait Words: Sized {
    const WORDS: &'static [&'static str];
    const DEFAULT: &'static str;

    fn parse(text: &str) -> Option<Self>;
}

impl<T: Words> Parameter for Choice<T> {
    fn read(params: &mut Params, name: &'static str) -> Result<Self, Problem> {
        let text = params.text(name);
        let read = T::parse(text.as_deref().unwrap_or(T::DEFAULT));
        let words = || either(T::WORDS);
        read.map(Self).ok_or_else(|| Problem::invalid(name, format!("`{name}` must be {}", words())))
    }

    fn describe(doc: &mut Doc, name: &'static str, about: &str) {
        doc.parameter(name, schema::defaulted(schema::one_of(T::WORDS), T::DEFAULT), false, about);
    }
}

macro_rules! choices {
    ($($type:ident or $default:ident),+ $(,)?) => {$(
        impl Words for gantry_store::$type {
            const WORDS: &'static [&'static str] = &Self::WORDS;
            const DEFAULT: &'static str = Self::$default.as_str();

            fn parse(text: &str) -> Option<Self> {
                Self::parse(text)
            }
        }
    )+};
}

choices!(GroupBy or Model, Bucket or Hour);

/// A group of parameters that several operations share.
impl<Q: Parameters> Parameter for Q {
    fn read(params: &mut Params, _: &'static str) -> Result<Self, Problem> {
        <Q as Parameters>::read(params)
    }

    fn describe(doc: &mut Doc, _: &'static str, _: &str) {
        <Q as Parameters>::describe(doc);
    }
}

impl Parameters for Page {
    fn read(params: &mut Params) -> Result<Self, Problem> {
        params.page()
    }

    fn describe(doc: &mut Doc) {
        let limit = schema::defaulted(schema::whole(1, 1000), 100);
        doc.parameter("limit", limit, false, "The largest number of entries to return.");
        let offset = schema::defaulted(schema::whole(0, 1_000_000_000), 0);
        doc.parameter("offset", offset, false, "The number of entries to skip.");
    }
}

/// The columns that a list can be sorted by.
pub(crate) trait Columns: Sized + Default {
    /// The words for them; the first one is the default.
    const WORDS: &'static [&'static str];
    /// The order if the request names no column.
    const ORDER: Order;

    fn parse(text: &str) -> Option<Self>;
}

impl<C: Columns> Parameter for Sort<C> {
    fn read(params: &mut Params, _: &'static str) -> Result<Self, Problem> {
        let columns = either(C::WORDS);
        Ok(params.sort(&columns, C::parse)?.unwrap_or(Self { by: C::default(), order: C::ORDER }))
    }

    fn describe(doc: &mut Doc, name: &'static str, _: &str) {
        let forms =
            |it: &&str| [(*it).to_owned(), format!("-{it}"), format!("{it}:asc"), format!("{it}:desc")];
        let words: Vec<String> = C::WORDS.iter().flat_map(forms).collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let first = C::WORDS.first().copied().unwrap_or_default();
        let default = match C::ORDER {
            Order::Asc => first.to_owned(),
            Order::Desc => format!("-{first}"),
        };
        let schema = schema::defaulted(schema::one_of(&words), default);
        let about = "The column to sort by. With `-` in front or `:desc` behind, the largest comes first.";
        doc.parameter(name, schema, false, about);
    }
}

macro_rules! columns {
    ($($type:ident $order:ident),+ $(,)?) => {$(
        impl Columns for gantry_store::$type {
            const WORDS: &'static [&'static str] = &Self::WORDS;
            const ORDER: Order = Order::$order;

            fn parse(text: &str) -> Option<Self> {
                Self::parse(text)
            }
        }
    )+};
}

columns!(OrgColumn Asc, UserColumn Asc, KeyColumn Asc, GroupColumn Desc);
