//! As much of Rust's grammar as it takes to find the tests of a file.

/// A function under a test attribute.
#[derive(Debug, Eq, PartialEq)]
pub(crate) struct Test {
    /// The function's name.
    pub(crate) name: String,
    /// The line of its `fn`, the first one being 1.
    pub(crate) line: usize,
}

/// The tests of a Rust file; what stands in comments and literals is none.
pub(crate) fn tests(text: &str) -> Vec<Test> {
    let code = code(text);
    let mut tests = Vec::new();
    let mut attributed = false;
    let mut at = 0;
    while let Some(&byte) = code.as_bytes().get(at) {
        match byte {
            b'#' if code[at + 1..].starts_with('[') => {
                let attribute = bracketed(&code[at + 1..]);
                attributed |= is_test(&attribute[1..]);
                at += 1 + attribute.len();
            }
            b';' | b'{' | b'}' => {
                attributed = false;
                at += 1;
            }
            _ if is_word(byte) => {
                let word = word(&code[at..]);
                at += word.len();
                if word == "fn" && attributed {
                    attributed = false;
                    tests.extend(named(&code, at));
                }
            }
            _ => at += 1,
        }
    }
    tests
}

/// The function whose name comes after `at`, if a name comes there.
fn named(code: &str, at: usize) -> Option<Test> {
    let rest = code[at..].trim_start();
    let name = word(rest);
    let line = code[..at].matches('\n').count() + 1;
    (!name.is_empty()).then(|| Test { name: name.into(), line })
}

/// From an opening bracket to just before the closing one that belongs to it.
fn bracketed(code: &str) -> &str {
    let mut depth = 0_usize;
    for (at, character) in code.char_indices() {
        match character {
            '[' => depth += 1,
            ']' if depth == 1 => return &code[..at],
            ']' => depth -= 1,
            _ => {}
        }
    }
    code
}

/// Whether an attribute makes a test: `test`, `some::test(…)`, `test_case(…)`, `cfg_attr(…, test)`.
fn is_test(attribute: &str) -> bool {
    let (path, rest) = attribute.split_at(attribute.find(['(', '=']).unwrap_or(attribute.len()));
    match path.rsplit("::").next().unwrap_or_default().trim() {
        "test" | "test_case" => true,
        "cfg_attr" => rest.trim_end_matches(')').split(',').skip(1).any(is_test),
        _ => false,
    }
}

fn word(code: &str) -> &str {
    let end = code.bytes().position(|byte| !is_word(byte)).unwrap_or(code.len());
    &code[..end]
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || !byte.is_ascii()
}

/// The text with spaces instead of every comment and literal, line by line as before.
fn code(text: &str) -> String {
    let mut code = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(character) = rest.chars().next() {
        let length = passive(rest);
        if length == 0 {
            // A word goes whole, so that the `r` that ends one begins no raw string.
            let taken = word(rest).len().max(character.len_utf8());
            code.push_str(&rest[..taken]);
            rest = &rest[taken..];
        } else {
            let blank = rest[..length].chars().map(|c| if c == '\n' { '\n' } else { ' ' });
            code.extend(blank);
            rest = &rest[length..];
        }
    }
    code
}

/// How many bytes of a comment or literal begin here.
fn passive(rest: &str) -> usize {
    if rest.starts_with("//") {
        return rest.find('\n').unwrap_or(rest.len());
    }
    if rest.starts_with("/*") {
        return block_comment(rest);
    }
    let prefix = ["br", "cr", "r", "b", "c", ""].into_iter().find(|prefix| {
        let after = rest.strip_prefix(prefix).unwrap_or_default();
        let raw = prefix.ends_with('r') && after.trim_start_matches('#').starts_with('"');
        raw || (!prefix.ends_with('r') && after.starts_with('"'))
    });
    match prefix {
        Some(prefix) if prefix.ends_with('r') => prefix.len() + raw_string(&rest[prefix.len()..]),
        Some(prefix) => prefix.len() + string(&rest[prefix.len()..]),
        None => character(rest),
    }
}

