//! Quick.
use std::time::Instant;
use turnkeep_bus::*;
#[derive(Default)]
struct Sum(u64);
impl Component for Sum {}
impl On<u64> for Sum {
    fn on(&mut self, _: &mut Context<'_>, n: &u64) -> Result<(), Failure> { self.0 += n; Ok(()) }
}
fn main() {
    for n in [0usize, 1, 4, 10, 64, 100, 128] {
        let mut bus = Hosted::new(Bus::default());
        let topic = bus.context().topic::<u64>("a.b").unwrap();
        for i in 0..n {
            let id = bus.context().register(&format!("c{i}"), Sum::default()).unwrap();
            bus.context().subscribe::<Sum, u64>(id, "a.b", 0).unwrap();
            bus.context().start(id).unwrap();
        }
        let rounds = 2_000_000 / (n + 1);
        let mut best = f64::MAX;
        for _ in 0..7 {
            let t = Instant::now();
            for i in 0..rounds {
                bus.context().publish(topic, i as u64);
                bus.boundary().drain(u32::MAX);
            }
            best = best.min(t.elapsed().as_nanos() as f64 / rounds as f64);
        }
        println!("{n}: {best:.1} ns/publish {:.2} ns/delivery", best / n.max(1) as f64);
    }
}
