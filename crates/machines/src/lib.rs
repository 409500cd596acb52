//! The pure rules of Turnkeep: machines that decide and do nothing.
//!
//! No machine here can name a thread, a clock or a lock. Time is an argument, outputs are values.
#![no_std]

extern crate alloc;

pub mod defer;
pub mod join;
