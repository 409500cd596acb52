//! Looks at which crate of the workspace depends on which: only downwards, and only where listed.

use serde_json::Value;

use crate::Faults;
use crate::runner::Run;

/// Each crate with the crates of the workspace that it may build on, from the top down.
const ALLOWED: [(&str, &[&str]); 10] = [
    ("xtask", &[]),
    ("turnkeep-cli", &["turnkeep"]),
    (
        "turnkeep",
        &["turnkeep-objects", "turnkeep-macros", "turnkeep-bus", "turnkeep-market", "turnkeep-trace"],
    ),
    ("turnkeep-market", &["turnkeep-bus"]),
    ("turnkeep-bus", &["turnkeep-machines"]),
    ("turnkeep-objects", &["turnkeep-scheduler", "turnkeep-machines", "turnkeep-trace"]),
    ("turnkeep-scheduler", &["turnkeep-machines", "turnkeep-trace"]),
    ("turnkeep-trace", &[]),
    ("turnkeep-machines", &[]),
    ("turnkeep-macros", &[]),
];

/// What `cargo metadata` says of the workspace's own crates.
pub(crate) fn metadata() -> Result<Value, Faults> {
    let text = Run::cargo(["metadata", "--format-version", "1", "--no-deps"]).output()?;
    serde_json::from_str(&text).map_err(|error| vec![format!("cargo metadata: {error}")])
}

/// Compares the workspace with the list.
pub(crate) fn check() -> Result<String, Faults> {
    let metadata = metadata()?;
    let faults = faults(&metadata);
    let crates = list(&metadata["packages"]).len();
    if faults.is_empty() { Ok(format!("{crates} crates depend downwards only")) } else { Err(faults) }
}

fn faults(metadata: &Value) -> Faults {
    let packages = list(&metadata["packages"]);
    let names: Vec<&str> = packages.iter().map(|package| text(&package["name"])).collect();
    let mut faults = Vec::new();
    for package in packages {
        let (name, manifest) = (text(&package["name"]), text(&package["manifest_path"]));
        let Some((_, allowed)) = ALLOWED.iter().find(|(listed, _)| *listed == name) else {
            faults.push(format!("{manifest}: {name} is not in the list of {}", file!()));
            continue;
        };
        let used = list(&package["dependencies"]).iter().filter(|used| used["kind"] != "dev");
        let used = used.map(|used| text(&used["name"])).filter(|used| names.contains(used));
        let wrong = used.filter(|used| !allowed.contains(used));
        faults.extend(wrong.map(|used| format!("{manifest}: {name} must not depend on {used}")));
    }
    faults
}

/// The names of a package's examples, in order.
pub(crate) fn examples(metadata: &Value, package: &str) -> Vec<String> {
    let packages = list(&metadata["packages"]).iter();
    let targets = packages.filter(|found| found["name"] == package).flat_map(|found| list(&found["targets"]));
    let examples = targets.filter(|target| list(&target["kind"]).iter().any(|kind| kind == "example"));
    let mut names: Vec<String> = examples.map(|target| text(&target["name"]).into()).collect();
    names.sort();
    names
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn package(name: &str, dependencies: &[(&str, Option<&str>)]) -> Value {
        let used = dependencies.iter().map(|(name, kind)| json!({ "name": name, "kind": kind }));
        json!({ "name": name, "manifest_path": format!("{name}.toml"), "dependencies": used.collect::<Vec<_>>() })
    }

    #[test]
    fn a_dependency_upwards_is_told_unless_tests_alone_have_it() {
        let scheduler = package(
            "turnkeep-scheduler",
            &[("turnkeep-machines", None), ("tokio", None), ("turnkeep", Some("dev"))],
        );
        let machines = package("turnkeep-machines", &[("turnkeep", Some("build")), ("serde", None)]);
        let others = [package("turnkeep", &[]), package("turnkeep-new", &[])];
        let [turnkeep, new] = others;
        let metadata = json!({ "packages": [scheduler, machines, turnkeep, new] });
        let want = [
            "turnkeep-machines.toml: turnkeep-machines must not depend on turnkeep".to_owned(),
            format!("turnkeep-new.toml: turnkeep-new is not in the list of {}", file!()),
        ];
        assert_eq!(faults(&metadata), want);
    }

    #[test]
    fn examples_are_the_targets_of_that_kind() {
        let target = |name: &str, kind: &str| json!({ "name": name, "kind": [kind] });
        let targets = [target("turnkeep", "lib"), target("chat", "example"), target("bank", "example")];
        let metadata = json!({ "packages": [{ "name": "turnkeep", "targets": targets }] });
        assert_eq!(examples(&metadata, "turnkeep"), ["bank", "chat"]);
    }
}
