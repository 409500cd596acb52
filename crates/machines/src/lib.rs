//! The pure rules of Turnkeep: machines that decide and do nothing.
//!
//! No machine here can name a thread, a clock or a lock. Time is an argument, outputs are values, and every
//! machine is `Clone + Eq + Hash + Debug`, so that the code a model checker explores is the code that runs.
//!
//! | file | decides |
//! |---|---|
//! | [`lane`] | whether a record may be admitted to a lane, on both axes, in one step |
//! | [`pair`] | which lane of an owner goes next, and when a debt is owed |
//! | [`queue`] | what runs next under a gate that several owners share |
//! | [`gate`] | grants: who runs, by numbers that never repeat |
//! | [`budget`] | when a holder has had its slice |
//! | [`wait`] | which waits and yields are allowed where |
//! | [`cycle`] | whether a wait would close a circle of waits |
//! | [`defer`] | what a handler may register for after its end |
//! | [`timer`] | when a timer is due and what a late tick stands for |
//! | [`rate`] | how often a thing that repeats is said |
//! | [`topic`] | names of topics, and patterns that match them |
//! | [`join`] | the steps of one Actor's move |
//! | [`order`] | which ready gate goes next when one thread runs them all by a seed |
//! | [`bus`] | the rules of the ordered bus, a folder of machines |
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod budget;
pub mod bus;
pub mod cycle;
pub mod defer;
pub mod gate;
pub mod join;
pub mod lane;
pub mod order;
pub mod pair;
pub mod queue;
pub mod rate;
pub mod timer;
pub mod topic;
pub mod wait;
