//! Reads the documentation of an operation from the types of its handler, so that the two can't differ.

use axum::{
    Extension, Json,
    extract::State,
    http::{HeaderMap, Method, Uri},
};
use gantry_domain::schema::{self, Shape};

use super::{
    Accepted, Body, Created, Deleted, Doc, Done, Either, Form, Id, Listed, OptionalBody, Parameters, Query,
    UuidId, Written,
};
use crate::{
    App,
    caller::{Caller, Stranger},
    deployment::DeploymentId,
    error::Problem,
};

/// An argument of a handler: what it reads of the request.
pub(crate) trait Input {
    /// Adds what a request may contain.
    fn describe(doc: &mut Doc);
}

/// What a handler answers.
pub(crate) trait Output {
    /// Adds the answers.
    fn describe(doc: &mut Doc);
}

/// A handler with the arguments `T`.
pub(crate) trait Signature<T> {
    /// Adds its inputs and its output.
    fn describe(doc: &mut Doc);
}

macro_rules! signatures {
    ($(($($input:ident),*))+) => {$(
        impl<F, Answer, O, $($input),*> Signature<($($input,)*)> for F
        where
            F: Fn($($input),*) -> Answer,
            Answer: Future<Output = O>,
            O: Output,
            $($input: Input,)*
        {
            fn describe(doc: &mut Doc) {
                $($input::describe(doc);)*
                O::describe(doc);
            }
        }
    )+};
}

signatures! {
    ()
    (A)
    (A, B)
    (A, B, C)
    (A, B, C, D)
    (A, B, C, D, E)
    (A, B, C, D, E, G)
}

/// Inputs that the documentation has from the path or the policy.
macro_rules! silent {
    ($($type:ty),+ $(,)?) => {$(
        impl Input for $type {
            fn describe(_: &mut Doc) {}
        }
    )+};
}

silent!(State<App>, Caller, Stranger, Id, UuidId, DeploymentId, HeaderMap, Method, Uri);

impl Input for Result<axum::extract::Path<String>, axum::extract::rejection::PathRejection> {
    fn describe(_: &mut Doc) {}
}

impl<T> Input for Option<Extension<T>> {
    fn describe(_: &mut Doc) {}
}

impl<T> Input for Extension<T> {
    fn describe(_: &mut Doc) {}
}

impl<Q: Parameters> Input for Query<Q> {
    fn describe(doc: &mut Doc) {
        Q::describe(doc);
    }
}

impl<F: Form> Input for Body<F> {
    fn describe(doc: &mut Doc) {
        doc.body = Some(F::schema(&mut doc.components));
    }
}

impl<F: Form> Input for OptionalBody<F> {
    fn describe(doc: &mut Doc) {
        doc.body = Some(F::schema(&mut doc.components));
        doc.body_optional = true;
    }
}

impl<T: Output> Output for Result<T, Problem> {
    fn describe(doc: &mut Doc) {
        T::describe(doc);
    }
}

/// Answers with one object: the status, and what it means.
macro_rules! answers {
    ($($type:ident: $status:literal $about:literal;)+) => {$(
        impl<T: Shape> Output for $type<T> {
            fn describe(doc: &mut Doc) {
                let schema = T::schema(&mut doc.components);
                doc.answered($status, $about, schema);
            }
        }
    )+};
}

answers! {
    Json: 200 "OK.";
    Created: 201 "Created.";
    Accepted: 202 "It is recorded; the effect comes later.";
}

impl<T: Shape> Output for Deleted<T> {
    fn describe(doc: &mut Doc) {
        let id = T::schema(&mut doc.components);
        doc.answered(200, "OK.", schema::deleted(id));
    }
}

/// Headers, such as a cookie, before an answer.
impl<H, T: Output> Output for (H, T) {
    fn describe(doc: &mut Doc) {
        T::describe(doc);
    }
}

impl<A: Output, B: Output> Output for Either<A, B> {
    fn describe(doc: &mut Doc) {
        A::describe(doc);
        B::describe(doc);
    }
}

impl Output for Done {
    fn describe(doc: &mut Doc) {
        doc.answered(200, "OK.", schema::done());
    }
}

impl<T: Shape> Output for Listed<T> {
    fn describe(doc: &mut Doc) {
        let entry = T::schema(&mut doc.components);
        doc.listed(entry);
    }
}

impl<T: Output> Output for Written<T> {
    fn describe(doc: &mut Doc) {
        T::describe(doc);
    }
}
