//! The credentials of a request: the field Authorization (RFC 9110, section 11.6.2), and how far they are known.
//!
//! Credentials are proved elsewhere; nothing here says whether they are true. Their text is in no `Debug` output.

use std::fmt;
use std::rc::Rc;

use base64::Engine as _;
use base64::engine::GeneralPurpose;
use base64::engine::general_purpose::GeneralPurposeConfig;

use crate::access::Source;
use crate::http::auth::proven::Proof;

/// The most of a name or a password, in bytes. Hashing a longer one takes time that its sender does not pay.
const LONGEST: usize = 1024;

/// Base64 with or without its padding: RFC 7617 says nothing of a client that leaves it out.
const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &base64::alphabet::STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(base64::engine::DecodePaddingMode::Indifferent),
);

/// What a client proves itself by.
#[derive(Clone, PartialEq, Eq)]
pub enum Credentials<'a> {
    /// A token (RFC 6750).
    Token(&'a [u8]),
    /// A name and a password, or a token in place of the password (RFC 7617).
    Password(NameAndPassword),
}

/// See [`Credentials::Password`].
#[derive(Clone, PartialEq, Eq)]
pub struct NameAndPassword {
    pub name: String,
    pub password: Vec<u8>,
}

/// The credentials in a field; `None` where it is of another scheme or malformed.
pub fn credentials(field: &[u8]) -> Option<Credentials<'_>> {
    let end = field.iter().position(|&byte| byte == b' ')?;
    let (scheme, rest) = (&field[..end], field[end..].trim_ascii());
    if scheme.eq_ignore_ascii_case(b"bearer") {
        let is_token = !rest.is_empty() && rest.len() <= LONGEST && rest.is_ascii();
        return is_token.then_some(Credentials::Token(rest));
    }
    if scheme.eq_ignore_ascii_case(b"basic") {
        return basic(rest).map(Credentials::Password);
    }
    None
}

fn basic(encoded: &[u8]) -> Option<NameAndPassword> {
    if encoded.len() > 4 * LONGEST {
        return None;
    }
    let mut name = LENIENT.decode(encoded).ok()?;
    // A name has no colon; a password may.
    let colon = name.iter().position(|&byte| byte == b':')?;
    let password = name.split_off(colon + 1);
    name.pop();
    let name = String::from_utf8(name).ok()?;
    (name.len() <= LONGEST && password.len() <= LONGEST)
        .then_some(NameAndPassword { name, password })
}

impl fmt::Debug for Credentials<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Token(_) => "Token",
            Self::Password(_) => "Password",
        })
    }
}

impl fmt::Debug for NameAndPassword {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NameAndPassword").finish_non_exhaustive()
    }
}

/// The fields Authorization of a request.
#[derive(Clone, Copy, Debug, Default)]
pub enum Presented<'a> {
    /// There is none.
    #[default]
    Nothing,
    /// There is this one.
    Field(&'a [u8]),
    /// There are several, which say nothing together.
    Several,
}

impl<'a> Presented<'a> {
    /// With one more.
    pub fn and(self, field: &'a [u8]) -> Self {
        match self {
            Self::Nothing => Self::Field(field),
            Self::Field(_) | Self::Several => Self::Several,
        }
    }
}

/// Who asks.
#[derive(Debug)]
pub enum Identified {
    /// It is known, or does not matter.
    Known(Option<Rc<Proof>>),
    /// The password has to be checked first, which takes time.
    Unchecked(Box<Unchecked>),
}

/// A password that is yet to be checked, for the field that it came in.
#[derive(Debug)]
pub struct Unchecked {
    pub field: Box<[u8]>,
    pub pair: NameAndPassword,
    pub source: Source,
}

#[cfg(test)]
mod tests {
    use base64::engine::general_purpose::STANDARD;
    use proptest::prelude::*;

    use crate::http::auth::credentials::*;

    fn password(name: &str, password: &[u8]) -> Credentials<'static> {
        Credentials::Password(NameAndPassword {
            name: name.to_owned(),
            password: password.to_vec(),
        })
    }

    #[test]
    fn a_claim_is_a_token_or_a_name_with_a_password() {
        let token: &[u8] = b"abc.-_~+/=";
        for field in ["Bearer abc.-_~+/=", "bearer   abc.-_~+/=  "] {
            assert_eq!(
                credentials(field.as_bytes()),
                Some(Credentials::Token(token)),
                "{field}"
            );
        }
        // RFC 7617, section 2.
        let aladdin = credentials(b"Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==");
        assert_eq!(aladdin, Some(password("Aladdin", b"open sesame")));
        assert_eq!(credentials(b"basic QWxhZGRpbjpvcGVuIHNlc2FtZQ"), aladdin);
        assert_eq!(credentials(b"Basic OmE6Yg=="), Some(password("", b"a:b")));
        let long = STANDARD.encode(vec![b'x'; 2 * LONGEST]);
        for bad in [
            "",
            "Bearer",
            "Bearer ",
            "Basic",
            "Basic !",
            "Basic YQ==",
            "Digest a=b",
            "Basic /zo=",
            &format!("Bearer {}", "x".repeat(LONGEST + 1)),
            &format!("Basic {long}"),
        ] {
            assert_eq!(credentials(bad.as_bytes()), None, "{bad}");
        }
        assert_eq!(format!("{aladdin:?}"), "Some(Password)");
    }

    proptest! {
        #[test]
        fn what_is_encoded_is_found_again(name in "[^:\u{0}]{0,20}", secret: [u8; 8]) {
            let pair = [name.as_bytes(), b":", &secret].concat();
            let field = format!("Basic {}", STANDARD.encode(pair));
            prop_assert_eq!(credentials(field.as_bytes()), Some(password(&name, &secret)));
        }

        #[test]
        fn no_field_makes_it_panic(field: Vec<u8>) {
            let _ = credentials(&field);
            let _ = credentials(&[b"Basic ", field.as_slice()].concat());
        }
    }
}
