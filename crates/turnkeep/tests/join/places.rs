//! Joins between all kinds of places: what gate the Actor has there, and what it can reach (GATE, JOIN-6).

use turnkeep::prelude::*;

use crate::support::within;
use crate::world::*;

/// Which gate an Actor's handler runs under: that of the Spot, whose state is in reach, or its own.
#[derive(Message)]
#[message(reply = bool)]
struct Shares;

impl Handles<Shares> for Mover {
    async fn handle(turn: &mut Turn<'_, Self>, _: Shares) -> Result<bool, Never> {
        Ok(match turn.within::<Wide>() {
            Some(mut member) => {
                member.spot_state().notes.push(1);
                true
            }
            None => false,
        })
    }
}

/// Moves through every place in turn, with messages queued on the way, and back again.
async fn tour(workers: usize, stops: impl FnOnce(To) -> Vec<To>) {
    let world = World::new(workers).await;
    let stops = stops(world.lobby());
    for id in ["W", "V"] {
        world.wide(id, Manners::default()).await;
    }
    for id in ["P", "Q"] {
        world.single(id, Manners::default()).await;
    }
    let a = world.mover("a").await;
    for round in 0..10 {
        for (n, stop) in stops.iter().enumerate() {
            let tag = round * 10 + n as u64;
            a.send(Go::to(stop.clone(), tag)).await.unwrap();
            a.send(Note(tag)).await.unwrap();
            let shares = a.ask(Shares).await.unwrap();
            assert_eq!(shares, matches!(stop, To::Wide(_)), "in {}", stop.id());
            let story = world.story().await;
            let to = stop.id();
            let tail = [format!("a completed {to} {tag} accepted at {to}"), format!("a note {tag} at {to}")];
            assert_eq!(story[story.len() - 2..], tail);
            assert_eq!(a.place().as_deref(), Some(to));
        }
    }
    assert_eq!(world.node.metrics().joins_accepted, 10 * stops.len() as u64);
}

#[tokio::test]
async fn join_6_f_from_the_entry_spot_to_a_shared_gate_and_back() {
    within(async {
        for workers in [1, 2] {
            tour(workers, |lobby| vec![To::Wide("W"), lobby]).await;
        }
    })
    .await;
}

#[tokio::test]
async fn join_6_g_from_a_shared_gate_to_own_gates_and_back() {
    within(async {
        for workers in [1, 2] {
            tour(workers, |_| vec![To::Wide("W"), To::Single("P")]).await;
        }
    })
    .await;
}

#[tokio::test]
async fn join_6_h_from_own_gates_to_the_entry_spot_and_to_other_own_gates() {
    within(async {
        for workers in [1, 2] {
            tour(workers, |lobby| vec![To::Single("P"), lobby, To::Single("Q"), To::Single("P")]).await;
        }
    })
    .await;
}

#[tokio::test]
async fn join_6_i_from_one_shared_gate_to_another() {
    within(async {
        for workers in [1, 2] {
            tour(workers, |_| vec![To::Wide("W"), To::Wide("V")]).await;
        }
    })
    .await;
}

/// A Spot with members in all states is stopped by a panic; the members go on in the Entry Spot.
async fn stopped<M: turnkeep::Admits>(workers: usize) {
    let world = World::with(workers, |builder| builder).await;
    let spot = world.node.spot::<Room<M>>("X").create_with(Room::new(&world.log, Manners::default())).await;
    let spot = spot.unwrap();
    let mut members = Vec::new();
    for n in 0..10 {
        let mover = Mover::new(&world.log);
        let id = format!("m{n}");
        members.push(world.node.actor::<Mover>(&id).create_in(mover, &spot).await.unwrap());
    }
    let (hold, held, release) = Hold::new();
    spot.send(hold).await.unwrap();
    held.wait().await;
    // Queued: a message to each, the panic, and a message to each behind it.
    let early: Vec<_> = members.iter().map(|member| tokio::spawn(member.ask(Note(1)))).collect();
    spot.send(Break).await.unwrap();
    let late: Vec<_> = members.iter().map(|member| tokio::spawn(member.ask(Note(2)))).collect();
    let unlucky = tokio::spawn(spot.ask(Note(3)));
    tokio::task::yield_now().await;
    release.set();
    for asked in early.into_iter().chain(late) {
        asked.await.unwrap().expect("members are handled wherever they are");
    }
    let error = unlucky.await.unwrap().unwrap_err();
    assert!(matches!(error.kind(), Some(ErrorKind::Unavailable | ErrorKind::NotFound)), "{error:?}");
    world.node.quiesce().await.unwrap();
    let entry = world.node.entry_id();
    world.wide("Y", Manners::default()).await;
    for member in &members {
        assert_eq!(member.place().as_deref(), Some(&*entry));
        assert_eq!(member.ask(Note(4)).await.unwrap().as_deref(), Some(&*entry));
        assert!(!member.ask(Shares).await.unwrap(), "the Spot's state is out of reach");
        member.ask(Go::to(To::Wide("Y"), 1)).await.unwrap();
        assert_eq!(member.ask(Note(5)).await.unwrap().as_deref(), Some("Y"));
    }
    let lobby = world.node.entry::<Lobby>().unwrap();
    assert!(lobby.members().is_empty());
}

#[tokio::test]
async fn err_3_members_of_a_stopped_shared_spot_go_on_in_the_entry_spot() {
    within(async {
        for workers in [1, 2] {
            stopped::<SpotWide>(workers).await;
        }
    })
    .await;
}

#[tokio::test]
async fn err_3_members_of_a_stopped_per_actor_spot_go_on_in_the_entry_spot() {
    within(async {
        for workers in [1, 2] {
            stopped::<PerActor>(workers).await;
        }
    })
    .await;
}
