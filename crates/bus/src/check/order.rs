//! The order of the log: publications, slots, drains, deliveries.

use super::{Checker, Frame, Key, Slot};
use crate::log::Entry;

impl Checker {
    pub(super) fn on_order_entry(&mut self, entry: &Entry) {
        match *entry {
            Entry::Subscribed { subscription, serial, priority, .. } => {
                self.subscribed += 1;
                self.known_subscriptions.insert((subscription, serial));
                self.subscriptions.insert((subscription, serial), (priority, self.subscribed));
            }
            Entry::Unsubscribed { subscription, serial } => {
                self.subscriptions.remove(&(subscription, serial));
            }
            Entry::Opened { publication, root, .. } => self.on_opened(publication, root),
            Entry::Closed { publication } => self.on_closed(publication),
            Entry::Raw { publication, subscription, serial } => {
                self.on_recipient(publication, (subscription, serial), true);
            }
            Entry::Admitted { .. } => self.on_admitted(entry),
            Entry::Filled { admission } => self.on_settled(admission, true),
            Entry::Abandoned { admission } => self.on_settled(admission, false),
            Entry::DrainBegan { budget } => self.on_drain(budget),
            Entry::DrainEnded { delivered, cancelled } => self.on_drain_ended(delivered + cancelled),
            Entry::Delivered { .. } => self.on_delivered(entry),
            Entry::Returned { admission, .. } => self.on_returned(admission),
            Entry::Cancelled { publication, admission } => {
                self.on_taken((publication, admission), "cancelled");
            }
            _ => {}
        }
    }

    fn on_opened(&mut self, publication: u64, root: Option<u64>) {
        if publication <= self.last {
            self.breach("PUB-3", format!("publication {publication} began after ordinal {}", self.last));
        }
        self.last = self.last.max(publication);
        let around = self.frames.iter().rev().find_map(|(frame, _)| match frame {
            Frame::Publication(around) => Some(*around),
            _ => None,
        });
        if let Some(around) = around {
            self.parents.insert(publication, around);
        }
        if root != self.active() {
            let active = self.active();
            self.breach(
                "ROOT-1",
                format!("publication {publication} began under {root:?} inside {active:?}"),
            );
        }
        self.frames.push((Frame::Publication(publication), root));
    }

    fn on_closed(&mut self, publication: u64) {
        if self.frames.last().is_some_and(|(frame, _)| *frame == Frame::Publication(publication)) {
            self.frames.pop();
        } else {
            self.breach("PUB-3", format!("publication {publication} ended and was not the innermost"));
            self.frames.retain(|(frame, _)| *frame != Frame::Publication(publication));
        }
        self.recipients.remove(&publication);
        self.forget_parents();
    }

    /// Publications that have ended and left no slot are asked for no more.
    fn forget_parents(&mut self) {
        if self.slots.is_empty() && self.frames.is_empty() {
            self.parents.clear();
        }
    }

    /// A recipient had its turn in a publication.
    fn on_recipient(&mut self, publication: u64, subscription: (u32, u32), raw: bool) {
        let Some(&(priority, order)) = self.subscriptions.get(&subscription) else {
            if raw {
                self.breach("PUB-7", format!("a raw callable was called in {publication} after its removal"));
            }
            return;
        };
        let sorts = (-i64::from(priority), order);
        if let Some(before) = self.recipients.insert(publication, sorts)
            && before > sorts
        {
            let text =
                format!("in publication {publication} a recipient of priority {priority} came too late");
            self.breach("PUB-6", text);
        }
    }

    fn on_admitted(&mut self, entry: &Entry) {
        let &Entry::Admitted {
            publication,
            admission,
            root,
            component,
            registration,
            generation,
            run,
            subscription,
            serial,
            reserved,
        } = entry
        else {
            return;
        };
        if self.faulted || self.tearing_down {
            self.breach("FAULT-2", format!("slot {admission} was admitted after a fault or in a teardown"));
        }
        if admission <= self.last {
            self.breach("PUB-4", format!("slot {admission} was admitted after ordinal {}", self.last));
        }
        self.last = self.last.max(admission);
        self.on_recipient(publication, (subscription, serial), false);
        match self.active() {
            Some(active) if active != root => {
                self.breach("ROOT-1", format!("slot {admission} went to root {root} inside root {active}"));
            }
            Some(_) => {}
            None => self.adopt(root),
        }
        self.use_root(root, "a slot was admitted");
        let subscription = (subscription, serial);
        let slot = Slot { root, component, registration, generation, run, subscription, reserved };
        self.slots.insert((publication, admission), slot);
        self.keys.insert(admission, (publication, admission));
        if let Some(units) = self.limits.units
            && self.slots.len() > units as usize
        {
            self.breach("FAULT-1", format!("slot {admission} is one more than the limit of {units} units"));
        }
    }

