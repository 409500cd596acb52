//! The machines of the bus together: the worked order, budgets, limits and ends.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use super::charge::{Full, Limits};
use super::dispatch::{Arrival, Dispatch, Publication, Refusal};
use super::drain::Hindrance;
use super::fault::Kind as Fault;
use super::frame::Kind;
use super::line::{Line, Target};
use super::root::{Freed, Roots};

type Bus = Dispatch<Fault>;

fn arrival(component: u32) -> Arrival {
    let target = Target { component, registration: 0, generation: 0, run: 1 };
    Arrival { target, payload: 0, subscription: component, serial: 0 }
}

fn bus() -> Bus {
    Bus::new(Limits::default())
}

fn admit(bus: &mut Bus, to: Publication, component: u32) {
    assert!(bus.admit(to, arrival(component), 0).is_ok());
}

/// Delivers the head to nobody; the component it was for.
fn deliver(bus: &mut Bus) -> Option<(u32, Option<Freed>)> {
    let slot = bus.begin_delivery()?;
    Some((slot.target.component, bus.end_delivery(true)))
}

#[test]
fn pub_1_the_worked_order_has_five_deliveries_and_one_root() {
    let mut bus = bus();
    let a = bus.open_publication();
    admit(&mut bus, a, 1);
    let b = bus.open_publication();
    admit(&mut bus, b, 3);
    let _ = bus.close_publication(b);
    admit(&mut bus, a, 2);
    let _ = bus.close_publication(a);
    let mut order = Vec::new();
    let mut freed = None;
    while let Some(slot) = bus.begin_delivery() {
        order.push((slot.target.component, slot.key.publication));
        if order.len() == 1 {
            let c = bus.open_publication();
            admit(&mut bus, c, 1);
            admit(&mut bus, c, 2);
            let _ = bus.close_publication(c);
        }
        freed = bus.end_delivery(true).or(freed);
    }
    let whom: Vec<u32> = order.iter().map(|&(whom, _)| whom).collect();
    assert_eq!(whom, [1, 2, 3, 1, 2]);
    assert_eq!(freed, Some(Freed { number: 1, deliveries: 5, commands: 0 }));
    assert_eq!((bus.roots().made(), bus.roots().alive(), bus.broken()), (1, 0, None));
}

#[test]
fn root_2_outside_a_publication_each_admission_has_its_own_root() {
    let mut bus = bus();
    for _ in 0..2 {
        let own = bus.open_publication();
        admit(&mut bus, own, 1);
        assert_eq!(bus.close_publication(own), None, "the slot keeps it");
    }
    assert_eq!(bus.roots().alive(), 2);
}

#[test]
fn adm_1_a_refused_request_changes_nothing() {
    let mut bus = Bus::new(Limits { units: 1, ..Limits::default() });
    let publication = bus.open_publication();
    admit(&mut bus, publication, 1);
    let before = bus.clone();
    assert_eq!(bus.admit(publication, arrival(2), 0), Err(Refusal::Full(Full::Units)));
    assert_eq!(bus, before);
}

#[test]
fn adm_1_without_bytes_for_slot_or_root_nothing_is_taken() {
    for bytes in [0, 64 * Line::SLOT_BYTES, 64 * Line::SLOT_BYTES + 16 * Roots::ENTRY_BYTES - 1] {
        let mut bus = Bus::new(Limits { bytes, ..Limits::default() });
        let publication = bus.open_publication();
        assert_eq!(bus.admit(publication, arrival(1), 0), Err(Refusal::Full(Full::Bytes)));
        assert_eq!((bus.charge().units(), bus.charge().bytes(), bus.roots().alive()), (0, 0, 0));
    }
}

#[test]
fn adm_2_a_granted_reservation_is_filled_after_a_fault_and_a_new_one_refused() {
    let mut bus = bus();
    let publication = bus.open_publication();
    let (slot, _) = bus.reserve(publication, arrival(1), 0).unwrap();
    assert!(bus.latch(Fault::Runaway));
    assert_eq!(bus.reserve(publication, arrival(2), 0), Err(Refusal::Faulted));
    bus.fill(slot, 9);
    let _ = bus.close_publication(publication);
    assert_eq!(bus.head().map(|(_, slot, _)| slot.payload), Some(9));
    assert_eq!(bus.broken(), None);
}

#[test]
fn root_3_cancelled_slots_are_not_charged() {
    let mut bus = bus();
    let publication = bus.open_publication();
    admit(&mut bus, publication, 1);
    admit(&mut bus, publication, 2);
    let _ = bus.close_publication(publication);
    assert!(bus.begin_delivery().is_some());
    assert_eq!(bus.end_delivery(false), None);
    assert_eq!(deliver(&mut bus), Some((2, Some(Freed { number: 1, deliveries: 1, commands: 0 }))));
}

#[test]
fn root_4_a_root_is_spent_at_its_limit() {
    let mut bus = Bus::new(Limits { deliveries: 1, ..Limits::default() });
    let publication = bus.open_publication();
    admit(&mut bus, publication, 1);
    admit(&mut bus, publication, 2);
    let _ = bus.close_publication(publication);
    let spent = |bus: &Bus| bus.head().map(|(_, slot, _)| bus.is_spent(slot.root));
    assert_eq!(spent(&bus), Some(false));
    let _ = deliver(&mut bus);
    assert_eq!(spent(&bus), Some(true));
}

