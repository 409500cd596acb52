//! The rules of the bus, clause by clause, through its public face.
#![allow(clippy::unwrap_used, reason = "tests end by it")]

mod admission;
mod commands;
mod components;
mod drain;
mod faults;
mod publications;
mod raw;
mod retained;
mod roots;
mod support;
mod time;
