//! The process's clock: monotonic nanoseconds as cheap as the machine gives them.
//!
//! # How
//!
//! On x86_64 with an invariant time-stamp counter, which the kernel trusts too, the time is the counter times a
//! fixed-point factor: one load, `rdtsc`, one multiplication. The factor is measured once, against
//! [`Instant`], at the first use, for at most 2 ms. Everywhere else the time is [`Instant`]'s.
//!
//! # Invariants
//!
//! * TICKS-a: two readings by one thread never go back.
//! * TICKS-b: the scale differs from `Instant`'s by at most 0.1 %.
//! * TICKS-c: the factor is written once; a reading never mixes two factors.
//!
//! # Not here
//!
//! Wall-clock time, and any promise across processes: the origin is arbitrary.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::virtual_time;

/// The factor of the counter, or one of the two words below; written once, by [`calibrate`].
static FACTOR: AtomicU64 = AtomicU64::new(UNKNOWN);
/// Nobody has asked for the time yet.
const UNKNOWN: u64 = 0;
/// There is no counter to trust: ask [`Instant`].
const NO_COUNTER: u64 = u64::MAX;
/// Bits after the point of the factor.
const FRACTION_BITS: u32 = 32;

/// One moment on both clocks.
struct Anchor {
    instant: Instant,
    ns: u64,
}

static ANCHOR: OnceLock<Anchor> = OnceLock::new();

/// Nanoseconds since an origin that is the same for the whole process; never goes back within a thread.
///
/// Between threads it is as exact as the counters of the cores agree (well below a microsecond). The first
/// call of the process takes up to 2 ms, every other one some nanoseconds. Never fails.
///
/// On a thread that goes by a virtual time ([`crate::virtual_time`]) it is that one's.
#[inline]
pub fn now() -> u64 {
    if let Some(now) = virtual_time::now() {
        return now;
    }
    let factor = FACTOR.load(Ordering::Relaxed);
    if factor == UNKNOWN || factor == NO_COUNTER {
        return now_slow(factor);
    }
    scaled(counter(), factor)
}

/// As [`now`], and never before what the thread has seen happen: a reading that another one happened before, on
/// whatever thread, is not smaller, as far as the cores' counters agree.
///
/// The processor may read its counter ahead of a load that it waits for; here it may not. Some ten nanoseconds
/// more than [`now`].
#[inline]
pub fn ordered() -> u64 {
    fence();
    now()
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline(always)]
fn fence() {
    // SAFETY: every x86_64 processor has `lfence`; it touches no memory.
    unsafe { core::arch::x86_64::_mm_lfence() };
}

#[cfg(not(all(target_arch = "x86_64", not(miri))))]
#[inline(always)]
fn fence() {}

/// The moment `ns` nanoseconds from now, as [`now`] counts; the end of time when that is further away than a
/// `u64` holds.
#[inline]
pub fn after(ns: u64) -> u64 {
    now().saturating_add(ns)
}

/// The moment `wait` from now, as [`now`] counts; the end of time when that is further away than a `u64`
/// holds.
#[inline]
pub fn after_duration(wait: Duration) -> u64 {
    after(u64::try_from(wait.as_nanos()).unwrap_or(u64::MAX))
}

/// What is left until `at_ns`; zero when it has passed.
#[inline]
pub fn until(at_ns: u64) -> Duration {
    Duration::from_nanos(at_ns.saturating_sub(now()))
}

/// The [`Instant`] that is `ns` nanoseconds from now, for interfaces that want one.
///
/// A wait too long for `Instant` is cut to a century.
pub fn instant_after(ns: u64) -> Instant {
    let base = Instant::now();
    let century = Duration::from_secs(100 * 365 * 24 * 3600);
    base.checked_add(Duration::from_nanos(ns)).or_else(|| base.checked_add(century)).unwrap_or(base)
}

/// The [`Instant`] of a moment of this clock; `at_ns` may be past or future.
pub fn to_instant(at_ns: u64) -> Instant {
    let now_ns = now();
    match now_ns.checked_sub(at_ns) {
        Some(ago) => {
            let base = Instant::now();
            base.checked_sub(Duration::from_nanos(ago)).unwrap_or(base)
        }
        None => instant_after(at_ns - now_ns),
    }
}

/// The moment of this clock that belongs to an [`Instant`]; zero when it lies before the clock's origin.
pub fn from_instant(at: Instant) -> u64 {
    let now_ns = now();
    let base = Instant::now();
    match at.checked_duration_since(base) {
        Some(ahead) => now_ns.saturating_add(u64::try_from(ahead.as_nanos()).unwrap_or(u64::MAX)),
        None => now_ns.saturating_sub(u64::try_from((base - at).as_nanos()).unwrap_or(u64::MAX)),
    }
}

#[inline(always)]
fn scaled(counts: u64, factor: u64) -> u64 {
    ((u128::from(counts) * u128::from(factor)) >> FRACTION_BITS) as u64
}

