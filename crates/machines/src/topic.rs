//! Topics: dot-separated text, and the patterns that match it.
//!
//! A pattern is matched greedily with one place to go back to, the newest star: enough, because an earlier star could
//! only give away what the newest one can take as well (Krauss, "Matching Wildcards", Dr. Dobb's Journal, 2008). The
//! time is at most the product of the two lengths.

/// Whether text is a topic: parts joined by dots, none empty, without spaces, control characters, `*` and `?`.
#[must_use]
pub fn is_topic(text: &str) -> bool {
    is_pattern(text) && !text.contains(['*', '?'])
}

/// Whether text is a pattern of topics: the same, `*` and `?` allowed.
#[must_use]
pub fn is_pattern(text: &str) -> bool {
    let is_part = |part: &str| !part.is_empty() && !part.chars().any(|c| c.is_whitespace() || c.is_control());
    text.split('.').all(is_part)
}

/// Whether a pattern matches the whole of a topic: `*` stands for any run of characters, dots included, `?` for one.
#[must_use]
pub fn matches(pattern: &str, topic: &str) -> bool {
    let (mut pattern, mut topic) = (pattern.chars(), topic.chars());
    // What follows the newest star, and what is left of the topic if it takes one character more.
    let mut star = None;
    loop {
        let (mut rest, mut left) = (pattern.clone(), topic.clone());
        let went = match (rest.next(), left.next()) {
            (None, None) => return true,
            (Some('*'), _) => {
                star = Some((rest.clone(), topic.clone()));
                pattern = rest;
                continue;
            }
            (Some('?'), Some(_)) => true,
            (Some(wanted), Some(found)) => wanted == found,
            _ => false,
        };
        if went {
            (pattern, topic) = (rest, left);
            continue;
        }
        let Some((after, mut taken)) = star else { return false };
        if taken.next().is_none() {
            return false;
        }
        (pattern, topic) = (after.clone(), taken.clone());
        star = Some((after, taken));
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::String;
    use alloc::vec::Vec;

    use super::*;

    /// The rule said once more, by trying everything.
    fn slow(pattern: &[char], topic: &[char]) -> bool {
        match pattern.split_first() {
            None => topic.is_empty(),
            Some(('*', rest)) => (0..=topic.len()).any(|taken| slow(rest, &topic[taken..])),
            Some(('?', rest)) => !topic.is_empty() && slow(rest, &topic[1..]),
            Some((wanted, rest)) => topic.first() == Some(wanted) && slow(rest, &topic[1..]),
        }
    }

    /// All texts over an alphabet, up to a length.
    fn texts(alphabet: &[char], longest: usize) -> Vec<String> {
        let mut all = Vec::from([String::new()]);
        let mut from = 0;
        for _ in 0..longest {
            let to = all.len();
            for at in from..to {
                for letter in alphabet {
                    let mut longer = all[at].clone();
                    longer.push(*letter);
                    all.push(longer);
                }
            }
            from = to;
        }
        all
    }

    #[test]
    fn chan_2_patterns_match_as_trying_everything_says() {
        for pattern in texts(&['a', 'b', '*', '?'], 5) {
            for topic in texts(&['a', 'b'], 5) {
                let chars = |text: &String| text.chars().collect::<Vec<_>>();
                assert_eq!(
                    matches(&pattern, &topic),
                    slow(&chars(&pattern), &chars(&topic)),
                    "{pattern} {topic}"
                );
            }
        }
        assert!(matches("data.*.EUR/?SD", "data.quotes.fast.EUR/USD"));
        assert!(matches("ü?", "üß") && !matches("?", ""));
    }

    #[test]
    fn chan_2_topics_are_parts_joined_by_dots() {
        for good in ["a", "a.b", "prices.EUR/USD.1-MIN", "ü.ß"] {
            assert!(is_topic(good) && is_pattern(good), "{good}");
        }
        for bad in ["", ".", "a.", ".a", "a..b", "a b", "a\nb"] {
            assert!(!is_topic(bad) && !is_pattern(bad), "{bad:?}");
        }
        assert!(is_pattern("a.*") && is_pattern("?") && !is_topic("a.*") && !is_topic("?"));
    }
}
