//! What only the holder of an owner touches: its queue, its lifecycle lane, its machines.

use std::ptr::NonNull;

use turnkeep_machines::gate::Gate;
use turnkeep_machines::pair::{Lane, Pair};
use turnkeep_machines::queue::{Choice, Head, next};

use crate::activation::Act;
use crate::link::{Fifo, Kind, Link};
use crate::owner::Owner;
use crate::record::Record;
use crate::trace::Trace;

/// The holder's part of an owner.
pub(crate) struct Core {
    /// Grants of the owner's own gate.
    pub(crate) gate: Gate,
    /// Places in order: own application records, the marker, ready members, resumes.
    queue: Fifo,
    /// Own lifecycle records in order.
    lifecycle: Fifo,
    /// The stand-in for `lifecycle` in `queue`: a link of the owner's. Set once the owner has its place in
    /// memory.
    marker: *const Link,
    marker_queued: bool,
    /// How many own application records are in `queue`.
    application: u32,
    /// Priority and debt of the two lanes.
    pub(crate) pair: Pair,
    /// Metered records seen in each lane, ever.
    pub(crate) appended: [u32; 2],
    /// The handler that waits and keeps this owner's gate.
    pub(crate) current: Option<Act>,
    /// Whether one of its handlers is unfinished and the owner's class keeps the queue closed meanwhile.
    pub(crate) claimed: bool,
    /// That handler, once its wait has ended, when the owner has a gate of its own.
    resume: Option<Act>,
    /// Runs before everything else: the owner has just arrived here.
    pub(crate) arrival: Option<Record>,
    /// Runs when everything accepted is handled: the owner is sealed.
    pub(crate) last: Option<Record>,
    /// The object has ended.
    pub(crate) ended: bool,
    /// Reservations given back since the waiters were last looked at.
    pub(crate) returned: u32,
}

/// What runs next.
pub(crate) enum Item {
    Record(Record),
    Member(NonNull<Link>),
    Resume(Act),
}

impl Core {
    pub(crate) fn new() -> Self {
        Self {
            gate: Gate::default(),
            queue: Fifo::new(),
            lifecycle: Fifo::new(),
            marker: std::ptr::null(),
            marker_queued: false,
            application: 0,
            pair: Pair::default(),
            appended: [0; 2],
            current: None,
            claimed: false,
            resume: None,
            arrival: None,
            last: None,
            ended: false,
            returned: 0,
        }
    }

    /// Names the owner's marker link.
    pub(crate) fn set_marker(&mut self, marker: &Link) {
        self.marker = std::ptr::from_ref(marker);
    }

    /// Sorts what came in into its places, in order. Returns whether the owner's control link was among it.
    pub(crate) fn sort(
        &mut self,
        links: impl Iterator<Item = NonNull<Link>>,
        claims: bool,
        trace: Trace<'_>,
    ) -> bool {
        let mut control = false;
        for link in links {
            // SAFETY: a link out of the inbox is alive and the holder's.
            match unsafe { link.as_ref() }.kind() {
                Kind::Record => self.append(link, trace),
                Kind::Resume if claims => {
                    // SAFETY: a resume link, its block alive until `begin_resume`.
                    let act = unsafe { Act::from_link(link) };
                    // Dropped meanwhile (an end, a restart): its block is given back.
                    if act.is_over() {
                        act.begin_resume();
                    } else {
                        self.resume = Some(act);
                    }
                }
                kind @ (Kind::Member | Kind::Resume) => {
                    // SAFETY: a link of that kind out of the inbox, alive and ours.
                    unsafe { trace.placed(kind, link) };
                    self.push_place(link);
                }
                Kind::Control => control = true,
                Kind::Marker => unreachable!("a marker is queued by its own holder only"),
            }
        }
        control
    }

    fn append(&mut self, link: NonNull<Link>, trace: Trace<'_>) {
        // SAFETY: a record's link, alive.
        let (lane, reserved, number) = unsafe { Record::peek(link) };
        trace.appended(number);
        if reserved != 0 {
            self.appended[lane as usize] = self.appended[lane as usize].wrapping_add(1);
        }
        match lane {
            Lane::Application => {
                self.application += 1;
                self.push_place(link);
            }
            Lane::Lifecycle => {
                // SAFETY: handed over by the inbox, in no list now.
                unsafe { self.lifecycle.push_back(link) };
                self.queue_marker();
            }
        }
    }

    fn queue_marker(&mut self) {
        if !self.marker_queued && !self.lifecycle.is_empty() {
            self.marker_queued = true;
            if let Some(marker) = NonNull::new(self.marker.cast_mut()) {
                self.push_place(marker);
            }
        }
    }

    /// Appends a place.
    pub(crate) fn push_place(&mut self, link: NonNull<Link>) {
        // SAFETY: the holder hands over a link that is in no list; it stays alive until popped.
        unsafe { self.queue.push_back(link) };
    }

