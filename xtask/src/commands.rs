//! Every call of cargo that the checks are made of.

use crate::runner::Run;

/// The formatting is as rustfmt would have it; nothing is written.
pub(crate) fn format() -> Run {
    Run::cargo(["fmt", "--all", "--check"])
}

/// No lint has anything to say.
pub(crate) fn clippy() -> Run {
    Run::cargo(["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"])
}

/// Unit, integration, compile-fail and doc tests.
pub(crate) fn tests() -> Run {
    Run::cargo(["test", "--workspace"])
}

/// The documentation builds without a warning.
pub(crate) fn documentation() -> Run {
    Run::cargo(["doc", "--workspace", "--no-deps"]).with("RUSTDOCFLAGS", "-D warnings")
}

/// One example ends well.
pub(crate) fn example(name: &str) -> Run {
    Run::cargo(["run", "--quiet", "-p", "turnkeep", "--example", name])
}

/// The scheduler's models under loom.
pub(crate) fn loom() -> Run {
    Run::cargo(["test", "-p", "turnkeep-scheduler", "--lib", "--profile", "model", "--", "loom_"])
        .with("RUSTFLAGS", "--cfg turnkeep_loom")
        .within("loom")
}

/// The larger worlds of the exhaustive search.
pub(crate) fn large_models() -> Run {
    Run::cargo(["test", "-p", "turnkeep-machines", "--release", "--test", "models", "--", "--nocapture"])
        .with("TURNKEEP_MODEL", "large")
}

/// Simulations, and comparisons with the reference, in many more orders.
pub(crate) fn many_seeds() -> Run {
    let cargo =
        ["test", "-p", "turnkeep", "--test", "sim", "--test", "reference", "--", "random_circles", "prop_"];
    Run::cargo(cargo).with("TURNKEEP_SEEDS", "500")
}

/// A benchmark with arguments for it.
pub(crate) fn bench(name: &str, arguments: &[&str]) -> Run {
    let cargo = ["bench", "-p", "turnkeep", "--bench", name];
    Run::cargo(cargo.into_iter().chain(passed_on(arguments)))
}

/// The tests of the unsafe code and of what stands on it, under AddressSanitizer. Leaks are not looked for: tests end
/// with nodes that are still blocked on purpose.
///
/// The stable toolchain carries the sanitizer but not its switch, hence the bootstrap variable. The target is
/// named so that the flags stay away from procedural macros, which the compiler itself loads.
pub(crate) fn asan(arguments: &[&str]) -> Run {
    let cargo = ["test", "--no-fail-fast", "-p", "turnkeep-scheduler", "-p", "turnkeep", "--lib", "--tests"];
    sanitized(&cargo, arguments).with("ASAN_OPTIONS", "detect_leaks=0")
}

/// Rounds of create, use and close, under LeakSanitizer.
pub(crate) fn leaks() -> Run {
    sanitized(&["test", "-p", "turnkeep", "--test", "stop_memory"], &[])
        .with("ASAN_OPTIONS", "detect_leaks=1")
}

fn sanitized(cargo: &[&str], arguments: &[&str]) -> Run {
    let target = ["--target", "x86_64-unknown-linux-gnu"];
    Run::cargo(cargo.iter().copied().chain(target).chain(passed_on(arguments)))
        .with("RUSTC_BOOTSTRAP", "1")
        .with("RUSTFLAGS", "-Zsanitizer=address --cfg turnkeep_asan")
        .within("asan")
}

/// `--` and the arguments, whether or not they began with one.
fn passed_on<'a>(arguments: &[&'a str]) -> Vec<&'a str> {
    let arguments = arguments.strip_prefix(&["--"]).unwrap_or(arguments);
    if arguments.is_empty() { Vec::new() } else { [&["--"], arguments].concat() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_passed_on_behind_one_separator() {
        for arguments in [&["--quick", "-n"][..], &["--", "--quick", "-n"]] {
            let run = bench("turns", arguments).to_string();
            assert_eq!(run, "cargo bench -p turnkeep --bench turns -- --quick -n");
        }
        assert_eq!(bench("idle", &[]).to_string(), "cargo bench -p turnkeep --bench idle");
    }
}
