//! Programs that must not compile, with what the compiler says about them.
//!
//! After a deliberate change of a message: `TRYBUILD=overwrite cargo test -p turnkeep --test ui`, and read the
//! difference.

#[test]
fn yield_2_programs_that_break_the_rules_of_waiting_do_not_compile() {
    trybuild::TestCases::new().compile_fail("tests/ui/*.rs");
}
