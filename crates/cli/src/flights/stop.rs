//! Ctrl-C: the first one asks the run to come to its end with what it has, the second stops the program.

use std::process;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use super::tell;

/// The status of a program that was interrupted, after the shell's custom.
const INTERRUPTED: i32 = 130;

/// Whether the run is to come to its end.
#[derive(Debug, Default)]
pub(crate) struct Stop(AtomicBool);

impl Stop {
    /// Asks for it.
    pub(crate) fn ask(&self) {
        self.0.store(true, Ordering::Release);
    }

    /// Whether somebody has.
    pub(crate) fn is_asked(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }

    /// Lets Ctrl-C ask from now on, on a thread of its own.
    pub(crate) fn on_ctrl_c() -> Arc<Self> {
        let stop = Arc::new(Self::default());
        let asked = Arc::clone(&stop);
        // A program without this thread ends at the first Ctrl-C, as programs do.
        let _ = thread::Builder::new().name("ctrl-c".into()).spawn(move || listen(&asked));
        stop
    }
}

fn listen(stop: &Stop) {
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_io().build() else { return };
    runtime.block_on(async {
        while tokio::signal::ctrl_c().await.is_ok() {
            if stop.is_asked() {
                process::exit(INTERRUPTED);
            }
            stop.ask();
            tell(&"interrupted: what has begun comes to its end; once more to stop at once");
        }
    });
}
