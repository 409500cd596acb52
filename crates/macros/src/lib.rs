//! The derives `Message` and `HeapSize`: what a message answers and how many bytes it charges to a lane.
//!
//! Reading attributes is in `options`, the sum over fields in `heap`, the two expansions in `message` and
//! `heap`. All of it works on `proc_macro2` tokens, so that the tests run outside the compiler.

mod heap;
mod message;
mod options;

use proc_macro::TokenStream;
use syn::{DeriveInput, parse_macro_input};

/// Derives `Message` and with it `HeapSize`.
///
/// ```standalone_crate
/// # extern crate self as turnkeep;
/// # use turnkeep_macros::Message;
/// # pub enum Never {}
/// # pub struct BadReply;
/// # pub trait HeapSize { fn heap_bytes(&self) -> u64; }
/// # impl HeapSize for String { fn heap_bytes(&self) -> u64 { self.capacity() as u64 } }
/// # pub trait Message: HeapSize {
/// #     type Reply;
/// #     type Error;
/// #     fn check_reply(_: &Self::Reply) -> Result<(), BadReply> { Ok(()) }
/// # }
/// # pub struct NoSuchFlight;
/// # pub struct Handle;
/// #[derive(Message)]
/// #[message(reply = u32, error = NoSuchFlight)]
/// struct Delay {
///     flight: String,
///     #[message(no_heap)]
///     answered_by: Handle,
/// }
/// # fn main() {
/// # let delay = Delay { flight: String::with_capacity(6), answered_by: Handle };
/// # assert_eq!(delay.heap_bytes(), 6);
/// # }
/// ```
///
/// Options on the type, each at most once:
///
/// | option | meaning | default |
/// |---|---|---|
/// | `reply = TYPE` | what the handler answers | `()` |
/// | `error = TYPE` | the application error of the handler | `turnkeep::Never`: it cannot fail |
/// | `check_reply = PATH` | a `fn(&Reply) -> Result<(), turnkeep::BadReply>`, asked before a reply leaves | every reply is good |
/// | `crate = PATH` | where `turnkeep` is found | `::turnkeep` |
///
/// Option on a field: `no_heap`. Its heap counts nothing, and its type need not implement `HeapSize`.
///
/// Type parameters are bound by `Send + 'static`, those that occur in a counted field also by `HeapSize`.
/// A message owns its data: a lifetime parameter is refused.
#[proc_macro_derive(Message, attributes(message))]
pub fn derive_message(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    message::expand(&input).unwrap_or_else(syn::Error::into_compile_error).into()
}

/// Derives `HeapSize`: the heap of a value is the heap of its fields.
///
/// On a field, `#[heap_size(skip)]` leaves it out; its type need not implement `HeapSize`. On the type,
/// `#[heap_size(crate = PATH)]` says where `turnkeep` is found. Type parameters that occur in a counted field
/// are bound by `HeapSize`. (`#[derive(Message)]` implements `HeapSize` as well: do not derive both.)
#[proc_macro_derive(HeapSize, attributes(heap_size))]
pub fn derive_heap_size(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    heap::expand(&input).unwrap_or_else(syn::Error::into_compile_error).into()
}
