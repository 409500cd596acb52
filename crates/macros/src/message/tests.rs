//! The expansion of `Message`, token by token.

use super::*;

fn expanded(source: &str) -> String {
    expand(&syn::parse_str(source).unwrap()).unwrap().to_string()
}

fn errors(source: &str) -> Vec<String> {
    let error = expand(&syn::parse_str(source).unwrap()).unwrap_err();
    error.into_iter().map(|one| format!("{}: {one}", one.span().source_text().unwrap())).collect()
}

#[test]
fn derive_message_defaults_are_no_reply_and_no_error() {
    let wanted = quote! {
        #[automatically_derived]
        impl ::turnkeep::Message for Tick {
            type Reply = ();
            type Error = ::turnkeep::Never;
        }
        #[automatically_derived]
        impl ::turnkeep::HeapSize for Tick {
            fn heap_bytes(&self) -> u64 { 0 }
        }
    };
    assert_eq!(expanded("struct Tick;"), wanted.to_string());
}

#[test]
fn derive_message_takes_the_types_it_is_given() {
    for source in [
        "#[message(reply = Vec<(u8, u8)>, error = my::Refused<u8>)] struct T;",
        "#[message(reply = Vec<(u8, u8)>)] #[message(error = my::Refused<u8>,)] struct T;",
    ] {
        let text = expanded(source);
        let types = quote!(
            type Reply = Vec<(u8, u8)>;
            type Error = my::Refused<u8>;
        );
        assert!(text.contains(&types.to_string()), "{text}");
    }
}

#[test]
fn derive_message_check_reply_calls_the_named_function() {
    let text = expanded("#[message(reply = u8, check_reply = Self::even)] struct T;");
    let check = quote! {
        fn check_reply(reply: &Self::Reply) -> ::core::result::Result<(), ::turnkeep::BadReply> {
            Self::even(reply)
        }
    };
    assert!(text.contains(&check.to_string()), "{text}");
}

#[test]
fn lane_2_derive_message_leaves_out_no_heap_fields() {
    let text = expanded("struct T { a: String, #[message(no_heap)] b: Opaque }");
    assert_eq!(text.matches("owner_0").count(), 2, "{text}");
    assert!(!text.contains("owner_1") && !text.contains("Opaque"), "{text}");
}

#[test]
fn derive_message_binds_its_parameters() {
    let text = expanded("struct T<A, B>(A, #[message(no_heap)] B);");
    let message = quote! {
        impl<
            A: ::turnkeep::HeapSize + ::core::marker::Send + 'static,
            B: ::core::marker::Send + 'static
        > ::turnkeep::Message for T<A, B>
    };
    let heap_size = quote!(impl<A: ::turnkeep::HeapSize, B> ::turnkeep::HeapSize for T<A, B>);
    assert!(text.contains(&message.to_string()), "{text}");
    assert!(text.contains(&heap_size.to_string()), "{text}");
}

#[test]
fn derive_message_crate_replaces_every_path() {
    let text = expanded("#[message(crate = crate::facade, check_reply = good)] struct T<A>(A);");
    assert!(text.contains("crate :: facade :: Never") && !text.contains("turnkeep"), "{text}");
}

#[test]
fn derive_message_refuses_bad_options_at_the_option() {
    let knows = "unknown option: `#[message(…)]` knows `reply`, `error`, `check_reply`, `crate` on the type \
                 and `no_heap` on a field";
    assert_eq!(errors("#[message(answer = u8)] struct T;"), [format!("answer: {knows}")]);
    assert_eq!(errors("struct T(#[message(skip)] u8);"), [format!("skip: {knows}")]);
    assert_eq!(
        errors("#[message(no_heap)] struct T;"),
        ["no_heap: `no_heap` belongs on a field, not on the type"]
    );
    assert_eq!(
        errors("struct T { #[message(reply = u8)] a: u8 }"),
        ["reply: `reply` belongs on the type, not on a field"]
    );
    assert_eq!(
        errors("#[message(reply = u8, reply = u8)] struct T;"),
        ["reply = u8: this option is given twice"]
    );
    assert_eq!(
        errors("#[message(error = A)] #[message(error = B)] struct T;"),
        ["error = B: this option is given twice"]
    );
}

#[test]
fn derive_message_refuses_malformed_options_without_panic() {
    for source in [
        "#[message] struct T;",
        "#[message = 1] struct T;",
        "#[message(reply)] struct T;",
        "#[message(reply = )] struct T;",
        "#[message(reply = 1)] struct T;",
        "#[message(crate = a::<u8>)] struct T;",
        "#[message(check_reply = |r| Ok(()))] struct T;",
        "#[message(1)] struct T;",
        "#[message(a::b)] struct T;",
        "#[message(reply = u8 error = u8)] struct T;",
        "struct T(#[message] u8);",
        "struct T(#[message(no_heap())] u8);",
        "enum T { #[message(no_heap)] A(u8) }",
        "union T { a: u8 }",
    ] {
        assert_eq!(errors(source).len(), 1, "{source}");
    }
}

#[test]
fn derive_message_refuses_what_it_could_borrow_from() {
    let text = "'a: a message owns its data: it waits in a lane and cannot borrow";
    assert_eq!(errors("struct T<'a>(&'a str);"), [text]);
}

#[test]
fn derive_message_shows_all_its_errors_together() {
    assert_eq!(errors("#[message(x)] #[message(y)] struct T<'a>(#[message(z)] &'a u8);").len(), 4);
}
