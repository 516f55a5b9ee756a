//! The fields of JSON bodies: each is declared once, in [`form!`](crate::operation::form), and read, checked and documented
//! from there.

use std::{borrow::Cow, marker::PhantomData};

use gantry_domain::{
    ApiError, FieldProblem, Timestamp,
    schema::{self, Components, Member},
};
use serde_json::{Map, Value};

use crate::error::Problem;

/// Takes fields out of a JSON object one by one and collects every problem; what is left over is unknown.
pub(crate) struct Fields {
    map: Map<String, Value>,
    problems: Vec<FieldProblem>,
    now: Timestamp,
}

impl Fields {
    /// `now` is the time that times in the body are compared with.
    pub(crate) fn new(map: Map<String, Value>, now: Timestamp) -> Self {
        Self { map, problems: Vec::new(), now }
    }

    pub(crate) fn problem(&mut self, param: &str, message: impl Into<String>) {
        self.problems.push(FieldProblem::new(param, message));
    }

    /// Whether the field was sent, with whatever value.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.map.contains_key(name)
    }

    /// The field as it stands, `None` when absent; `null` is a value.
    pub(crate) fn raw(&mut self, name: &str) -> Option<Value> {
        self.map.shift_remove(name)
    }

    /// Takes all fields that are left, as they stand.
    pub(crate) fn rest(&mut self) -> Map<String, Value> {
        std::mem::take(&mut self.map)
    }

    /// Takes the field out if it is `null`.
    pub(crate) fn drop_null(&mut self, name: &str) {
        if self.map.get(name).is_some_and(Value::is_null) {
            self.map.shift_remove(name);
        }
    }

    /// Reads a field with `read`; absent and `null` are `None`.
    pub(crate) fn optional<T>(
        &mut self,
        name: &str,
        allowed: &str,
        read: impl FnOnce(&Value) -> Option<T>,
    ) -> Option<T> {
        self.drop_null(name);
        self.given(name, allowed, read)
    }

    /// Reads a change of a field that always has a value: absent is `None`, and `null` is wrong like any other illegal
    /// value.
    pub(crate) fn given<T>(
        &mut self,
        name: &str,
        allowed: &str,
        read: impl FnOnce(&Value) -> Option<T>,
    ) -> Option<T> {
        let value = self.raw(name)?;
        let found = read(&value);
        if found.is_none() {
            self.problem(name, format!("`{name}` must be {allowed}"));
        }
        found
    }

    /// Reads a change of a field that may be unset: absent is `None`, `null` is `Some(None)`.
    #[expect(clippy::option_option, reason = "absent, null and a value are three things in a PATCH")]
    pub(crate) fn change<T>(
        &mut self,
        name: &str,
        allowed: &str,
        read: impl FnOnce(&Value) -> Option<T>,
    ) -> Option<Option<T>> {
        if self.map.get(name)?.is_null() {
            self.map.shift_remove(name);
            return Some(None);
        }
        self.optional(name, allowed, read).map(Some)
    }

    /// The field `name`, to be read as an `F`.
    pub(crate) fn typed<F: Field>(&mut self, name: &'static str) -> TypedField<'_, F> {
        TypedField { fields: self, name, field: PhantomData }
    }

    /// # Errors
    /// 422 with everything that was wrong, unknown fields included.
    pub(crate) fn finish(mut self) -> Result<(), Problem> {
        let unknown = self.rest();
        self.problems.extend(unknown.keys().map(|it| FieldProblem::unknown(it, "")));
        let problems = FieldProblem::bounded(self.problems);
        if problems.is_empty() { Ok(()) } else { Err(ApiError::validation(problems).into()) }
    }
}

/// One field of a body, as [`form!`] declares it.
pub(crate) struct TypedField<'a, F> {
    fields: &'a mut Fields,
    name: &'static str,
    field: PhantomData<F>,
}

