//! Yields that may go on no longer: the Spot closes, the node's time to drain is over, the unit is sealed (YIELD-9).

use turnkeep_scheduler::ambient::with_turn;
use turnkeep_scheduler::standing::Cut;

use crate::call::may_yield;
use crate::error::{Error, ErrorKind};
use crate::object::object_of;

/// Why a yield in the running turn ends in an error, if it does.
pub(crate) fn cut() -> Option<Error> {
    with_turn(|turn| {
        let turn = turn.filter(may_yield)?;
        let object = object_of(turn.owner());
        let why = turn.cut().or_else(|| object.node.is_closing().then_some(Cut::Closing))?;
        let (kind, text) = match why {
            Cut::Closing => (
                ErrorKind::ShuttingDown,
                "its Spot or its node closes and waits for nothing any more; end without the answer",
            ),
            Cut::HandedOver => (
                ErrorKind::Unavailable,
                "it is sealed, to be handed over, and waits for nothing meanwhile; end, and ask again later",
            ),
        };
        Some(Error::new(kind, object, "yield", text))
    })
}
