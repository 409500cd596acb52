//! Objects come and go.

use super::Checker;
use super::world::Object;
use crate::event::Event;

impl Checker {
    pub(super) fn on_life(&mut self, event: Event) {
        match event {
            Event::Named {
                object,
                kind,
                type_name,
                id,
                shares_gate,
                claims,
                application_records,
                application_bytes,
                lifecycle_records,
                lifecycle_bytes,
                ..
            } => {
                let limits = [(application_records, application_bytes), (lifecycle_records, lifecycle_bytes)];
                let mut made = Object::new(kind, &id.0, &type_name.0, limits);
                (made.shares_gate, made.claims) = (shares_gate, claims);
                self.world.objects.insert(object, made);
            }
            Event::Made { object } => {
                if let Some(object) = self.world.objects.get_mut(&object) {
                    object.made = true;
                }
            }
            Event::Ended { object, .. } => {
                if let Some(found) = self.world.objects.get_mut(&object) {
                    found.ended = self.now.clone();
                    found.claim = None;
                    found.owed_completion = None;
                }
                self.world.forget_if_over(object);
            }
            Event::NodeEnded { forced } => {
                self.world.ended = Some(forced || self.world.ended == Some(true));
            }
            _ => {}
        }
    }
}
