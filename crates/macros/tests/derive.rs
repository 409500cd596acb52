//! What the derives expand to compiles and counts, against a stand-in for the facade crate.

// The default path `::turnkeep` leads here.
extern crate self as turnkeep;

use turnkeep_macros::{HeapSize, Message};

enum Never {}

#[derive(Debug, PartialEq)]
struct BadReply;

trait HeapSize {
    fn heap_bytes(&self) -> u64;
}

trait Message: HeapSize + Sized + Send + 'static {
    type Reply;
    type Error;
    fn check_reply(_reply: &Self::Reply) -> Result<(), BadReply> {
        Ok(())
    }
}

impl HeapSize for u32 {
    fn heap_bytes(&self) -> u64 {
        0
    }
}

impl HeapSize for String {
    fn heap_bytes(&self) -> u64 {
        self.capacity() as u64
    }
}

/// Has no `HeapSize`.
struct Opaque;

fn text(capacity: usize) -> String {
    String::with_capacity(capacity)
}

#[derive(Message)]
struct Tick;

#[derive(Message)]
#[message(reply = u32, error = String, check_reply = Self::even)]
struct Land<T> {
    flight: String,
    r#type: T,
    #[message(no_heap)]
    _opaque: Opaque,
}

impl<T> Land<T> {
    fn even(reply: &u32) -> Result<(), BadReply> {
        if reply.is_multiple_of(2) { Ok(()) } else { Err(BadReply) }
    }
}

mod elsewhere {
    //! A path of its own, and no name of the facade in scope.

    #[derive(turnkeep_macros::Message)]
    #[message(crate = crate::elsewhere::facade)]
    pub(super) enum Order {
        Cancel,
        Limit(String, u32),
        Note { first: String, second: String },
    }

    mod facade {
        pub(super) use crate::{HeapSize, Message, Never};
    }
}

#[derive(HeapSize)]
struct Pair<A, B = Opaque>(A, #[heap_size(skip)] B);

#[derive(HeapSize)]
enum Nothing {}

/// A derive on tokens that another macro made keeps its `self`.
macro_rules! made {
    ($name:ident, $field:ident: $type:ty) => {
        #[derive(Message)]
        struct $name {
            $field: $type,
        }
    };
}

made!(Made, line: String);

fn heap<T: HeapSize>(value: &T) -> u64 {
    value.heap_bytes()
}

#[test]
fn lane_2_derive_counts_fields() {
    let land = Land { flight: text(5), r#type: text(7), _opaque: Opaque };
    assert_eq!(heap(&land), 12);
    assert_eq!(heap(&Tick), 0);
    assert_eq!(heap(&Made { line: text(3) }), 3);
    assert_eq!(heap(&Pair(text(4), Opaque)), 4);
    assert_eq!(None::<Nothing>.map_or(0, |it| heap(&it)), 0);
}

#[test]
fn lane_2_derive_counts_the_variant_that_is_there() {
    use elsewhere::Order;
    assert_eq!(heap(&Order::Cancel), 0);
    assert_eq!(heap(&Order::Limit(text(8), 1)), 8);
    assert_eq!(heap(&Order::Note { first: text(8), second: text(9) }), 17);
}

#[test]
fn derive_message_names_reply_error_and_check() {
    fn answers<M: Message<Reply = R, Error = E>, R, E>() {}
    answers::<Tick, (), Never>();
    answers::<Land<u32>, u32, String>();
    answers::<elsewhere::Order, (), Never>();
    assert_eq!(Land::<u32>::check_reply(&2), Ok(()));
    assert_eq!(Land::<u32>::check_reply(&3), Err(BadReply));
    assert_eq!(Tick::check_reply(&()), Ok(()));
}
