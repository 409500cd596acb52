//! The sum of the heap that the fields of a type own, and the `HeapSize` derive made of it.

use proc_macro2::{Ident, Span, TokenStream, TokenTree};
use quote::{ToTokens, format_ident, quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{Data, DeriveInput, Error, Fields, Generics, Index, Member, Path, Result, parse_quote};

use crate::options::{self, HEAP_SIZE, Words};

/// Expands `#[derive(HeapSize)]`.
pub(crate) fn expand(input: &DeriveInput) -> Result<TokenStream> {
    let options = options::of_type(input, HEAP_SIZE);
    let krate = options.as_ref().map_or_else(|_| parse_quote!(::turnkeep), options::TypeOptions::krate);
    let heap = Heap::of(input, HEAP_SIZE, &krate);
    options::all([options.map(drop), heap.as_ref().map(drop).map_err(Clone::clone)])?;
    Ok(heap?.implement(input, &krate))
}

/// What a type's heap consists of.
pub(crate) struct Heap {
    /// The body of `heap_bytes(&self)`.
    body: TokenStream,
    /// The types of the fields that count, as tokens: they decide which parameters are bound.
    counted: TokenStream,
}

impl Heap {
    /// Reads the fields of `input`. Fails on unions and on attributes that say nothing.
    pub(crate) fn of(input: &DeriveInput, words: Words, krate: &Path) -> Result<Self> {
        let mut sum = Sum { words, krate, arms: TokenStream::new(), counted: TokenStream::new() };
        match &input.data {
            Data::Struct(data) => sum.add(&quote!(Self), &data.fields)?,
            Data::Enum(data) => options::all(data.variants.iter().map(|variant| {
                let name = &variant.ident;
                let fields = sum.add(&quote!(Self::#name), &variant.fields);
                options::all([options::refuse_any(&variant.attrs, words), fields])
            }))?,
            Data::Union(data) => {
                let text = "a union does not know which of its fields it holds, so its heap has no size";
                return Err(Error::new(data.union_token.span, text));
            }
        }
        let Sum { arms, counted, .. } = sum;
        let body = if counted.is_empty() { quote!(0) } else { quote!(match self { #arms }) };
        Ok(Self { body, counted })
    }

    /// The generics of `input`, with `HeapSize` for the parameters that occur in a counted field.
    pub(crate) fn bound(&self, input: &DeriveInput, krate: &Path) -> Generics {
        let mut generics = input.generics.clone();
        for parameter in generics.type_params_mut() {
            if mentions(self.counted.clone(), &parameter.ident) {
                parameter.bounds.push(parse_quote!(#krate::HeapSize));
            }
        }
        generics
    }

    /// `impl HeapSize for T`.
    pub(crate) fn implement(&self, input: &DeriveInput, krate: &Path) -> TokenStream {
        let (name, body) = (&input.ident, &self.body);
        let generics = self.bound(input, krate);
        let (parameters, arguments, bounds) = generics.split_for_impl();
        quote! {
            #[automatically_derived]
            impl #parameters #krate::HeapSize for #name #arguments #bounds {
                fn heap_bytes(&self) -> u64 { #body }
            }
        }
    }
}

/// Collects the arms of the `match` that adds up the fields.
struct Sum<'a> {
    words: Words,
    krate: &'a Path,
    arms: TokenStream,
    counted: TokenStream,
}

impl Sum<'_> {
    /// Adds the arm of one struct or variant. A pattern `Name { 0: a, .. }` fits every kind of fields.
    fn add(&mut self, constructor: &TokenStream, fields: &Fields) -> Result<()> {
        let mut pattern = TokenStream::new();
        let mut terms = Vec::new();
        options::all(fields.iter().enumerate().map(|(position, field)| {
            if options::skips(field, self.words)? {
                return Ok(());
            }
            let member =
                field.ident.clone().map_or_else(|| Member::from(Index::from(position)), Member::from);
            // The field's place, so that an error about its type points there; the macro's hygiene.
            let place = field.ty.span().resolved_at(Span::mixed_site());
            let local = format_ident!("owner_{position}", span = place);
            pattern.extend(quote!(#member: #local,));
            let krate = self.krate;
            terms.push(quote_spanned!(place=> #krate::HeapSize::heap_bytes(#local)));
            field.ty.to_tokens(&mut self.counted);
            Ok(())
        }))?;
        let mut terms = terms.into_iter();
        let first = terms.next().unwrap_or_else(|| quote!(0));
        self.arms.extend(quote!(#constructor { #pattern .. } => #first #(.saturating_add(#terms))*,));
        Ok(())
    }
}

fn mentions(tokens: TokenStream, name: &Ident) -> bool {
    tokens.into_iter().any(|token| match token {
        TokenTree::Ident(ident) => ident == *name,
        TokenTree::Group(group) => mentions(group.stream(), name),
        TokenTree::Punct(_) | TokenTree::Literal(_) => false,
    })
}

#[cfg(test)]
mod tests;