impl<F: Field> TypedField<'_, F> {
    /// Absent is `None`, `null` is a mistake.
    pub(crate) fn given(self) -> Option<F::Value> {
        let value = self.fields.raw(self.name)?;
        match F::take(value, self.fields.now) {
            Ok(read) => Some(read),
            Err(value) => {
                self.fields.problem(self.name, F::complaint(self.name, &value));
                None
            }
        }
    }

    /// Absent and `null` are `None`.
    pub(crate) fn optional(self) -> Option<F::Value> {
        self.fields.drop_null(self.name);
        self.given()
    }

    /// Absence is a mistake, `null` is `None`.
    pub(crate) fn nullable(self) -> Option<F::Value> {
        if !self.fields.has(self.name) {
            self.fields.problem(self.name, format!("`{}` is required: {}", self.name, F::allowed()));
        }
        self.optional()
    }

    /// Absence and `null` are mistakes.
    pub(crate) fn required(self) -> Option<F::Value> {
        self.fields.drop_null(self.name);
        if !self.fields.has(self.name) {
            self.fields.problem(self.name, format!("`{}` is required: {}", self.name, F::allowed()));
            return None;
        }
        self.given()
    }

    /// Absent is `None`, `null` is `Some(None)`.
    pub(crate) fn change(self) -> Change<F::Value> {
        if self.fields.map.get(self.name)?.is_null() {
            self.fields.map.shift_remove(self.name);
            return Some(None);
        }
        self.given().map(Some)
    }
}

/// Readers for [`Fields`].
pub(crate) mod read {
    use gantry_domain::{Timestamp, name};
    use serde_json::Value;

    /// Reads a name: `1..=max` characters that follow the rule in [`named`].
    pub(crate) fn name(max: usize) -> impl Fn(&Value) -> Option<String> {
        move |value| value.as_str().filter(|it| name::is_name(it, max)).map(str::to_owned)
    }

    /// What [`name`] takes, in words.
    pub(crate) fn named(max: usize) -> String {
        format!("a name of 1 to {max} characters, {}", name::RULE)
    }

    /// A text that refers to something or is shown: `1..=max` characters without control characters or outer blanks.
    pub(crate) fn line(max: usize) -> impl Fn(&Value) -> Option<String> {
        move |value| {
            let text = value.as_str()?;
            let legal = (1..=max).contains(&text.chars().count())
                && !text.chars().any(char::is_control)
                && text.trim() == text;
            legal.then(|| text.to_owned())
        }
    }

    pub(crate) fn id(value: &Value) -> Option<i64> {
        value.as_i64().filter(|it| *it > 0)
    }

    /// A whole number from 1 to `max`.
    pub(crate) fn positive(max: i64) -> impl Fn(&Value) -> Option<i64> {
        move |value| value.as_i64().filter(|it| (1..=max).contains(it))
    }

    pub(crate) fn time(value: &Value) -> Option<Timestamp> {
        Timestamp::parse_rfc3339(value.as_str()?)
    }
}

/// The fields of a body, or some of them. Declared by [`form!`]; written by hand only where fields depend on one another.
pub(crate) trait Form: Sized {
    /// Takes its fields out of the body. `None` if a required one is missing or wrong, which `fields` has noted.
    fn read(fields: &mut Fields) -> Option<Self>;

    /// Appends its fields with their schemas.
    fn members(all: &mut Components, out: &mut Vec<Member>);

    /// Returns the schema of a body that has these fields and no others.
    fn schema(all: &mut Components) -> Value {
        let mut members = Vec::new();
        Self::members(all, &mut members);
        schema::closed(members)
    }
}

/// What a field of a body may be.
pub(crate) trait Field {
    /// The type of the value that was read.
    type Value;

    /// What it takes, in words: "`name` must be …".
    fn allowed() -> Cow<'static, str>;

    /// Reads a value that is not `null`. `None` if it is illegal.
    fn read(value: &Value, now: Timestamp) -> Option<Self::Value>;

    /// Like [`Self::read`], for what is large and need not be copied.
    ///
    /// # Errors
    /// The value, if it is illegal.
    fn take(value: Value, now: Timestamp) -> Result<Self::Value, Value> {
        Self::read(&value, now).ok_or(value)
    }

    /// Says what is wrong with a value that [`Self::read`] refused.
    fn complaint(name: &str, value: &Value) -> String {
        let _ = value;
        format!("`{name}` must be {}", Self::allowed())
    }

    /// The same in a schema.
    fn schema(all: &mut Components) -> Value;
}

/// A change of a value that may be unset: `None` leaves it, `Some(None)` unsets it.
pub(crate) type Change<T> = Option<Option<T>>;