fn block_comment(rest: &str) -> usize {
    let (mut depth, mut at) = (0_usize, 0);
    while at < rest.len() {
        let two = rest.as_bytes().get(at..at + 2).unwrap_or_default();
        match two {
            b"/*" => depth += 1,
            b"*/" => depth -= 1,
            _ => {
                at += 1;
                continue;
            }
        }
        at += 2;
        if depth == 0 {
            break;
        }
    }
    at
}

fn raw_string(rest: &str) -> usize {
    let hashes = rest.bytes().take_while(|&byte| byte == b'#').count();
    let end = format!("\"{}", "#".repeat(hashes));
    let begin = hashes + 1;
    rest[begin..].find(&end).map_or(rest.len(), |at| begin + at + end.len())
}

fn string(rest: &str) -> usize {
    let mut escaped = false;
    for (at, byte) in rest.bytes().enumerate().skip(1) {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return at + 1,
            _ => {}
        }
    }
    rest.len()
}

/// A character literal; a lifetime is none.
fn character(rest: &str) -> usize {
    let Some(after) = rest.strip_prefix('\'') else { return 0 };
    if let Some(escape) = after.strip_prefix('\\') {
        let first = escape.chars().next().map_or(0, char::len_utf8);
        return escape[first..].find('\'').map_or(rest.len(), |at| 2 + first + at + 1);
    }
    match after.char_indices().nth(1) {
        Some((length, '\'')) => 1 + length + 1,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str) -> Vec<String> {
        super::tests(text).into_iter().map(|test| test.name).collect()
    }

    #[test]
    fn functions_under_test_attributes_are_found_with_their_lines() {
        let text = "#[test]\nfn one() {}\n\n#[tokio::test(flavor = \"x\")]\n#[ignore]\nasync fn two() {}\n";
        let want = [Test { name: "one".into(), line: 2 }, Test { name: "two".into(), line: 6 }];
        assert_eq!(super::tests(text), want);
    }

    #[test]
    fn functions_without_one_are_no_tests() {
        assert_eq!(names("#[cfg(test)]\nmod tests { fn helper() {} }"), [""; 0]);
        assert_eq!(names("#[test] fn a() { fn inner() {} } fn b() {}"), ["a"]);
        assert_eq!(names("#[test_only] fn a() {}"), [""; 0]);
        assert_eq!(names("#[test] fn $name() {}"), [""; 0]);
    }

    #[test]
    fn conditional_attributes_count() {
        assert_eq!(names("#[cfg_attr(loom, test)] fn a() {}"), ["a"]);
        assert_eq!(names("#[cfg_attr(test, allow(x))] fn a() {}"), [""; 0]);
    }

    #[test]
    fn comments_and_literals_hide_what_they_hold() {
        for hidden in [
            "// #[test] fn a() {}",
            "/* /* */ #[test] fn a() {} */",
            "\"\\\" #[test] fn a() {}\"",
            "r#\"\" #[test] fn a() {}\"#",
            "br\"\\\"",
            "b\"#[test] fn a() {}\"",
            "'\"'",
            "'\\''",
            "'\\u{7f}'",
            "'é'",
        ] {
            assert_eq!(names(&format!("{hidden}\n#[test] fn b() {{}}")), ["b"], "{hidden}");
        }
    }

    #[test]
    fn lifetimes_and_names_that_end_in_r_begin_no_literal() {
        assert_eq!(names("fn f<'a>(x: &'a str) {}\n#[test] fn b() {}"), ["b"]);
        assert_eq!(names("m!(for\"x\"); #[test] fn b() {}"), ["b"]);
        assert_eq!(names("r#fn; #[test] fn b() {}"), ["b"]);
    }

    #[test]
    fn unfinished_text_ends_quietly() {
        for text in ["#[", "#", "\"", "r#\"", "'\\", "'", "/*", "#[test] fn", "#[test", "b", "'\\é"] {
            assert_eq!(names(text), [""; 0], "{text}");
        }
    }
}
