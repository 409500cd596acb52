//! A program makes no calls of its own that could be yielded for.

struct Nap;

impl Future for Nap {
    type Output = ();

    fn poll(self: std::pin::Pin<&mut Self>, _: &mut std::task::Context<'_>) -> std::task::Poll<()> {
        std::task::Poll::Ready(())
    }
}

impl turnkeep::Call for Nap {}

fn main() {}
