//! The `Message` derive: reply, error, heap and the check of a reply.

use proc_macro2::TokenStream;
use quote::quote;
use syn::{DeriveInput, Error, Generics, Path, Result, Type, parse_quote};

use crate::heap::Heap;
use crate::options::{self, MESSAGE, TypeOptions};

/// Expands `#[derive(Message)]`.
pub(crate) fn expand(input: &DeriveInput) -> Result<TokenStream> {
    let options = options::of_type(input, MESSAGE);
    let krate = options.as_ref().map_or_else(|_| parse_quote!(::turnkeep), TypeOptions::krate);
    let heap = Heap::of(input, MESSAGE, &krate);
    options::all([
        options.as_ref().map(drop).map_err(Clone::clone),
        refuse_lifetimes(&input.generics),
        heap.as_ref().map(drop).map_err(Clone::clone),
    ])?;
    let (options, heap) = (options?, heap?);
    let message = implement(input, &options, &krate, heap.bound(input, &krate));
    let heap_size = heap.implement(input, &krate);
    Ok(quote!(#message #heap_size))
}

/// `impl Message for T`.
fn implement(
    input: &DeriveInput,
    options: &TypeOptions,
    krate: &Path,
    mut generics: Generics,
) -> TokenStream {
    for parameter in generics.type_params_mut() {
        parameter.bounds.push(parse_quote!(::core::marker::Send));
        parameter.bounds.push(parse_quote!('static));
    }
    let (parameters, arguments, bounds) = generics.split_for_impl();
    let name = &input.ident;
    let reply = options.reply.clone().unwrap_or_else(|| parse_quote!(()));
    let error: Type = options.error.clone().unwrap_or_else(|| parse_quote!(#krate::Never));
    let check_reply = options.check_reply.as_ref().map(|check| {
        quote! {
            fn check_reply(reply: &Self::Reply) -> ::core::result::Result<(), #krate::BadReply> {
                #check(reply)
            }
        }
    });
    quote! {
        #[automatically_derived]
        impl #parameters #krate::Message for #name #arguments #bounds {
            type Reply = #reply;
            type Error = #error;
            #check_reply
        }
    }
}

/// A message waits in a lane, for longer than any frame it could borrow from.
fn refuse_lifetimes(generics: &Generics) -> Result<()> {
    options::all(generics.lifetimes().map(|found| {
        Err(Error::new_spanned(found, "a message owns its data: it waits in a lane and cannot borrow"))
    }))
}

#[cfg(test)]
mod tests;