#[test]
fn keep_1_a_retained_value_keeps_its_root_over_an_empty_queue() {
    let mut bus = bus();
    let publication = bus.open_publication();
    admit(&mut bus, publication, 1);
    let root = bus.retain(1, 10, 0).unwrap();
    let _ = bus.close_publication(publication);
    assert_eq!(deliver(&mut bus), Some((1, None)));
    bus.begin_chain(Kind::Chain, root);
    assert_eq!(bus.active(), Some(root));
    assert_eq!(bus.end_chain(Kind::Chain), None);
    assert_eq!(bus.let_go(root, 1, 10).map(|freed| freed.deliveries), Some(1));
    assert_eq!((bus.charge().units(), bus.roots().alive()), (0, 0));
}

#[test]
fn cmd_1_a_command_starts_the_root_of_the_frame_it_is_sent_in() {
    let mut bus = bus();
    assert_eq!(bus.send_command(0), Ok(None), "outside, processing makes one when it needs one");
    let publication = bus.open_publication();
    let root = bus.send_command(0).unwrap();
    assert!(root.is_some());
    assert_eq!(bus.active(), root);
    assert_eq!(bus.close_publication(publication), None, "the command keeps it");
    assert_eq!(bus.begin_teardown(), Err(Hindrance::CommandRoot));
    assert_eq!(bus.begin_command(root), Ok(()));
    assert_eq!(bus.end_command().map(|freed| freed.commands), Some(1));
}

#[test]
fn cmd_6_an_independent_command_that_sends_pays_from_the_root_it_makes() {
    let mut bus = Bus::new(Limits { commands: 3, ..Limits::default() });
    let mut root = None;
    let mut handled = 0;
    loop {
        if let Err(spent) = bus.begin_command(root) {
            assert_eq!((root, handled), (Some(spent), 3));
            break;
        }
        handled += 1;
        root = bus.send_command(0).unwrap();
        let _ = bus.end_command();
    }
}

#[test]
fn cmd_6_a_root_that_cannot_be_made_refuses_no_command() {
    let mut bus = Bus::new(Limits { bytes: 0, ..Limits::default() });
    assert_eq!(bus.begin_command(None), Ok(()));
    assert_eq!(bus.send_command(0), Err(Full::Bytes));
    assert_eq!(bus.end_command(), None);
    assert_eq!((bus.alive().command_roots, bus.broken()), (0, None));
}

#[test]
fn fault_4_a_teardown_leaves_every_counter_at_zero() {
    let mut bus = bus();
    let publication = bus.open_publication();
    admit(&mut bus, publication, 1);
    assert_eq!(bus.begin_teardown(), Err(Hindrance::Publication));
    admit(&mut bus, publication, 2);
    let _ = bus.close_publication(publication);
    assert!(bus.latch(Fault::Stalled));
    assert_eq!(bus.begin_teardown(), Ok(()));
    for slot in bus.detach() {
        bus.begin_detached(&slot);
        let _ = bus.end_delivery(false);
    }
    assert!(bus.head().is_none());
    bus.end_teardown();
    assert_eq!((bus.charge().units(), bus.charge().bytes(), bus.roots().alive()), (0, 0, 0));
    assert_eq!((bus.fault(), bus.broken()), (None, None));
}

#[test]
fn drain_3_a_drain_refuses_another() {
    let mut bus = bus();
    assert_eq!(bus.begin_drain(), Ok(()));
    assert_eq!(bus.begin_drain(), Err(Hindrance::Drain));
    bus.end_drain();
    bus.on_access();
    assert_eq!(bus.begin_drain(), Err(Hindrance::Access));
    bus.on_access_end();
    assert_eq!(bus.begin_drain(), Ok(()));
}

/// Every script of seven steps: publications nest, slots are admitted and delivered, some publish again. The
/// reference keeps a set of keys and a count of holders a root.
#[test]
fn model_root_5_every_script_ends_with_the_counts_of_the_reference() {
    for script in 0..5_u32.pow(7) {
        let mut bus = bus();
        let mut open = Vec::new();
        let mut waiting = BTreeMap::new();
        let mut rest = script;
        for _ in 0..7 {
            match rest % 5 {
                0 => open.push(bus.open_publication()),
                1 => {
                    if let Some(publication) = open.pop() {
                        let _ = bus.close_publication(publication);
                    }
                }
                2 | 3 => {
                    let at = if rest % 5 == 2 { 0 } else { open.len().saturating_sub(1) };
                    if let Some(&publication) = open.get(at) {
                        let key = bus.admit(publication, arrival(7), 0).unwrap();
                        waiting.insert(key, ());
                    }
                }
                _ => {
                    if open.is_empty() {
                        let head = bus.begin_delivery().map(|slot| slot.key);
                        assert_eq!(head, waiting.pop_first().map(|(key, ())| key));
                        if head.is_some() {
                            let _ = bus.end_delivery(true);
                        }
                    }
                }
            }
            rest /= 5;
            assert_eq!(bus.line().len() as usize, waiting.len());
        }
        while let Some(publication) = open.pop() {
            let _ = bus.close_publication(publication);
        }
        while let Some((key, ())) = waiting.pop_first() {
            assert_eq!(bus.begin_delivery().map(|slot| slot.key), Some(key));
            let _ = bus.end_delivery(true);
        }
        assert_eq!((bus.roots().alive(), bus.charge().units(), bus.broken()), (0, 0, None), "{script}");
    }
}
