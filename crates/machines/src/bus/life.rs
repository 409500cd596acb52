//! The life of a component: which state follows which trigger, and which callbacks may still reach it.
//!
//! # Transitions
//!
//! | state | trigger → next |
//! |---|---|
//! | Ready | Start → Starting, Reset → Resetting, Dispose → Disposing |
//! | Starting | Done → Running, Stop → Stopping, Fault → Faulting |
//! | Running | Stop → Stopping, Degrade → Degrading, Fault → Faulting |
//! | Stopping | Done → Stopped, Fault → Faulting |
//! | Stopped | Resume → Resuming, Reset → Resetting, Dispose → Disposing, Fault → Faulting |
//! | Resuming | Done → Running, Stop → Stopping, Fault → Faulting |
//! | Resetting | Done → Ready, Fault → Faulting |
//! | Degrading | Done → Degraded, Fault → Faulting |
//! | Degraded | Resume → Resuming, Stop → Stopping, Fault → Faulting |
//! | Faulting | Done → Faulted |
//! | Faulted | Reset → Resetting, Dispose → Disposing |
//! | Disposing | Done → Disposed |
//! | Disposed | nothing |
//!
//! # Generation and run
//!
//! A *generation* begins with the registration and ends with a reset or a disposal: what was queued for it before
//! is cancelled after. A *run* begins each time the component comes to be Running. Author code takes an event
//! only in the run in which it arrived; so what arrived before a stop, or during one, never reaches the author
//! after a resume, while maintenance, which belongs to the generation, still sees it.
//!
//! # Invariants
//!
//! * **C1** a transition that the table does not list changes nothing and names state and trigger (COMP-6).
//! * **C2** generations and runs only rise (COMP-4).

/// Where a component is in its life.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum State {
    /// Registered, not started.
    #[default]
    Ready,
    /// Its start callback runs.
    Starting,
    /// It takes events.
    Running,
    /// Its stop callback runs.
    Stopping,
    /// It takes no events until it is resumed.
    Stopped,
    /// Its resume callback runs.
    Resuming,
    /// Its reset callback runs.
    Resetting,
    /// Its degrade callback runs.
    Degrading,
    /// It goes on in a smaller way of its own: no events.
    Degraded,
    /// Its fault callback runs.
    Faulting,
    /// A handler has failed; only reset and dispose are left.
    Faulted,
    /// Its dispose callback runs.
    Disposing,
    /// Over.
    Disposed,
}

/// What asks for the next state.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Trigger {
    /// Begin.
    Start,
    /// Pause.
    Stop,
    /// Go on after a stop or a degradation.
    Resume,
    /// Back to the beginning.
    Reset,
    /// Go on in a smaller way.
    Degrade,
    /// A handler has failed.
    Fault,
    /// End for good.
    Dispose,
    /// The callback of the current state has ended.
    Done,
}

/// A transition that does not exist.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct NoTransition {
    /// Where the component is.
    pub state: State,
    /// What was asked of it.
    pub trigger: Trigger,
}

/// The life of one registration.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Life {
    state: State,
    /// Rises with each reset and disposal.
    generation: u32,
    /// Rises each time the component comes to be Running; 0 before the first.
    runs: u32,
}

impl Life {
    /// Where the component is.
    #[must_use]
    #[inline]
    pub const fn state(&self) -> State {
        self.state
    }

    /// The current generation.
    #[must_use]
    #[inline]
    pub const fn generation(&self) -> u32 {
        self.generation
    }

    /// The current run, 0 while the component is not Running.
    #[must_use]
    #[inline]
    pub const fn run(&self) -> u32 {
        if matches!(self.state, State::Running) { self.runs } else { 0 }
    }

