//! The limits of the two lanes, and what a record weighs (LANE-1, LANE-2, LANE-4).

use turnkeep::prelude::*;
use turnkeep::{ErrorKind, HeapSize};

use crate::play::*;
use crate::support::within;

/// No payload at all.
#[derive(Message)]
pub struct Empty;

/// A payload of one kind after the other.
#[derive(Message)]
pub struct Blob(pub Vec<u8>);
#[derive(Message)]
struct Named {
    name: String,
    number: u16,
    lists: Vec<Vec<u32>>,
    maybe: Option<Box<u64>>,
}

macro_rules! takes {
    ($($message:ident),+) => {$(
        impl Handles<$message> for Wide {
            async fn handle(_: &mut Turn<'_, Self>, _: $message) -> Result<(), Never> {
                Ok(())
            }
        }
    )+};
}
takes!(Empty, Blob, Named);

const MIB: u64 = 1 << 20;
const OVERHEAD: u64 = 256;

/// What the play that keeps a gate reserves.
const KEEPER: u64 = size_of::<Play>() as u64 + OVERHEAD;

/// Offers until one is refused; says how many were accepted.
fn fill<M: Message>(wide: &SpotRef<Wide>, mut make: impl FnMut() -> M) -> u64
where
    Wide: Handles<M>,
{
    let mut accepted = 0;
    loop {
        match wide.try_send(make()) {
            Ok(()) => accepted += 1,
            Err(refused) => {
                assert_eq!(refused.kind(), ErrorKind::CapacityExceeded);
                return accepted;
            }
        }
    }
}

/// Fills the lifecycle lane with closes, which a Spot with a member refuses when they run.
fn fill_lifecycle(wide: &SpotRef<Wide>) -> u64 {
    let mut accepted = 0;
    loop {
        match wide.request_close() {
            Ok(()) => accepted += 1,
            Err(refused) => {
                assert_eq!(refused.kind(), ErrorKind::CapacityExceeded);
                return accepted;
            }
        }
    }
}

async fn occupied(stage: &Stage) -> (SpotRef<Wide>, ActorRef<Pawn>, Kept) {
    let wide = stage.wide("w").await;
    let member = stage.member("m", "w").await;
    let kept = keep(|play| async { wide.send(play).await.unwrap() }).await;
    (wide, member, kept)
}

#[tokio::test]
async fn lane_1_a_the_default_counts_are_1024_and_128_in_two_separate_lanes() {
    within(async {
        assert_eq!(Lane::APPLICATION, Lane { records: 1024, bytes: 64 * MIB });
        assert_eq!(Lane::LIFECYCLE, Lane { records: 128, bytes: 4 * MIB });
        let stage = Stage::new(2).await;
        let (wide, _member, kept) = occupied(&stage).await;
        assert_eq!(fill(&wide, || Empty), 1023, "beside the one that keeps the gate");
        assert_eq!(wide.queued(), (1024, 0));
        assert_eq!(fill_lifecycle(&wide), 128);
        assert_eq!(wide.queued(), (1024, 128));
        kept.go.set();
        stage.node.quiesce().await.unwrap();
        assert_eq!((wide.queued(), wide.reserved_bytes()), ((0, 0), (0, 0)));
    })
    .await;
}

#[tokio::test]
async fn lane_1_b_the_default_application_lane_holds_64_mebibytes() {
    within(async {
        let stage = Stage::new(2).await;
        let (wide, _member, kept) = occupied(&stage).await;
        let one = MIB + size_of::<Blob>() as u64 + OVERHEAD;
        let fit = (64 * MIB - KEEPER) / one;
        assert_eq!(fill(&wide, || Blob(Vec::with_capacity(MIB as usize))), fit);
        assert_eq!(wide.reserved_bytes(), (KEEPER + fit * one, 0));
        // What is left still takes what fits exactly, and not a byte more.
        let left = 64 * MIB - wide.reserved_bytes().0 - OVERHEAD - size_of::<Blob>() as u64;
        assert!(wide.try_send(Blob(Vec::with_capacity(left as usize + 1))).is_err());
        wide.try_send(Blob(Vec::with_capacity(left as usize))).unwrap();
        assert_eq!(wide.reserved_bytes(), (64 * MIB, 0));
        assert_eq!(fill(&wide, || Empty), 0);
        kept.go.set();
        stage.node.quiesce().await.unwrap();
        assert_eq!(wide.reserved_bytes(), (0, 0));
    })
    .await;
}

