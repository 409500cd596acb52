//! The rules of the ordered bus, machine by machine.
//!
//! | file | decides |
//! |---|---|
//! | [`ordinal`] | the numbers that fix the order |
//! | [`mod@line`] | which slot is the head, with late recipients in front of nested work |
//! | [`reservation`] | how a granted place is settled, once |
//! | [`frame`] | which contexts are open and which root is active |
//! | [`root`] | who keeps a root alive and what it has paid for |
//! | [`charge`] | whether there is room for another unit, for more bytes |
//! | [`drain`] | when a drain or teardown may begin, and what becomes of the head |
//! | [`command`] | which command is handled next |
//! | [`timer`] | which timer fires next |
//! | [`life`] | the states of a component, its generations and runs |
//! | [`fault`] | that the first fault stays |
//! | [`dispatch`] | all of it, for one bus |

pub mod charge;
pub mod command;
pub mod dispatch;
pub mod drain;
pub mod fault;
pub mod frame;
pub mod life;
pub mod line;
pub mod ordinal;
pub mod reservation;
pub mod root;
pub mod timer;

#[cfg(test)]
mod tests;
