//! Tasks of the program's own on the node's workers.

use std::any::TypeId;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use hashbrown::HashMap;
use parking_lot::Mutex;
use turnkeep_scheduler::access::{Ending, Start, Started};
use turnkeep_scheduler::completion::{Completer, Outcome, Wait, completion};
use turnkeep_scheduler::owner::Owner;
use turnkeep_scheduler::record::{Owned, Record, Refusal, Work};

use crate::call::check_open;
use crate::caught::caught;
use crate::directory::in_order;
use crate::error::{Error, ErrorKind};
use crate::id::ObjectKind;
use crate::node::NodeInner;
use crate::object::{Hooks, Object, object_of};

/// A task under way. Dropping it lets the task go on.
///
/// # Errors
///
/// `InternalFailure` if the task panicked, `ShuttingDown` if the node ended first.
#[must_use = "dropping it lets the task go on by itself"]
pub struct Task<R: Send + 'static>(Wait<Result<R, String>>);

impl<R: Send + 'static> Future for Task<R> {
    type Output = Result<R, Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0).poll(cx).map(|outcome| match outcome {
            Outcome::Done(Ok(result)) => Ok(result),
            Outcome::Done(Err(panic)) => {
                let text = format!("the task panicked ({panic}); mend it and spawn it again");
                Err(Error::new(ErrorKind::InternalFailure, "task", "run", &text))
            }
            Outcome::Expired | Outcome::Dropped => {
                let text = "the node ended before the task; spawn it on a running node";
                Err(Error::new(ErrorKind::ShuttingDown, "task", "run", text))
            }
        })
    }
}

impl<R: Send + 'static> fmt::Debug for Task<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Task")
    }
}

struct TaskWork<F: Future<Output: Send + 'static>> {
    future: F,
    told: Completer<Result<F::Output, String>>,
}

impl<F: Future<Output: Send> + Send + 'static> Work for TaskWork<F> {
    fn start(work: Owned<Self>, start: Start<'_>) -> Started {
        let this = work.into_inner();
        start.detached(async move {
            let ended = caught(this.future).await;
            let _ = this.told.complete(ended);
            Ending::end(Refusal::Ended)
        })
    }

    /// Whoever waits learns it from the drop.
    fn refuse(self, _: &Owner, _: Refusal) {}
}

/// The tasks of a node that have not ended, by their generation: a node that ends ends them.
#[derive(Default)]
pub(crate) struct Tasks(Mutex<HashMap<u64, Arc<Owner>>>);

impl Tasks {
    fn insert(&self, task: &Arc<Owner>) {
        self.0.lock().insert(object_of(task).generation.0, task.clone());
    }

    pub(crate) fn remove(&self, task: &Object) {
        let ended = self.0.lock().remove(&task.generation.0);
        drop(ended);
    }

    pub(crate) fn all(&self) -> Vec<Arc<Owner>> {
        in_order(self.0.lock().values().cloned().collect())
    }
}

static NO_HOOKS: Hooks = Hooks {
    type_id: TypeId::of::<()>,
    leave: None,
    close: |_, _| unreachable!("tasks are in no directory"),
    last: |_, _| unreachable!("tasks are not closed"),
    restart: |_| unreachable!("tasks are not made anew"),
};

/// Runs `future` on the node's workers.
pub(crate) fn spawn<F>(node: &Arc<NodeInner>, future: F) -> Task<F::Output>
where
    F: Future<Output: Send> + Send + 'static,
{
    let (told, wait) = completion();
    let info = node.task_info();
    if check_open(node, &info.name, "spawn").is_err() {
        // Whoever waits learns it from the drop.
        return Task(wait);
    }
    let object = Object::new(
        ObjectKind::Task,
        info.name.clone(),
        node.next_generation(),
        info,
        false,
        node.clone(),
        &NO_HOOKS,
    );
    let owner = Owner::new(node.task_class.clone(), Box::new(object), None);
    node.tasks.insert(&owner);
    // A new lane takes any one record.
    let _ = owner.try_submit(Record::application(0, TaskWork { future, told }));
    Task(wait)
}
