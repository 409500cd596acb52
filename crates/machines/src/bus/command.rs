//! Commands: which one is handled next, in batches, with the children that handlers capture.
//!
//! # States
//!
//! ```text
//!  send ──► waiting ──begin──► batch ──next──► handled
//!                               ▲ children captured by a handler go in front, in the order of capture
//! ```
//!
//! # Invariants
//!
//! * **D1** a drain handles the batch that was there when it began, in order (CMD-2).
//! * **D2** children come before the next command, depth first, in capture order (CMD-3).
//! * **D3** what is sent meanwhile waits for the next drain (CMD-2).

use alloc::collections::VecDeque;
use alloc::vec::Vec;

/// The commands of one queue; `T` is a command with whatever belongs to it.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Commands<T> {
    /// Grows with each send, moves into the batch when a drain begins.
    waiting: VecDeque<T>,
    /// What this drain still has to handle, next first.
    batch: VecDeque<T>,
    /// Children of the handler that runs now, in capture order.
    children: Vec<T>,
    /// Set between `begin` and `end`.
    draining: bool,
}

impl<T> Default for Commands<T> {
    fn default() -> Self {
        Self { waiting: VecDeque::new(), batch: VecDeque::new(), children: Vec::new(), draining: false }
    }
}

impl<T> Commands<T> {
    /// Adds a command for the next drain.
    pub fn send(&mut self, command: T) {
        self.waiting.push_back(command);
    }

    /// Begins a drain; how many commands it has, or nothing if one is under way.
    pub fn begin(&mut self) -> Option<usize> {
        if self.draining {
            return None;
        }
        self.draining = true;
        core::mem::swap(&mut self.waiting, &mut self.batch);
        Some(self.batch.len())
    }

    /// The next command of the drain. Children captured since the last call come first.
    pub fn take_next(&mut self) -> Option<T> {
        while let Some(child) = self.children.pop() {
            self.batch.push_front(child);
        }
        self.batch.pop_front()
    }

    /// Captures a child of the command that is being handled; handed back outside a drain.
    ///
    /// # Errors
    ///
    /// No drain is under way.
    pub fn capture(&mut self, child: T) -> Result<(), T> {
        if !self.draining {
            return Err(child);
        }
        self.children.push(child);
        Ok(())
    }

    /// Ends the drain. What it has not handled is still to be taken with [`take_next`](Self::take_next) first.
    pub fn end(&mut self) {
        self.draining = false;
    }

    /// The next command of all, for a teardown: pending children, the batch, then what waits.
    pub fn take_any(&mut self) -> Option<T> {
        self.take_next().or_else(|| self.waiting.pop_front())
    }

    /// Commands that wait for the next drain.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Commands in all.
    #[must_use]
    pub fn len(&self) -> usize {
        self.waiting.len() + self.batch.len() + self.children.len()
    }

    /// Whether there is no command.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cmd_3_children_go_depth_first_and_what_is_sent_waits() {
        let mut commands = Commands::default();
        commands.send(1);
        commands.send(2);
        assert_eq!(commands.begin(), Some(2));
        let mut order = Vec::new();
        while let Some(command) = commands.take_next() {
            order.push(command);
            match command {
                1 => {
                    (3..=5).for_each(|child| assert_eq!(commands.capture(child), Ok(())));
                    commands.send(7);
                }
                3 => assert_eq!(commands.capture(6), Ok(())),
                _ => {}
            }
        }
        commands.end();
        assert_eq!(order, [1, 3, 6, 4, 5, 2]);
        assert_eq!((commands.begin(), commands.take_next()), (Some(1), Some(7)));
    }

    #[test]
    fn cmd_2_one_drain_at_a_time_and_no_child_outside_one() {
        let mut commands = Commands::default();
        assert_eq!(commands.capture(1), Err(1));
        commands.send(1);
        assert_eq!(commands.begin(), Some(1));
        assert_eq!(commands.begin(), None);
        commands.send(2);
        assert_eq!(commands.take_next(), Some(1));
        assert_eq!(commands.take_next(), None);
        commands.end();
        assert_eq!(commands.waiting(), 1);
    }
}
