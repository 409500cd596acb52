//! The roots of the log: made, paid from, freed.

use super::{Checker, Frame, Root};
use crate::log::Entry;

impl Checker {
    pub(super) fn on_root_entry(&mut self, entry: &Entry) {
        match *entry {
            Entry::RootMade { root } => {
                self.roots.insert(root, Root::default());
            }
            Entry::RootFreed { root, deliveries, commands } => self.on_freed(root, deliveries, commands),
            Entry::ChainOpened { root } => {
                self.use_root(root, "a chain was opened");
                self.frames.push((Frame::Chain, Some(root)));
            }
            Entry::ChainClosed { root } => {
                if self.frames.last() == Some(&(Frame::Chain, Some(root))) {
                    self.frames.pop();
                } else {
                    self.breach(
                        "ROOT-1",
                        format!("the chain of root {root} ended and was not the innermost"),
                    );
                }
            }
            _ => {}
        }
    }

    fn on_freed(&mut self, root: u64, deliveries: u64, commands: u64) {
        if self.slots.values().any(|slot| slot.root == root) && !self.tearing_down {
            self.breach("ROOT-5", format!("root {root} was freed while a slot of it was queued"));
        }
        match self.roots.remove(&root) {
            None => self.breach("ROOT-5", format!("root {root} was freed and not alive")),
            Some(counted) => {
                if counted.deliveries != deliveries {
                    let counted = counted.deliveries;
                    self.breach(
                        "ROOT-3",
                        format!("root {root} paid for {deliveries} deliveries and had {counted}"),
                    );
                }
                if counted.commands != commands {
                    let counted = counted.commands;
                    self.breach(
                        "CMD-6",
                        format!("root {root} paid for {commands} commands and had {counted}"),
                    );
                }
            }
        }
    }

    /// Something is done under a root, which must be alive.
    pub(super) fn use_root(&mut self, root: u64, what: &str) {
        if !self.roots.contains_key(&root) {
            self.breach("ROOT-5", format!("{what} under root {root}, which is not alive"));
            self.roots.insert(root, Root::default());
        }
    }

    pub(super) fn charge_delivery(&mut self, root: u64) {
        if let Some(root) = self.roots.get_mut(&root) {
            root.deliveries += 1;
        }
    }

    pub(super) fn check_spent(&mut self, root: u64, admission: u64) {
        let paid = self.roots.get(&root).map_or(0, |root| root.deliveries);
        if let Some(limit) = self.limits.deliveries
            && paid >= limit
        {
            self.breach(
                "ROOT-4",
                format!("slot {admission} was delivered after root {root} had paid for {paid}"),
            );
        }
    }
}
