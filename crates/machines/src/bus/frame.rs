//! Frames: the contexts that are open on a bus, innermost last, and the root that each works under.
//!
//! # States
//!
//! ```text
//!  open Publication(p) ─┐                         ┌─ close
//!  open Delivery        ├─► a stack of frames ────┤
//!  open Command, Chain ─┘   the top is active     └─ close, in stack order only
//! ```
//!
//! A publication inherits the root of the frame around it. A frame without a root gets one when something in it
//! first needs one, together with every frame around it that lacks one: they are one chain of work, so they pay
//! from one budget.
//!
//! # Invariants
//!
//! * **F1** frames close in stack order; another order breaks the machine (PUB-3).
//! * **F2** the active root is the top frame's (ROOT-1, KEEP-1).
//! * **F3** an empty publication makes no root (ROOT-1).

use alloc::vec::Vec;

use super::root::Root;

/// What a frame is open for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Kind {
    /// A publication.
    Publication,
    /// A delivery, or the destructor of a capture.
    Delivery,
    /// The handler of a command.
    Command,
    /// A stretch of code under the root of a retained value.
    Chain,
    /// A batch of direct invocations.
    Invocation,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Frame {
    kind: Kind,
    /// Inherited, given at the opening, or made later; never changed once set.
    root: Option<Root>,
}

/// How many frames of each kind are open.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Open {
    /// Publications.
    pub publications: u32,
    /// Deliveries.
    pub deliveries: u32,
    /// Commands.
    pub commands: u32,
    /// Chains.
    pub chains: u32,
    /// Invocations.
    pub invocations: u32,
}

/// The open frames of one bus.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Frames {
    stack: Vec<Frame>,
    open: Open,
    broken: Option<&'static str>,
}

impl Frames {
    /// Opens a frame that inherits the active root.
    #[inline]
    pub fn open(&mut self, kind: Kind) -> Option<Root> {
        let root = self.active();
        self.push(kind, root);
        root
    }

    /// Opens a frame under `root`, or under none until one is needed.
    #[inline]
    pub fn open_under(&mut self, kind: Kind, root: Option<Root>) {
        self.push(kind, root);
    }

    #[inline]
    fn push(&mut self, kind: Kind, root: Option<Root>) {
        *self.count(kind) += 1;
        self.stack.push(Frame { kind, root });
    }

    #[inline]
    fn count(&mut self, kind: Kind) -> &mut u32 {
        match kind {
            Kind::Publication => &mut self.open.publications,
            Kind::Delivery => &mut self.open.deliveries,
            Kind::Command => &mut self.open.commands,
            Kind::Chain => &mut self.open.chains,
            Kind::Invocation => &mut self.open.invocations,
        }
    }

    /// Closes the top frame; the root it worked under, which the caller now releases once.
    #[inline]
    #[must_use]
    pub fn close(&mut self, kind: Kind) -> Option<Root> {
        match self.stack.last() {
            Some(top) if top.kind == kind => {
                let root = top.root;
                self.stack.pop();
                *self.count(kind) -= 1;
                root
            }
            _ => {
                self.broken = Some("PUB-3: frames close in stack order");
                None
            }
        }
    }

    /// The root that work is done under now.
    #[inline]
    #[must_use]
    pub fn active(&self) -> Option<Root> {
        self.stack.last().and_then(|top| top.root)
    }

    /// Whether a frame is open.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.stack.is_empty()
    }

    /// How deep the frames are nested.
    #[must_use]
    pub fn depth(&self) -> usize {
        self.stack.len()
    }

    /// Puts a new root under the top frame and every frame around it that has none; how many frames those were.
    ///
    /// Each of them is a holder: with `make` as the first hold, `n - 1` more are to be taken.
    #[must_use]
    pub fn adopt(&mut self, root: Root) -> u32 {
        let bare = self.stack.iter_mut().rev().take_while(|frame| frame.root.is_none());
        bare.map(|frame| frame.root = Some(root)).count() as u32
    }

    /// How many frames of each kind are open.
    #[must_use]
    pub const fn counts(&self) -> Open {
        self.open
    }

    /// Why the machine is broken, if it is.
    #[must_use]
    pub const fn broken(&self) -> Option<&'static str> {
        self.broken
    }
}

#[cfg(test)]
mod tests {
    use super::super::root::Roots;
    use super::*;

    #[test]
    fn root_1_a_nested_publication_inherits_and_an_empty_one_makes_no_root() {
        let (mut frames, mut roots) = (Frames::default(), Roots::default());
        assert_eq!(frames.open(Kind::Publication), None);
        assert_eq!(frames.open(Kind::Publication), None);
        let root = roots.make(0);
        assert_eq!(frames.adopt(root), 2, "the publication around it is the same chain");
        assert_eq!(frames.open(Kind::Publication), Some(root));
        for _ in 0..3 {
            assert_eq!(frames.close(Kind::Publication), Some(root));
        }
        assert_eq!(frames.open(Kind::Publication), None);
        assert_eq!(frames.close(Kind::Publication), None);
        assert_eq!(frames.counts(), Open::default());
    }

    #[test]
    fn keep_1_a_chain_puts_the_root_around_it_back() {
        let (mut frames, mut roots) = (Frames::default(), Roots::default());
        let (outer, inner) = (roots.make(0), roots.make(0));
        frames.open_under(Kind::Delivery, Some(outer));
        frames.open_under(Kind::Chain, Some(inner));
        assert_eq!(frames.active(), Some(inner));
        let _ = frames.close(Kind::Chain);
        assert_eq!(frames.active(), Some(outer));
    }

    #[test]
    fn pub_3_another_order_of_closing_breaks_the_machine_for_ever() {
        let mut frames = Frames::default();
        frames.open(Kind::Publication);
        frames.open(Kind::Command);
        assert_eq!(frames.close(Kind::Publication), None);
        assert!(frames.broken().is_some());
        let _ = frames.close(Kind::Command);
        assert!(frames.broken().is_some());
        assert_eq!(frames.depth(), 1);
    }
}