#[cold]
fn now_slow(factor: u64) -> u64 {
    let anchor = ANCHOR.get_or_init(calibrate);
    match FACTOR.load(Ordering::Relaxed) {
        NO_COUNTER => anchor.ns + u64::try_from(anchor.instant.elapsed().as_nanos()).unwrap_or(u64::MAX),
        // The winner of `get_or_init` wrote the factor before it gave the anchor out.
        UNKNOWN => unreachable!("the clock is calibrated, yet its factor is {factor}"),
        factor => scaled(counter(), factor),
    }
}

fn calibrate() -> Anchor {
    let (factor, instant) = match measured_factor() {
        Some((factor, instant)) => (factor, instant),
        None => (NO_COUNTER, Instant::now()),
    };
    FACTOR.store(factor, Ordering::Relaxed);
    // Without a counter the clock starts at one second, so that "zero" is a moment before every other.
    Anchor { instant, ns: 1_000_000_000 }
}

#[cfg(not(all(target_arch = "x86_64", not(miri))))]
#[inline(always)]
fn counter() -> u64 {
    0
}

#[cfg(not(all(target_arch = "x86_64", not(miri))))]
fn measured_factor() -> Option<(u64, Instant)> {
    None
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline(always)]
fn counter() -> u64 {
    // SAFETY: every x86_64 processor has `rdtsc`; it touches no memory.
    unsafe { core::arch::x86_64::_rdtsc() }
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
fn measured_factor() -> Option<(u64, Instant)> {
    if !counter_is_invariant() || kernel_distrusts_counter() {
        return None;
    }
    let (first_counts, first) = reading()?;
    while first.elapsed() < Duration::from_micros(1_500) {
        std::hint::spin_loop();
    }
    let (last_counts, last) = reading()?;
    let counts = last_counts.checked_sub(first_counts).filter(|counts| *counts > 0)?;
    let factor = ((last - first).as_nanos() << FRACTION_BITS) / u128::from(counts);
    let factor = u64::try_from(factor).ok()?;
    // 100 MHz to 100 GHz; anything else is no counter of this kind, and a reading must fit 64 bits.
    let sane = (1 << FRACTION_BITS) / 100..=10 << FRACTION_BITS;
    sane.contains(&factor).then_some((factor, last))
}

/// The counter and the instant of the same moment: of several tries the one least disturbed in between, so
/// that a preemption does not bend the scale.
#[cfg(all(target_arch = "x86_64", not(miri)))]
fn reading() -> Option<(u64, Instant)> {
    let tries = (0..16).map(|_| {
        let before = counter();
        let instant = Instant::now();
        let spent = counter().saturating_sub(before);
        (spent, before + spent / 2, instant)
    });
    tries.min_by_key(|(spent, ..)| *spent).map(|(_, counts, instant)| (counts, instant))
}

/// The processor's word that the counter runs at one speed in every power state.
#[cfg(all(target_arch = "x86_64", not(miri)))]
fn counter_is_invariant() -> bool {
    const EXTENDED: u32 = 0x8000_0000;
    const POWER: u32 = 0x8000_0007;
    const INVARIANT: u32 = 1 << 8;
    let cpuid = core::arch::x86_64::__cpuid;
    cpuid(EXTENDED).eax >= POWER && cpuid(POWER).edx & INVARIANT != 0
}

/// Linux falls back to these sources when the counters of the cores disagree.
#[cfg(all(target_arch = "x86_64", not(miri)))]
fn kernel_distrusts_counter() -> bool {
    let source = std::fs::read_to_string("/sys/devices/system/clocksource/clocksource0/current_clocksource");
    source.is_ok_and(|name| matches!(name.trim(), "hpet" | "acpi_pm" | "jiffies" | "refined-jiffies"))
}

#[cfg(all(test, not(turnkeep_loom)))]
mod tests {
    use super::*;

    #[test]
    fn ticks_a_readings_of_a_thread_never_go_back() {
        let mut last = now();
        for _ in 0..200_000 {
            let this = now();
            assert!(this >= last);
            last = this;
        }
    }

    #[test]
    fn ticks_b_scale_agrees_with_instant() {
        let _calibrated = now();
        let mut errors = (0..5).map(|_| {
            let (from_ns, from) = (now(), Instant::now());
            std::thread::sleep(Duration::from_millis(40));
            let (to_ns, to) = (now(), Instant::now());
            let real = (to - from).as_nanos() as f64;
            ((to_ns - from_ns) as f64 - real).abs() / real
        });
        // A preemption between the two readings spoils a try, not five.
        assert!(errors.any(|error| error < 0.001));
    }

    #[test]
    fn ticks_far_moments_saturate() {
        assert_eq!(after(u64::MAX), u64::MAX);
        assert_eq!(after_duration(Duration::MAX), u64::MAX);
        assert_eq!(until(0), Duration::ZERO);
        assert!(instant_after(u64::MAX) > Instant::now());
    }

    #[test]
    fn ticks_conversions_return_within_a_second() {
        let at = after(5_000_000_000);
        assert!(from_instant(to_instant(at)).abs_diff(at) < 1_000_000_000);
        let past = now().saturating_sub(1_000_000);
        assert!(from_instant(to_instant(past)).abs_diff(past) < 1_000_000_000);
    }
}
