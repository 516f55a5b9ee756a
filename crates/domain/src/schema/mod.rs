//! JSON Schema 2020-12, as `OpenAPI` 3.1 has it: the words in which requests and answers are described, and
//! [`Shape`], by which a type says what it looks like as JSON. Types that answers show are declared with
//! [`view!`](crate::view), which makes the type, its JSON and its schema from one list of fields.

mod shapes;
mod view;
mod words;

pub use view::{
    Absent, Closed, Components, Member, Members, Rfc3339, Shape, closed, component, describe, field_name,
};
pub use words::*;
