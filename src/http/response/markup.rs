//! The text of clients in markup.
//!
//! Pure. Promises that no text opens a tag, ends an attribute, or turns the direction of the text around it.

use std::fmt::{self, Display, Write as _};

/// Text between tags or in an attribute with quotes.
pub struct Text<'a>(pub &'a str);

impl Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for c in self.0.chars() {
            match c {
                '&' => f.write_str("&amp;")?,
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '"' => f.write_str("&quot;")?,
                '\'' => f.write_str("&#39;")?,
                _ if is_hidden(c) => write!(f, "\\u{{{:x}}}", u32::from(c))?,
                _ => f.write_char(c)?,
            }
        }
        Ok(())
    }
}

/// The value of an attribute with quotes, exactly as it is. Holds no CR, which a parser takes for LF.
pub struct Attribute<'a>(pub &'a str);

impl Display for Attribute<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for c in self.0.chars() {
            match c {
                '&' => f.write_str("&amp;")?,
                '<' => f.write_str("&lt;")?,
                '"' => f.write_str("&quot;")?,
                _ => f.write_char(c)?,
            }
        }
        Ok(())
    }
}

/// True for a character without a form of its own, or that turns the direction of text; `shown` of `common.js` has the
/// same list.
fn is_hidden(c: char) -> bool {
    matches!(
        c,
        '\0'..='\u{1f}'
            | '\u{7f}'..='\u{9f}'
            | '\u{ad}'
            | '\u{61c}'
            | '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{2069}'
            | '\u{feff}'
    )
}

#[cfg(test)]
mod tests {
    use crate::http::response::markup::*;
    use proptest::prelude::*;

    #[test]
    fn text_is_escaped_and_what_hides_is_shown() {
        for (text, markup) in [
            ("a b/c", "a b/c"),
            ("<a href=\"x\">", "&lt;a href=&quot;x&quot;&gt;"),
            ("&amp; 'x'", "&amp;amp; &#39;x&#39;"),
            ("\u{202e}gpj.exe", "\\u{202e}gpj.exe"),
            ("a\r\nb\u{85}", "a\\u{d}\\u{a}b\\u{85}"),
            ("\u{e9}\u{1f980}", "\u{e9}\u{1f980}"),
        ] {
            assert_eq!(Text(text).to_string(), markup);
        }
    }

    /// Else a name would look different once the scripts run.
    #[test]
    fn the_scripts_show_the_same_as_escapes() {
        let scripts = include_str!("../ui/common.js");
        let class = scripts.split_once("const hidden = /[").unwrap().1;
        let class = class.split_once("]/g").unwrap().0;
        let mut units = class.split("\\u").skip(1);
        let code = |unit: &str| u32::from_str_radix(unit, 16).unwrap();
        let mut expected = Vec::new();
        while let Some(unit) = units.next() {
            match unit.strip_suffix('-') {
                Some(first) => expected.extend(code(first)..=code(units.next().unwrap())),
                None => expected.push(code(unit)),
            }
        }
        let hidden = (0..=0xffff).filter(|&c| char::from_u32(c).is_some_and(is_hidden));
        assert_eq!(hidden.collect::<Vec<_>>(), expected);
    }

    proptest! {
        #[test]
        fn no_text_is_markup_or_control(text in any::<String>()) {
            let markup = Text(&text).to_string();
            prop_assert!(!markup.contains(['<', '>', '"', '\'']));
            prop_assert!(!markup.chars().any(|c| c.is_control() || is_hidden(c)));
        }
    }
}
