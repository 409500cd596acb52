//! Checks a bus log against the rules of the bus.