#[tokio::test]
async fn lane_1_c_the_default_lifecycle_lane_holds_4_mebibytes() {
    within(async {
        let stage = Stage::new(2).await;
        let (wide, _member, kept) = occupied(&stage).await;
        let heap = MIB - size_of::<Script>() as u64;
        for number in 0..4 {
            let script = Script { heap, ..Script::default() };
            stage.pawn(&format!("g{number}")).await.send(Go::with("w", script)).await.unwrap();
            until(|| wide.queued().1 as usize + wide.waiting().1 == number + 1).await;
        }
        assert_eq!((wide.queued().1, wide.waiting().1), (3, 1), "four times 256 bytes are too much");
        assert_eq!(wide.reserved_bytes().1, 3 * (MIB + OVERHEAD));
        kept.go.set();
        stage.node.quiesce().await.unwrap();
        assert_eq!(wide.members().len(), 5);
        assert_eq!((wide.queued(), wide.reserved_bytes()), ((0, 0), (0, 0)));
    })
    .await;
}

#[tokio::test]
async fn lane_1_d_each_limit_is_settable_for_a_node_and_at_registration() {
    within(async {
        let small = Lane { records: 5, ..Lane::APPLICATION };
        let smaller = Lane { records: 2, ..Lane::LIFECYCLE };
        let stage = Stage::with(2, |builder| builder.application_lane(small).lifecycle_lane(smaller)).await;
        let (wide, _member, kept) = occupied(&stage).await;
        assert_eq!((fill(&wide, || Empty), fill_lifecycle(&wide)), (4, 2));
        kept.go.set();
        stage.node.quiesce().await.unwrap();

        let cue = Cue::default();
        let own = factory(&cue, Wide::new)
            .application_lane(Lane { records: 1024, bytes: KEEPER + 3 * OVERHEAD })
            .lifecycle_lane(Lane { records: 7, ..Lane::LIFECYCLE });
        let node = Node::builder()
            .workers(2)
            .application_lane(small)
            .lifecycle_lane(smaller)
            .spot_with("wide", own)
            .actor_with("pawn", factory(&cue, Pawn::new))
            .start()
            .await
            .unwrap();
        let stage = Stage { node, cue };
        let (wide, member, kept) = occupied(&stage).await;
        assert_eq!((fill(&wide, || Empty), fill_lifecycle(&wide)), (3, 7));
        for number in 0..5 {
            member.try_send(line(format!("{number}"))).unwrap();
        }
        assert!(member.try_send(line("the node's limit")).is_err());
        kept.go.set();
        stage.node.quiesce().await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn lane_1_e_limits_that_are_none_are_refused_at_the_start() {
    let bad = [
        Lane { records: 0, ..Lane::APPLICATION },
        Lane { bytes: 255, ..Lane::APPLICATION },
        Lane { records: u32::MAX, ..Lane::APPLICATION },
        Lane { bytes: u64::MAX, ..Lane::APPLICATION },
    ];
    for lane in bad {
        let started = Node::builder().workers(1).lifecycle_lane(lane).start().await;
        assert_eq!(started.err().map(|error| error.kind()), Some(ErrorKind::InvalidOperation), "{lane:?}");
    }
}

#[tokio::test]
async fn lane_2_a_a_flood_of_empty_payloads_meets_the_count_limit_with_256_bytes_each() {
    within(async {
        let stage = Stage::new(2).await;
        let (wide, _member, kept) = occupied(&stage).await;
        assert_eq!(fill(&wide, || Empty), 1023);
        assert_eq!(wide.reserved_bytes().0, KEEPER + 1023 * OVERHEAD);
        kept.go.set();
        stage.node.quiesce().await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn lane_2_b_large_payloads_meet_the_byte_limit_long_before_the_count_limit() {
    within(async {
        let lane = Lane { bytes: 10_000, ..Lane::APPLICATION };
        let stage = Stage::with(2, |builder| builder.application_lane(lane)).await;
        let (wide, _member, kept) = occupied(&stage).await;
        let one = 2000 + size_of::<Blob>() as u64 + OVERHEAD;
        assert_eq!(fill(&wide, || Blob(Vec::with_capacity(2000))), (10_000 - KEEPER) / one);
        assert!(wide.queued().0 < 6);
        assert!(wide.try_send(Empty).is_ok(), "a small one still fits");
        kept.go.set();
        stage.node.quiesce().await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn lane_2_c_a_record_reserves_exactly_size_and_heap_and_256() {
    within(async {
        let stage = Stage::new(2).await;
        let (wide, _member, kept) = occupied(&stage).await;
        let mut before = wide.reserved_bytes().0;
        let mut grown = || {
            let now = wide.reserved_bytes().0;
            now - std::mem::replace(&mut before, now)
        };
        wide.try_send(Empty).unwrap();
        assert_eq!(grown(), 256);
        wide.try_send(Blob(Vec::with_capacity(1000))).unwrap();
        assert_eq!(grown(), 1000 + 24 + 256);
        let named = || {
            let (mut name, mut list) = (String::with_capacity(100), Vec::with_capacity(10));
            name.push('x');
            list.push(1);
            Named { name, number: 7, lists: vec![list, Vec::new()], maybe: Some(Box::new(1)) }
        };
        let heap = 100 + 2 * 24 + 10 * 4 + 8;
        assert_eq!((named().heap_bytes(), named().number), (heap, 7));
        wide.try_send(named()).unwrap();
        assert_eq!(grown(), heap + size_of::<Named>() as u64 + 256);
        drop(tokio::spawn(wide.ask(named())));
        until(|| wide.queued().0 == 5).await;
        assert_eq!(grown(), heap + size_of::<Named>() as u64 + 256, "an ask weighs what a send does");
        kept.go.set();
        stage.node.quiesce().await.unwrap();
        assert_eq!(wide.reserved_bytes(), (0, 0));
    })
    .await;
}

#[tokio::test]
async fn lane_2_d_a_payload_that_can_never_fit_is_refused_at_once_and_given_back() {
    within(async {
        let lane = Lane { bytes: 1000, ..Lane::APPLICATION };
        let stage = Stage::with(2, |builder| builder.application_lane(lane)).await;
        let wide = stage.wide("w").await;
        let largest = 1000 - 256 - size_of::<Blob>();
        let refused = wide.send(Blob(Vec::with_capacity(largest + 1))).await.unwrap_err();
        assert_eq!(
            (refused.kind(), refused.message.0.capacity()),
            (ErrorKind::CapacityExceeded, largest + 1)
        );
        let refused = wide.ask(Blob(Vec::with_capacity(largest + 1))).await.unwrap_err();
        assert_eq!(refused.kind(), Some(ErrorKind::CapacityExceeded));
        assert_eq!(refused.into_message().unwrap().0.capacity(), largest + 1);
        wide.ask(Blob(Vec::with_capacity(largest))).await.unwrap();
        assert_eq!(wide.waiting(), (0, 0));
    })
    .await;
}

#[tokio::test]
async fn lane_4_a_a_full_application_lane_stops_no_lifecycle_work() {
    within(async {
        for workers in [1, 2] {
            let lane = Lane { records: 2, ..Lane::APPLICATION };
            let stage = Stage::with(workers, |builder| builder.application_lane(lane)).await;
            let wide = stage.wide("w").await;
            let kept = keep(|play| async { wide.send(play).await.unwrap() }).await;
            wide.send(line("last")).await.unwrap();
            let waiter = tokio::spawn(wide.send(line("waiter")));
            until(|| wide.waiting() == (1, 0)).await;
            stage.pawn("g").await.send(Go::to("w")).await.unwrap();
            until(|| wide.queued() == (2, 1)).await;
            kept.go.set();
            waiter.await.unwrap().unwrap();
            let lines = stage.lines().await;
            assert_eq!(lines[0], "join g", "accepted and run before the application records: {lines:?}");
        }
    })
    .await;
}

#[tokio::test]
async fn lane_4_b_a_full_lifecycle_lane_stops_no_application_work() {
    within(async {
        for workers in [1, 2] {
            let lane = Lane { records: 1, ..Lane::LIFECYCLE };
            let stage = Stage::with(workers, |builder| builder.lifecycle_lane(lane)).await;
            let (wide, member, kept) = occupied(&stage).await;
            assert_eq!(fill_lifecycle(&wide), 1);
            stage.pawn("g").await.send(Go::to("w")).await.unwrap();
            until(|| wide.waiting() == (0, 1)).await;
            let asks = [tokio::spawn(wide.ask(line("spot"))), tokio::spawn(member.ask(line("member")))];
            until(|| wide.queued() == (2, 1)).await;
            kept.go.set();
            for ask in asks {
                ask.await.unwrap().unwrap();
            }
            let mut lines = stage.lines().await;
            lines.sort();
            assert_eq!(lines, ["arrived g", "join g", "leave g", "member", "spot"]);
        }
    })
    .await;
}