    /// Moves to the next state, and returns it.
    ///
    /// # Errors
    ///
    /// The table has no such transition; nothing has changed.
    pub const fn on(&mut self, trigger: Trigger) -> Result<State, NoTransition> {
        let next = match (self.state, trigger) {
            (State::Ready, Trigger::Start) => State::Starting,
            (State::Ready | State::Stopped | State::Faulted, Trigger::Reset) => State::Resetting,
            (State::Ready | State::Stopped | State::Faulted, Trigger::Dispose) => State::Disposing,
            (State::Stopped | State::Degraded, Trigger::Resume) => State::Resuming,
            (State::Starting | State::Resuming | State::Running | State::Degraded, Trigger::Stop) => {
                State::Stopping
            }
            (State::Running, Trigger::Degrade) => State::Degrading,
            (
                State::Starting
                | State::Running
                | State::Stopping
                | State::Stopped
                | State::Resuming
                | State::Resetting
                | State::Degrading
                | State::Degraded,
                Trigger::Fault,
            ) => State::Faulting,
            (State::Starting | State::Resuming, Trigger::Done) => State::Running,
            (State::Stopping, Trigger::Done) => State::Stopped,
            (State::Resetting, Trigger::Done) => State::Ready,
            (State::Degrading, Trigger::Done) => State::Degraded,
            (State::Faulting, Trigger::Done) => State::Faulted,
            (State::Disposing, Trigger::Done) => State::Disposed,
            (state, trigger) => return Err(NoTransition { state, trigger }),
        };
        match next {
            State::Running => self.runs += 1,
            State::Resetting | State::Disposing => self.generation += 1,
            _ => {}
        }
        self.state = next;
        Ok(next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STATES: [State; 13] = [
        State::Ready,
        State::Starting,
        State::Running,
        State::Stopping,
        State::Stopped,
        State::Resuming,
        State::Resetting,
        State::Degrading,
        State::Degraded,
        State::Faulting,
        State::Faulted,
        State::Disposing,
        State::Disposed,
    ];
    const TRIGGERS: [Trigger; 8] = [
        Trigger::Start,
        Trigger::Stop,
        Trigger::Resume,
        Trigger::Reset,
        Trigger::Degrade,
        Trigger::Fault,
        Trigger::Dispose,
        Trigger::Done,
    ];

    /// The table of the head of this file, one letter a transition, in the order of the two lists above.
    const TABLE: [&str; 13] = [
        "s--r--d-", // Ready
        "-t---f-R", // Starting
        "-t--gf--", // Running
        "-----f-S", // Stopping
        "--ur-fd-", // Stopped
        "-t---f-R", // Resuming
        "-----f-Y", // Resetting
        "-----f-D", // Degrading
        "-tu--f--", // Degraded
        "-------F", // Faulting
        "---r--d-", // Faulted
        "-------X", // Disposing
        "--------", // Disposed
    ];

    fn named(letter: u8) -> Option<State> {
        let letters = b"YsRtSurgDfFdX";
        letters.iter().position(|&known| known == letter).map(|at| STATES[at])
    }

    #[test]
    fn comp_6_the_machine_has_the_transitions_of_the_table_and_no_other() {
        for (state, row) in STATES.into_iter().zip(TABLE) {
            for (trigger, letter) in TRIGGERS.into_iter().zip(row.bytes()) {
                let mut life = Life { state, generation: 3, runs: 5 };
                let before = life;
                match named(letter) {
                    Some(next) => assert_eq!(life.on(trigger), Ok(next), "{state:?} {trigger:?}"),
                    None => {
                        assert_eq!(life.on(trigger), Err(NoTransition { state, trigger }));
                        assert_eq!(life, before);
                    }
                }
            }
        }
    }

    #[test]
    fn comp_4_reset_and_dispose_begin_a_generation_and_running_begins_a_run() {
        let mut life = Life::default();
        let mut go = |triggers: &[Trigger]| {
            triggers.iter().for_each(|&trigger| assert!(life.on(trigger).is_ok()));
            (life.generation(), life.run())
        };
        assert_eq!(go(&[Trigger::Start]), (0, 0));
        assert_eq!(go(&[Trigger::Done]), (0, 1));
        assert_eq!(go(&[Trigger::Stop, Trigger::Done]), (0, 0));
        assert_eq!(go(&[Trigger::Resume, Trigger::Done]), (0, 2), "the run before the stop is over");
        assert_eq!(go(&[Trigger::Stop, Trigger::Done, Trigger::Reset]), (1, 0));
        assert_eq!(go(&[Trigger::Done, Trigger::Start, Trigger::Done]), (1, 3));
    }
}