    /// The next thing to run, if there is one; `on_hold`: own application records may not start.
    pub(crate) fn pick(&mut self, on_hold: bool) -> Option<Item> {
        if let Some(record) = self.arrival.take() {
            return Some(Item::Record(record));
        }
        if self.claimed {
            return self.resume.take().map(Item::Resume);
        }
        loop {
            let application = self.application > 0 && !on_hold;
            match next(self.pair, self.head(on_hold), application, !self.lifecycle.is_empty()) {
                Choice::Idle => return None,
                Choice::Head => return self.queue.pop_front().map(|link| self.place(link)),
                Choice::LifecycleFirst => return self.pop_lifecycle(),
                Choice::Lifecycle => {
                    self.drop_marker();
                    let record = self.pop_lifecycle();
                    self.queue_marker();
                    return record;
                }
                Choice::DropMarker => self.drop_marker(),
                Choice::MarkerToBack => {
                    self.drop_marker();
                    self.queue_marker();
                }
            }
        }
    }

    /// Puts own application records behind everything else, both in their order. For an owner that is handed over:
    /// they do not start, and resumes and members must not wait for them.
    pub(crate) fn others_first(&mut self) {
        // Whatever stands at the head: what is behind it must not meet a record that may not start.
        if self.application > 0 {
            let own = self.part();
            self.join(own);
        }
    }

    /// Parts own application records, in order, from the rest of the queue.
    fn part(&mut self) -> Fifo {
        let (mut own, mut others) = (Fifo::new(), Fifo::new());
        while let Some(kind) = self.queue.peek() {
            let Some(link) = self.queue.pop_front() else { break };
            let to = if kind == Kind::Record { &mut own } else { &mut others };
            // SAFETY: handed from one list of the holder's to another.
            unsafe { to.push_back(link) };
        }
        self.queue = others;
        own
    }

    /// Appends what `part` has parted.
    fn join(&mut self, mut own: Fifo) {
        while let Some(link) = own.pop_front() {
            self.push_place(link);
        }
    }

    /// Takes own application records out, in order.
    pub(crate) fn take_application(&mut self) -> Vec<Record> {
        self.application = 0;
        let mut own = self.part();
        // SAFETY: a record's link, popped, used once.
        std::iter::from_fn(|| own.pop_front().map(|link| unsafe { Record::from_link(link) })).collect()
    }

    /// Puts them back: behind what else is queued, in front of own records that came since.
    pub(crate) fn put_application(&mut self, records: Vec<Record>) {
        let since = self.part();
        for record in records {
            self.application += 1;
            self.push_place(record.into_link());
        }
        self.join(since);
    }

    fn head(&self, on_hold: bool) -> Head {
        match self.queue.peek() {
            None => Head::Nothing,
            Some(Kind::Record) if on_hold => Head::Held,
            Some(Kind::Record) => Head::Own,
            Some(Kind::Marker) => Head::Marker,
            Some(Kind::Member) => Head::Member,
            Some(Kind::Resume | Kind::Control) => Head::Resume,
        }
    }

    fn place(&mut self, link: NonNull<Link>) -> Item {
        // SAFETY: just popped, alive and ours.
        match unsafe { link.as_ref() }.kind() {
            Kind::Record => {
                self.application -= 1;
                // SAFETY: a record's link, popped, used once.
                Item::Record(unsafe { Record::from_link(link) })
            }
            // SAFETY: a resume link, popped.
            Kind::Resume => Item::Resume(unsafe { Act::from_link(link) }),
            _ => Item::Member(link),
        }
    }

    fn pop_lifecycle(&mut self) -> Option<Item> {
        // SAFETY: only record links are in the lifecycle lane; popped, used once.
        self.lifecycle.pop_front().map(|link| Item::Record(unsafe { Record::from_link(link) }))
    }

    fn drop_marker(&mut self) {
        self.marker_queued = false;
        self.queue.pop_front();
    }

    /// Whether `pick` would find something.
    pub(crate) fn has_work(&self, on_hold: bool) -> bool {
        if self.arrival.is_some() {
            return true;
        }
        if self.claimed {
            return self.resume.is_some();
        }
        !self.lifecycle.is_empty() || (!self.queue.is_empty() && self.head(on_hold) != Head::Held)
    }

    /// The handler whose resume came out was cancelled: its block is given back.
    pub(crate) fn forget_resume(&mut self) {
        if let Some(act) = self.resume.take() {
            let over = !act.begin_resume();
            debug_assert!(over, "a handler of an ended object was dropped");
        }
    }

    /// The object has ended: takes its own records out. Members and resumes of others keep their places.
    pub(crate) fn take_own_records(&mut self) -> Vec<Record> {
        let mut own: Vec<Record> = self.arrival.take().into_iter().chain(self.last.take()).collect();
        while let Some(Item::Record(record)) = self.pop_lifecycle() {
            own.push(record);
        }
        // The marker stays where it is: it stands for nothing, and comes out as such.
        own.extend(self.take_application());
        own
    }

    /// The owner is gone: drops what is left, and with it what it kept alive.
    pub(crate) fn abandon(&mut self, left: impl Iterator<Item = NonNull<Link>>) {
        self.sort(left, false, Trace::NONE);
        self.claimed = false;
        while let Some(item) = self.pick(false) {
            match item {
                Item::Record(record) => drop(record),
                // SAFETY: a member link, popped, used once.
                Item::Member(link) => drop(unsafe { Owner::from_link(link) }),
                // A handler that waits holds a count of its owners, so an owner that is gone has none.
                Item::Resume(_) => {}
            }
        }
        self.last = None;
    }
}
