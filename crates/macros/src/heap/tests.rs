//! The expansion of `HeapSize`, token by token.

use super::*;

fn expanded(source: &str) -> String {
    expand(&syn::parse_str(source).unwrap()).unwrap().to_string()
}

fn errors(source: &str) -> Vec<String> {
    let error = expand(&syn::parse_str(source).unwrap()).unwrap_err();
    error.into_iter().map(|one| format!("{}: {one}", one.span().source_text().unwrap())).collect()
}

fn assert_body(source: &str, body: TokenStream) {
    let wanted = quote! {
        #[automatically_derived]
        impl ::turnkeep::HeapSize for T {
            fn heap_bytes(&self) -> u64 { #body }
        }
    };
    assert_eq!(expanded(source), wanted.to_string());
}

#[test]
fn lane_2_derive_named_fields_are_added_up() {
    assert_body(
        "struct T { a: String, b: Vec<u8> }",
        quote!(match self {
            Self { a: owner_0, b: owner_1, .. } => ::turnkeep::HeapSize::heap_bytes(owner_0)
                .saturating_add(::turnkeep::HeapSize::heap_bytes(owner_1)),
        }),
    );
}

#[test]
fn lane_2_derive_tuple_fields_are_matched_by_index() {
    assert_body(
        "struct T(#[heap_size(skip)] Opaque, String);",
        quote!(match self {
            Self { 1: owner_1, .. } => ::turnkeep::HeapSize::heap_bytes(owner_1),
        }),
    );
}

#[test]
fn lane_2_derive_without_counted_fields_is_zero() {
    for source in
        ["struct T;", "struct T {}", "enum T {}", "enum T { A, B }", "struct T(#[heap_size(skip)] X);"]
    {
        assert_body(source, quote!(0));
    }
}

#[test]
fn lane_2_derive_every_variant_has_an_arm() {
    assert_body(
        "enum T { A, B(String), C { c: String, #[heap_size(skip)] d: Opaque } }",
        quote!(match self {
            Self::A { .. } => 0,
            Self::B { 0: owner_0, .. } => ::turnkeep::HeapSize::heap_bytes(owner_0),
            Self::C { c: owner_0, .. } => ::turnkeep::HeapSize::heap_bytes(owner_0),
        }),
    );
}

#[test]
fn lane_2_derive_binds_the_parameters_of_counted_fields() {
    let text = expanded(
        "struct T<'a, A: Copy, B = u8, const N: usize>(Vec<A>, [u8; N], &'a u8, #[heap_size(skip)] B) where A: Eq;",
    );
    let header = quote! {
        impl<'a, A: Copy + ::turnkeep::HeapSize, B, const N: usize> ::turnkeep::HeapSize for T<'a, A, B, N>
        where A: Eq
    };
    assert!(text.contains(&header.to_string()), "{text}");
}

#[test]
fn derive_heap_size_crate_replaces_every_path() {
    let text = expanded("#[heap_size(crate = crate::facade)] struct T<A>(A);");
    assert!(text.contains("crate :: facade :: HeapSize") && !text.contains("turnkeep"), "{text}");
}

#[test]
fn derive_heap_size_refuses_a_union_at_its_keyword() {
    let text = "union: a union does not know which of its fields it holds, so its heap has no size";
    assert_eq!(errors("union T { a: u8, b: u16 }"), [text]);
}

#[test]
fn derive_heap_size_refuses_what_it_does_not_know_at_the_option() {
    let knows = "unknown option: `#[heap_size(…)]` knows `crate` on the type and `skip` on a field";
    assert_eq!(errors("#[heap_size(reply = u8)] struct T;"), [format!("reply: {knows}")]);
    assert_eq!(errors("struct T(#[heap_size(no_heap)] u8);"), [format!("no_heap: {knows}")]);
    assert_eq!(errors("struct T(#[heap_size(a::skip)] u8);").len(), 1);
    assert_eq!(errors("struct T(#[heap_size(skip = 1)] u8);"), ["skip: `skip` takes no value"]);
    assert_eq!(errors("struct T(#[heap_size(skip, skip)] u8);"), ["skip: this option is given twice"]);
    assert_eq!(
        errors("enum T { #[heap_size(skip)] A }"),
        ["#[heap_size(skip)]: `#[heap_size(…)]` has no meaning on a variant"]
    );
}

#[test]
fn derive_heap_size_shows_all_its_errors_together() {
    assert_eq!(errors("#[heap_size(a)] struct T(#[heap_size(b)] u8, #[heap_size(c)] u8);").len(), 3);
}