/// Declares the fields of a body: the type, the reader and the schema come from one list. Each field has one of these words
/// before its type, which says what its absence and `null` mean:
/// - `required`: both are mistakes;
/// - `optional`: both are `None`;
/// - `nullable`: absence is a mistake, `null` is `None`;
/// - `given`: absent is `None`, `null` is a mistake (a change of what always has a value);
/// - `change`: absent is `None`, `null` is `Some(None)` ([`Change`]);
/// - `part`: no field, but another form whose fields stand among these.
///
/// The types behind these words are [`Field`]s. The doc comment of a field is its description in the document.
macro_rules! form {
    (
        $(#[$meta:meta])*
        $vis:vis struct $type:ident {
            $($(#[doc = $doc:literal])* $fvis:vis $field:ident: $mode:ident $ty:ty),* $(,)?
        }
    ) => {
        $(#[$meta])*
        $vis struct $type {
            $($(#[doc = $doc])* $fvis $field: $crate::operation::form!(@type $mode $ty),)*
        }

        impl $crate::operation::Form for $type {
            fn read(fields: &mut $crate::operation::Fields) -> Option<Self> {
                $(let $field = $crate::operation::form!(@read $mode $ty, fields, stringify!($field));)*
                Some(Self { $($field: $crate::operation::form!(@take $mode $field),)* })
            }

            fn members(
                all: &mut gantry_domain::schema::Components,
                out: &mut Vec<gantry_domain::schema::Member>,
            ) {
                $($crate::operation::form!(@member $mode $ty, all, out, stringify!($field), [$($doc),*]);)*
            }
        }
    };
    (@type required $ty:ty) => { <$ty as $crate::operation::Field>::Value };
    (@type optional $ty:ty) => { Option<<$ty as $crate::operation::Field>::Value> };
    (@type nullable $ty:ty) => { Option<<$ty as $crate::operation::Field>::Value> };
    (@type given $ty:ty) => { Option<<$ty as $crate::operation::Field>::Value> };
    (@type change $ty:ty) => { $crate::operation::Change<<$ty as $crate::operation::Field>::Value> };
    (@type part $ty:ty) => { $ty };
    (@read part $ty:ty, $fields:ident, $name:expr) => { <$ty as $crate::operation::Form>::read($fields) };
    (@read $mode:ident $ty:ty, $fields:ident, $name:expr) => {
        $fields.typed::<$ty>(gantry_domain::schema::field_name($name)).$mode()
    };
    (@take required $field:ident) => { $field? };
    (@take part $field:ident) => { $field? };
    (@take $mode:ident $field:ident) => { $field };
    (@member part $ty:ty, $all:ident, $out:ident, $name:expr, [$($doc:literal),*]) => {
        <$ty as $crate::operation::Form>::members($all, $out)
    };
    (@member required $ty:ty, $all:ident, $out:ident, $name:expr, [$($doc:literal),*]) => {
        $crate::operation::form!(@push $ty, $all, $out, $name, [$($doc),*], false, std::convert::identity)
    };
    (@member nullable $ty:ty, $all:ident, $out:ident, $name:expr, [$($doc:literal),*]) => {
        $crate::operation::form!(@push $ty, $all, $out, $name, [$($doc),*], false, gantry_domain::schema::nullable)
    };
    (@member given $ty:ty, $all:ident, $out:ident, $name:expr, [$($doc:literal),*]) => {
        $crate::operation::form!(@push $ty, $all, $out, $name, [$($doc),*], true, std::convert::identity)
    };
    // `optional` and `change` take `null`.
    (@member $mode:ident $ty:ty, $all:ident, $out:ident, $name:expr, [$($doc:literal),*]) => {
        $crate::operation::form!(@push $ty, $all, $out, $name, [$($doc),*], true, gantry_domain::schema::nullable)
    };
    (@push $ty:ty, $all:ident, $out:ident, $name:expr, [$($doc:literal),*], $optional:literal, $null:expr) => {{
        let schema = $null(<$ty as $crate::operation::Field>::schema($all));
        let schema = gantry_domain::schema::describe(schema, &[$($doc),*]);
        let name = gantry_domain::schema::field_name($name);
        $out.push(gantry_domain::schema::Member { name, schema, optional: $optional });
    }};
}
pub(crate) use form;
