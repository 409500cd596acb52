//! How fast the simulated clock goes: as fast as the rows are taken, or so many minutes a real second.

use std::sync::Arc;
use std::time::{Duration, Instant};

use turnkeep::Clock;

use super::super::options::Speed;
use super::super::stop::Stop;

/// How long a paced clock stands still at most, and how soon a stop is noticed.
const STEP: Duration = Duration::from_millis(10);

/// Moves the simulated clock.
pub(super) struct Pace {
    clock: Clock,
    speed: Speed,
    began: Instant,
    stop: Arc<Stop>,
}

impl Pace {
    pub(super) fn new(clock: Clock, speed: Speed, stop: Arc<Stop>) -> Self {
        Self { clock, speed, began: Instant::now(), stop }
    }

    /// Comes back when the clock shows `moment`; `false`: nothing more is to be handed out.
    pub(super) async fn reach(&self, moment: Duration) -> bool {
        let Speed::Minutes(minutes) = self.speed else {
            self.clock.advance_to(moment);
            return !self.stop.is_asked();
        };
        while !self.stop.is_asked() {
            let now = self.began.elapsed() * 60 * minutes;
            if now >= moment {
                self.clock.advance_to(moment);
                return true;
            }
            self.clock.advance_to(now);
            let left = (moment - now) / (60 * minutes);
            tokio::time::sleep(left.clamp(Duration::from_millis(1), STEP)).await;
        }
        false
    }
}
