//! Reads the `#[message(…)]` and `#[heap_size(…)]` attributes and refuses what they do not know.

use syn::meta::ParseNestedMeta;
use syn::parse::Parse;
use syn::{Attribute, DeriveInput, Error, ExprPath, Field, Path, Result, Token, Type, parse_quote};

/// How one derive's attributes are spelled.
#[derive(Clone, Copy)]
pub(crate) struct Words {
    /// The attribute: `message`.
    pub(crate) attribute: &'static str,
    /// The option that leaves a field out of the sum: `no_heap`.
    pub(crate) skip: &'static str,
    /// The options that a type may have.
    pub(crate) on_type: &'static [&'static str],
}

pub(crate) const MESSAGE: Words =
    Words { attribute: "message", skip: "no_heap", on_type: &["reply", "error", "check_reply", "crate"] };

pub(crate) const HEAP_SIZE: Words = Words { attribute: "heap_size", skip: "skip", on_type: &["crate"] };

/// The options of a type; what the user left out is `None`.
#[derive(Default)]
pub(crate) struct TypeOptions {
    pub(crate) reply: Option<Type>,
    pub(crate) error: Option<Type>,
    pub(crate) check_reply: Option<ExprPath>,
    krate: Option<Path>,
}

impl TypeOptions {
    /// Where the items of the facade are found.
    pub(crate) fn krate(&self) -> Path {
        self.krate.clone().unwrap_or_else(|| parse_quote!(::turnkeep))
    }
}

/// The options that stand on the type itself.
pub(crate) fn of_type(input: &DeriveInput, words: Words) -> Result<TypeOptions> {
    let mut options = TypeOptions::default();
    read(&input.attrs, words, |name, meta| {
        if name == words.skip {
            return Err(meta.error(format!("`{name}` belongs on a field, not on the type")));
        }
        if !words.on_type.contains(&name) {
            return Err(unknown(words, meta));
        }
        match name {
            "reply" => set(&mut options.reply, meta, Type::parse),
            "error" => set(&mut options.error, meta, Type::parse),
            "check_reply" => set(&mut options.check_reply, meta, ExprPath::parse),
            "crate" => set(&mut options.krate, meta, Path::parse_mod_style),
            _ => Err(unknown(words, meta)),
        }
    })?;
    Ok(options)
}

/// Whether the field is left out of the sum.
pub(crate) fn skips(field: &Field, words: Words) -> Result<bool> {
    let mut skip = None;
    read(&field.attrs, words, |name, meta| {
        if words.on_type.contains(&name) {
            return Err(meta.error(format!("`{name}` belongs on the type, not on a field")));
        }
        if name != words.skip {
            return Err(unknown(words, meta));
        }
        if meta.input.peek(Token![=]) {
            return Err(meta.error(format!("`{name}` takes no value")));
        }
        once(&mut skip, meta, ())
    })?;
    Ok(skip.is_some())
}

/// Refuses an attribute where none has a meaning: on a variant.
pub(crate) fn refuse_any(attributes: &[Attribute], words: Words) -> Result<()> {
    all(attributes.iter().filter(|it| it.path().is_ident(words.attribute)).map(|found| {
        let text = format!("`#[{}(…)]` has no meaning on a variant", words.attribute);
        Err(Error::new_spanned(found, text))
    }))
}

/// Ok if all are; else one error that shows every failure, so that the user meets them together.
pub(crate) fn all(results: impl IntoIterator<Item = Result<()>>) -> Result<()> {
    let mut errors = results.into_iter().filter_map(Result::err);
    let Some(mut first) = errors.next() else { return Ok(()) };
    errors.for_each(|next| first.combine(next));
    Err(first)
}

/// Calls `take` with every option of this derive's attributes.
fn read(
    attributes: &[Attribute],
    words: Words,
    mut take: impl FnMut(&str, &ParseNestedMeta<'_>) -> Result<()>,
) -> Result<()> {
    all(attributes.iter().filter(|it| it.path().is_ident(words.attribute)).map(|attribute| {
        attribute.parse_nested_meta(|meta| match meta.path.get_ident() {
            Some(name) => take(&name.to_string(), &meta),
            None => Err(unknown(words, &meta)),
        })
    }))
}

fn set<T>(
    slot: &mut Option<T>,
    meta: &ParseNestedMeta<'_>,
    parse: fn(syn::parse::ParseStream<'_>) -> Result<T>,
) -> Result<()> {
    let value = parse(meta.value()?)?;
    once(slot, meta, value)
}

fn once<T>(slot: &mut Option<T>, meta: &ParseNestedMeta<'_>, value: T) -> Result<()> {
    match slot.replace(value) {
        None => Ok(()),
        Some(_) => Err(meta.error("this option is given twice")),
    }
}

fn unknown(words: Words, meta: &ParseNestedMeta<'_>) -> Error {
    let Words { attribute, skip, on_type } = words;
    let on_type = on_type.join("`, `");
    meta.error(format!(
        "unknown option: `#[{attribute}(…)]` knows `{on_type}` on the type and `{skip}` on a field"
    ))
}
