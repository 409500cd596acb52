//! Timers: one tick at a time, with exact numbers, and none when the timer is over.

use super::Checker;
use super::world::Timer;
use crate::event::Event;
use crate::field::{RecordId, TimerId};

impl Checker {
    pub(super) fn on_timer(&mut self, event: Event) {
        match event {
            Event::TimerRegistered { timer, object, .. } => {
                let Some(last) = self.now.clone() else { return };
                let made = Timer { object, tick: None, running: None, delivery: None, scheduled: None, last };
                self.world.timers.insert(timer, made);
            }
            Event::TimerReplaced { timer, .. } | Event::TimerCancelled { timer } => self.on_timer_over(timer),
            Event::TickQueued { timer, record } => self.on_tick_queued(timer, record),
            Event::TickBegan { timer, record, delivery, scheduled, skipped } => {
                self.on_tick(timer, record, delivery, scheduled, skipped);
            }
            _ => {}
        }
    }

    /// Its number is not given again, so what comes of it later is a tick of a timer that is over.
    fn on_timer_over(&mut self, id: TimerId) {
        self.world.timers.remove(&id);
    }

    fn on_tick_queued(&mut self, id: TimerId, record: RecordId) {
        let Some(now) = self.now.clone() else { return };
        self.world.ticks.insert(record);
        let Some(timer) = self.world.timers.get_mut(&id) else { return };
        // One that runs is not pending.
        let running = timer.running;
        let before = timer.tick.replace(record).filter(|before| running != Some(*before));
        let last = std::mem::replace(&mut timer.last, now);
        if before.is_some_and(|before| before != record && self.world.records.contains_key(&before)) {
            let text = format_args!("timer {id} has a tick pending and queues record {record}");
            self.broken("TIMER-4", text, [Some(&last)]);
        }
    }

    fn on_tick(&mut self, id: TimerId, record: RecordId, delivery: u64, scheduled: u64, skipped: u64) {
        let Some(now) = self.now.clone() else { return };
        let Some(timer) = self.world.timers.get_mut(&id) else {
            return self.broken("TIMER-3", format_args!("timer {id} ticks and is over"), []);
        };
        let running = timer.running.replace(record).filter(|before| *before != record);
        let last = std::mem::replace(&mut timer.last, now);
        let before = (timer.delivery.replace(delivery), timer.scheduled.replace(scheduled));
        let object = timer.object;
        if running.is_some_and(|before| self.world.records.contains_key(&before)) {
            self.broken("TIMER-1", format_args!("two ticks of timer {id} run at once"), [Some(&last)]);
        }
        // A timer with a gate of its own looks whether its object ends, and begins: the end may come between.
        let is_apart = self.world.records.get(&record).is_some_and(|tick| tick.object != object);
        if !is_apart && self.world.objects.get(&object).is_none_or(|object| object.ended.is_some()) {
            self.broken("TIMER-3", format_args!("timer {id} ticks and its object has ended"), [Some(&last)]);
        }
        if let (Some(one), Some(other)) = before
            && (delivery != one.wrapping_add(1) || scheduled != other.wrapping_add(skipped).wrapping_add(1))
        {
            let text = format!(
                "timer {id} ticks with delivery {delivery}, scheduled {scheduled}, skipped {skipped} after {one} and {other}"
            );
            self.broken("TIMER-2", text, [Some(&last)]);
        }
    }
}
