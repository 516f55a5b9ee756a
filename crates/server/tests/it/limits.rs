//! Limits and budgets: what can be set, what holds, and what several gateways have in common.

mod budgets;
mod parts;
mod records;
mod redis;
mod rules;
mod sharing;
mod users;
