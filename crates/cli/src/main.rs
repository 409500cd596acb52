//! The program `turnkeep`.
fn main() {}
