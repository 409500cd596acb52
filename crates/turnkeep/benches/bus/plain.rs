//! A plain synchronous bus: the handlers of a topic are called at once, one after the other.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;

/// Takes a message of any kind.
trait Handler {
    fn handle(&self, message: &dyn Any);
}

struct Sum(Cell<u64>);

impl Handler for Sum {
    fn handle(&self, message: &dyn Any) {
        if let Some(number) = message.downcast_ref::<u64>() {
            self.0.set(self.0.get() + number);
        }
    }
}

/// Handlers by topic.
pub(crate) struct Plain {
    topics: RefCell<HashMap<String, Vec<Rc<dyn Handler>>>>,
}

/// A bus with so many handlers on the benchmark's topic.
pub(crate) fn with(handlers: usize) -> Plain {
    let list = (0..handlers).map(|_| Rc::new(Sum(Cell::new(0))) as Rc<dyn Handler>).collect();
    Plain { topics: RefCell::new(HashMap::from([("bench.topic".to_owned(), list)])) }
}

impl Plain {
    /// Calls the handlers. The list is copied first, so that a handler may change it.
    pub(crate) fn publish(&self, topic: &str, message: &dyn Any) {
        let handlers = self.topics.borrow().get(topic).cloned().unwrap_or_default();
        handlers.iter().for_each(|handler| handler.handle(message));
    }
}
