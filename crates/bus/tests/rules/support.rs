//! What the tests of the bus share: a record of calls, and a component that writes into it and does as it is told.
#![allow(dead_code, reason = "each test program uses a part")]

use std::sync::{Arc, Mutex};

use turnkeep_bus::{
    Arrived, Bus, Component, ComponentId, Context, Failure, Hosted, Lifecycle, Maintenance, On, Timer,
};

/// A record that everything in a test writes into.
#[derive(Clone, Default, Debug)]
pub(crate) struct Record(Arc<Mutex<Vec<String>>>);

impl Record {
    pub(crate) fn note(&self, text: impl Into<String>) {
        self.0.lock().unwrap().push(text.into());
    }

    /// What was written since the last call.
    pub(crate) fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }

    /// The same as one line.
    pub(crate) fn line(&self) -> String {
        self.take().join(" ")
    }
}

/// An event with a name and a number.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Say(pub(crate) &'static str, pub(crate) u64);

impl turnkeep_bus::Event for Say {
    const NAME: &'static str = "say";
    fn heap_bytes(&self) -> usize {
        0
    }
    fn record(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.0.as_bytes());
        out.extend_from_slice(&self.1.to_le_bytes());
    }
}

/// What a player does with an event.
pub(crate) type Play = Box<dyn FnMut(&mut Context<'_>, &Say) -> Result<(), Failure> + Send>;

/// A component that notes what it gets and then does as it is told.
pub(crate) struct Player {
    pub(crate) name: &'static str,
    pub(crate) record: Record,
    pub(crate) play: Play,
}

impl Component for Player {
    fn on_start(&mut self, _: &mut Context<'_>) -> Result<(), Failure> {
        Ok(())
    }

    fn on_timer(&mut self, ctx: &mut Context<'_>, timer: &Timer) -> Result<(), Failure> {
        self.record.note(format!("{}({}@{})", self.name, timer.name, ctx.now_ns()));
        (self.play)(ctx, &Say("timer", timer.due_ns))
    }
}

impl On<Say> for Player {
    fn on(&mut self, ctx: &mut Context<'_>, say: &Say) -> Result<(), Failure> {
        self.record.note(format!("{}({})", self.name, say.0));
        (self.play)(ctx, say)
    }
}

/// A component with maintenance in every state.
pub(crate) struct Kept {
    pub(crate) name: &'static str,
    pub(crate) record: Record,
}

impl Component for Kept {
    const MAINTENANCE: Maintenance = Maintenance::Always;

    fn maintain(&mut self, _: &mut Context<'_>, event: &Arrived<'_>) -> Result<(), Failure> {
        let what = event.get::<Say>().map_or(event.name(), |say| say.0);
        self.record.note(format!("{}[{what}]", self.name));
        Ok(())
    }
}

impl On<Say> for Kept {
    fn on(&mut self, _: &mut Context<'_>, say: &Say) -> Result<(), Failure> {
        self.record.note(format!("{}({})", self.name, say.0));
        Ok(())
    }
}

/// A component that notes its lifecycle callbacks.
pub(crate) struct Lived(pub(crate) Record);

impl Lived {
    fn note(&self, what: Lifecycle) -> Result<(), Failure> {
        self.0.note(format!("{what:?}").to_lowercase());
        Ok(())
    }
}

impl Component for Lived {
    fn on_start(&mut self, _: &mut Context<'_>) -> Result<(), Failure> {
        self.note(Lifecycle::Start)
    }
    fn on_stop(&mut self, _: &mut Context<'_>) -> Result<(), Failure> {
        self.note(Lifecycle::Stop)
    }
    fn on_resume(&mut self, _: &mut Context<'_>) -> Result<(), Failure> {
        self.note(Lifecycle::Resume)
    }
    fn on_reset(&mut self, _: &mut Context<'_>) -> Result<(), Failure> {
        self.note(Lifecycle::Reset)
    }
    fn on_degrade(&mut self, _: &mut Context<'_>) -> Result<(), Failure> {
        self.note(Lifecycle::Degrade)
    }
    fn on_fault(&mut self, _: &mut Context<'_>) -> Result<(), Failure> {
        self.note(Lifecycle::Fault)
    }
    fn on_dispose(&mut self, _: &mut Context<'_>) -> Result<(), Failure> {
        self.note(Lifecycle::Dispose)
    }
}

/// A hosted bus with a record.
pub(crate) struct Stage {
    pub(crate) bus: Hosted,
    pub(crate) record: Record,
}

impl Default for Stage {
    fn default() -> Self {
        Self::with(Bus::default())
    }
}

impl Stage {
    pub(crate) fn with(bus: Bus) -> Self {
        Self { bus: Hosted::new(bus), record: Record::default() }
    }

    pub(crate) fn ctx(&mut self) -> Context<'_> {
        self.bus.context()
    }

    /// A running player that is not subscribed to anything.
    pub(crate) fn actor(
        &mut self,
        name: &'static str,
        play: impl FnMut(&mut Context<'_>, &Say) -> Result<(), Failure> + Send + 'static,
    ) -> ComponentId<Player> {
        let player = Player { name, record: self.record.clone(), play: Box::new(play) };
        let id = self.ctx().register(name, player).unwrap();
        self.ctx().start(id).unwrap();
        id
    }

    /// A running player that listens to topics, each with a priority.
    pub(crate) fn player(
        &mut self,
        name: &'static str,
        topics: &[(&str, i32)],
        play: impl FnMut(&mut Context<'_>, &Say) -> Result<(), Failure> + Send + 'static,
    ) -> ComponentId<Player> {
        let id = self.actor(name, play);
        for (topic, priority) in topics {
            self.ctx().subscribe::<Player, Say>(id, topic, *priority).unwrap();
        }
        id
    }

    /// A running player that only notes.
    pub(crate) fn listener(&mut self, name: &'static str, topics: &[(&str, i32)]) -> ComponentId<Player> {
        self.player(name, topics, |_, _| Ok(()))
    }

    /// A raw callable that notes, and then does as it is told.
    pub(crate) fn raw(
        &mut self,
        name: &'static str,
        topic: &str,
        priority: i32,
        play: impl Fn(&mut Context<'_>, &Say) + Send + Sync + 'static,
    ) {
        let record = self.record.clone();
        let raw = move |ctx: &mut Context<'_>, event: &Arrived<'_>| {
            if let Some(say) = event.get::<Say>() {
                record.note(format!("{name}<{}>", say.0));
                play(ctx, say);
            }
        };
        self.ctx().subscribe_raw(name, topic, priority, raw).unwrap();
    }

    pub(crate) fn publish(&mut self, topic: &str, what: &'static str) {
        say(&mut self.ctx(), topic, what);
    }

    pub(crate) fn settle(&mut self) -> String {
        self.bus.settle().unwrap();
        self.record.line()
    }
}

/// Publishes a word.
pub(crate) fn say(ctx: &mut Context<'_>, topic: &str, what: &'static str) {
    ctx.publish_to(topic, Say(what, 0)).unwrap();
}
