//! Runaway cascade: callbacks that answer each other without end.

use turnkeep_bus::{Bus, FaultKind, Halt, Limits};

use crate::support::{Stage, say};

#[test]
fn cb_97_a_loop_of_three_topics_stops_at_its_budget_on_a_small_stack() {
    let small = std::thread::Builder::new().stack_size(256 << 10);
    let run = || {
        let limits = Limits { deliveries: 1_000, ..Limits::default() };
        let mut stage = Stage::with(Bus::builder().limits(limits).build());
        for (name, from, to) in
            [("a", "opened", "order"), ("b", "order", "filled"), ("c", "filled", "opened")]
        {
            stage.player(name, &[(from, 0)], move |ctx, _| {
                say(ctx, to, "-");
                Ok(())
            });
        }
        stage.listener("ping", &[("ping", 0)]);
        stage.publish("opened", "-");
        let Err(Halt::Fault(report)) = stage.bus.settle() else { panic!("must halt") };
        assert_eq!(stage.record.take().len(), 1_000);
        assert_eq!((report.kind, report.deliveries), (FaultKind::Runaway, 1_000));
        assert_eq!(report.origin.as_deref(), Some("opened"), "the event that began it");
        assert!(report.detail.contains("filled, opened, order"), "{report}");
        // The report was given; torn down, the bus takes a fresh event.
        stage.bus.boundary().teardown().unwrap();
        stage.publish("ping", "ping");
        assert_eq!(stage.settle(), "ping(ping)");
    };
    small.spawn(run).unwrap().join().unwrap();
}