    fn on_settled(&mut self, admission: u64, filled: bool) {
        let slot = self.keys.get(&admission).and_then(|key| self.slots.get_mut(key));
        match slot {
            Some(slot) if slot.reserved => slot.reserved = false,
            _ => {
                let how = if filled { "filled" } else { "abandoned" };
                self.breach("ADM-2", format!("slot {admission} was {how} and not reserved"));
            }
        }
    }

    fn on_drain(&mut self, budget: u32) {
        if !self.frames.is_empty() || self.drain.is_some() || self.tearing_down {
            self.breach("DRAIN-3", "a drain began inside other work".into());
        }
        self.drain = Some((budget, 0));
    }

    fn on_drain_ended(&mut self, told: u32) {
        match self.drain.take() {
            Some((_, taken)) if taken == told => {}
            _ => self.breach("DRAIN-1", format!("a drain has told of {told} slots, and not of all it took")),
        }
        self.forget_parents();
    }

    /// A slot was taken out of the line.
    fn on_taken(&mut self, key: Key, how: &str) -> Option<Slot> {
        match &mut self.drain {
            Some((budget, taken)) => {
                *taken += 1;
                if taken > budget {
                    let budget = *budget;
                    self.breach("DRAIN-1", format!("slot {} was {how} beyond the budget of {budget}", key.1));
                }
            }
            None => self.breach("DRAIN-3", format!("slot {} was {how} outside a drain", key.1)),
        }
        if let Some((&head, slot)) = self.slots.first_key_value()
            && head < key
        {
            let clause = match () {
                () if slot.reserved => "ADM-3",
                () if head.0 == key.0 => "PUB-4",
                () if self.encloses(head.0, key.0) => "PUB-2",
                () => "PUB-1",
            };
            self.breach(
                clause,
                format!("slot {} of {} was {how} before slot {} of {}", key.1, key.0, head.1, head.0),
            );
        }
        self.keys.remove(&key.1);
        let slot = self.slots.remove(&key);
        if slot.is_none() {
            self.breach("PUB-1", format!("slot {} was {how} and is not in the line", key.1));
        }
        slot
    }

    /// Whether one publication was open when the other began.
    fn encloses(&self, outer: u64, inner: u64) -> bool {
        let mut at = inner;
        while let Some(&around) = self.parents.get(&at) {
            if around == outer {
                return true;
            }
            at = around;
        }
        false
    }

    fn on_delivered(&mut self, entry: &Entry) {
        let &Entry::Delivered { publication, admission, component, root, author, now_ns, .. } = entry else {
            return;
        };
        self.checked.callbacks += 1;
        if self.faulted {
            self.breach("FAULT-2", format!("slot {admission} was delivered after a fault"));
        }
        match self.frames.last() {
            Some((Frame::Delivery(inside), _)) => {
                let text = format!("slot {admission} was delivered inside the callback of slot {inside}");
                self.breach("COMP-1", text);
            }
            Some(_) => self.breach("DRAIN-3", format!("slot {admission} was delivered inside other work")),
            None => {}
        }
        if now_ns != self.clock.now_ns() {
            self.breach(
                "TIME-1",
                format!("slot {admission} was delivered at {now_ns} ns by a clock of another time"),
            );
        }
        if let Some(slot) = self.on_taken((publication, admission), "delivered") {
            self.check_target(admission, component, &slot, author);
            if slot.root != root {
                self.breach(
                    "ROOT-1",
                    format!("slot {admission} of root {} was delivered under {root}", slot.root),
                );
            }
        }
        self.use_root(root, "a slot was delivered");
        self.check_spent(root, admission);
        self.frames.push((Frame::Delivery(admission), Some(root)));
    }

    fn check_target(&mut self, admission: u64, component: u32, slot: &Slot, author: bool) {
        let now = self.components.get(&component).copied().unwrap_or_default();
        if slot.component != component
            || slot.registration != now.registration
            || slot.generation != now.generation
        {
            self.breach(
                "ADM-4",
                format!("slot {admission} was delivered to another registration or generation"),
            );
        }
        if author && (slot.run == 0 || slot.run != now.run) {
            self.breach(
                "COMP-3",
                format!("slot {admission} reached author code in another run than it arrived in"),
            );
        }
        if !self.subscriptions.contains_key(&slot.subscription) && !self.is_direct(slot.subscription) {
            self.breach("PUB-7", format!("slot {admission} was delivered after its subscription had ended"));
        }
    }

    /// Posts and timers come through ways that are never subscribed to.
    fn is_direct(&self, subscription: (u32, u32)) -> bool {
        !self.known_subscriptions.contains(&subscription)
    }

    fn on_returned(&mut self, admission: u64) {
        if !self.frames.last().is_some_and(|(frame, _)| *frame == Frame::Delivery(admission)) {
            self.breach(
                "COMP-1",
                format!("the callback of slot {admission} returned and was not the innermost"),
            );
        }
        if let Some(at) = self.frames.iter().rposition(|(frame, _)| *frame == Frame::Delivery(admission)) {
            let (_, root) = self.frames.remove(at);
            if let Some(root) = root {
                self.charge_delivery(root);
            }
        }
    }
}
