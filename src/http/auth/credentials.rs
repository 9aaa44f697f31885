//! The credentials of a request: the field Authorization (RFC 9110, section 11.6.2), and the query of a signed link
//! (`expires`, `by`, `signature`, and `max` for a PUT). And the principal that a connection keeps. The guard verifies
//! credentials.
//!
//! A path below `/-/link/` is that of a signed link to a folder. A query with a `signature` is a signed link; a
//! parameter of a link that is repeated makes it invalid. Other parameters are ignored: mail and chat programs add
//! theirs to each link, and the signature does not depend on them. The same credentials are verified once for a
//! connection. The result ends with its policy, and with its subject or certificate. No text of a credential is in
//! `Debug` output.

use crate::http::refusal::Refusal;
use crate::http::refusal::kind::{Flag, Kind};
use hyper::{StatusCode, Uri};
use std::cell::{OnceCell, RefCell};
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;
use std::time::SystemTime;

use base64::Engine as _;
use base64::engine::GeneralPurpose;
use base64::engine::general_purpose::GeneralPurposeConfig;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use form_urlencoded::byte_serialize;
use hyper::header::{HeaderValue, WWW_AUTHENTICATE};

use crate::access::{Access, ClientSource, Evidence, LinkKind, LinkTerms, Policy, Subject};
use crate::http::head::query::QueryFields;
use crate::http::head::syntax::encoded;
use crate::metrics::AuthResult;
use crate::store::now;

/// The most of a name or a password, in bytes. Hashing a longer one takes time that its sender does not pay.
const LONGEST: usize = 1024;

/// Base64 with or without its padding: RFC 7617 does not mention clients that omit it.
const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &base64::alphabet::STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(base64::engine::DecodePaddingMode::Indifferent),
);

/// The credentials of a client.
#[derive(Clone, PartialEq, Eq)]
pub enum Credentials<'a> {
    /// A token (RFC 6750).
    Token(&'a [u8]),
    /// A name and a password, or a token in place of the password (RFC 7617).
    Password(NameAndPassword),
}

/// A name and a password; neither is longer than [`LONGEST`].
#[derive(Clone, PartialEq, Eq)]
pub struct NameAndPassword {
    pub name: String,
    pub password: Vec<u8>,
}

/// The credentials in a field; `None` for another scheme, or a malformed field.
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

/// A signed link. Its signature is in no `Debug` output.
#[derive(Clone, Default)]
pub struct SignedLink {
    /// The end, in seconds since 1970.
    pub expires: u64,
    /// The name of the key that it is signed with.
    pub by: String,
    /// The longest value that it may store, in bytes.
    pub max: Option<u64>,
    /// The signature, in base64url.
    pub signature: String,
}

impl SignedLink {
    /// The path of the link with these terms, from the root on, and its query.
    pub fn address(&self, terms: &LinkTerms<'_>) -> String {
        if !terms.is_of_folder() {
            return format!("/{}?{}", encoded(terms.key), self.query());
        }
        let (folder, (_, kind)) = (terms.key, LinkKind::METHODS[terms.kind as usize]);
        let text = format!("{kind}\n{}\n{}\n{folder}", self.expires, self.by);
        let (text, path) = (BASE64_URL_SAFE_NO_PAD.encode(text), encoded(folder));
        format!("{FOLDER_LINKS}{text}.{}/{path}", self.signature)
    }

    /// The query of the link.
    pub fn query(&self) -> String {
        let by: String = byte_serialize(self.by.as_bytes()).collect();
        let max = self
            .max
            .map_or_else(String::new, |max| format!("&max={max}"));
        format!(
            "expires={}&by={by}{max}&signature={}",
            self.expires, self.signature
        )
    }
}

/// The beginning of the paths below which a signed link to a folder is followed.
const FOLDER_LINKS: &str = "/-/link/";

/// A signed link to a folder: the beginning of the paths of all requests by it, so that relative links stay in it.
pub struct FolderLink {
    pub kind: LinkKind,
    /// The name of the folder, with a `/` at the end; empty for the root.
    pub folder: String,
    /// `None` of one that is malformed.
    pub signed: Option<SignedLink>,
}

impl FolderLink {
    /// Takes the link from the beginning of the path of `target`, which becomes the one that is asked for by it; `None`
    /// where there is none. The secret is then in no log.
    pub fn take(target: &mut Uri) -> Option<Self> {
        let rest = target.path().strip_prefix(FOLDER_LINKS)?;
        let (token, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        // Of two links, one in the other, none is told.
        let path = if path.starts_with(FOLDER_LINKS) {
            ""
        } else {
            path
        };
        let link = Self::read(token).unwrap_or(Self {
            kind: LinkKind::Read,
            folder: String::new(),
            signed: None,
        });
        let query = target
            .query()
            .map_or_else(String::new, |query| format!("?{query}"));
        let mut parts = target.clone().into_parts();
        parts.path_and_query = format!("/{}{query}", path.trim_start_matches('/'))
            .parse()
            .ok();
        *target = Uri::from_parts(parts).unwrap_or_default();
        Some(link)
    }

    fn read(token: &str) -> Option<Self> {
        let (text, signature) = token.split_once('.')?;
        let text = String::from_utf8(BASE64_URL_SAFE_NO_PAD.decode(text).ok()?).ok()?;
        let mut parts = text.splitn(4, '\n');
        let method = parts.next()?;
        let (kind, _) = LinkKind::METHODS
            .into_iter()
            .find(|(_, known)| *known == method)?;
        let signed = SignedLink {
            expires: number(parts.next()?)?,
            by: parts.next()?.to_owned(),
            max: None,
            signature: signature.to_owned(),
        };
        let folder = parts.next()?.to_owned();
        let is_folder = folder.is_empty() || folder.ends_with('/');
        is_folder.then_some(Self {
            kind,
            folder,
            signed: Some(signed),
        })
    }
}

const UNAUTHENTICATED: &Kind =
    &Kind::new(StatusCode::UNAUTHORIZED, "unauthenticated").flags(&[Flag::Audited]);
const BAD_LINK: &Kind = &Kind::new(StatusCode::FORBIDDEN, "bad-link").flags(&[Flag::Audited]);

pub const EXPIRED: Refusal = Refusal::new(BAD_LINK, "this link has expired");
pub const INVALID: Refusal = Refusal::new(BAD_LINK, "this link is not valid");

/// The signed link in `query`; `None` where it is none.
pub fn signed_link(query: &QueryFields<'_>) -> Option<Result<SignedLink, Refusal>> {
    query.has("signature").then(|| read(query).ok_or(INVALID))
}

fn read(query: &QueryFields<'_>) -> Option<SignedLink> {
    let once = |name| query.all(name).count() <= 1;
    let is_whole = ["expires", "by", "max", "signature"].into_iter().all(once);
    let max = query.get("max").map(number);
    Some(SignedLink {
        expires: number(query.get("expires").filter(|_| is_whole)?)?,
        by: query.get("by")?.to_owned(),
        max: max.map_or(Some(None), |max| max.map(Some))?,
        signature: query.get("signature")?.to_owned(),
    })
}

/// A number in its one spelling, so that a link has one text.
fn number(text: &str) -> Option<u64> {
    let number: u64 = text.parse().ok()?;
    (number.to_string() == text).then_some(number)
}

/// The method by which a client authenticated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuthMethod {
    /// Nothing: an anonymous client.
    Nothing,
    /// A token in a field that programs set.
    Bearer,
    /// A name and a password, which browsers send by themselves.
    Basic,
    /// The certificate of the connection.
    Certificate,
    /// A signature by a key of S3, of a request or of a URL.
    Signature { is_of_url: bool },
    /// The word of a trusted proxy, which browsers prove themselves to by what they send by themselves.
    Proxy,
    /// A signed link to a folder.
    FolderLink,
    /// A signed link.
    Link {
        /// The longest value that it may store, in bytes.
        max: Option<u64>,
    },
}

/// The authenticated client of a request. It decides what the request may do.
#[derive(Clone, Debug)]
pub struct Principal {
    pub subject: Arc<Subject>,
    pub by: AuthMethod,
    /// The evidence, to prove the subject again after a change of the rules.
    pub evidence: Evidence,
    /// The rules that it was authenticated by.
    pub access: Arc<Access>,
}

impl Principal {
    /// True for credentials that browsers send by themselves, also on behalf of pages of other origins.
    pub fn is_ambient(&self) -> bool {
        use AuthMethod::{Basic, Certificate, Proxy};
        matches!(self.by, Basic | Certificate | Proxy)
    }

    /// The name of the evidence in the audit log.
    pub fn name_of_evidence(&self) -> &'static str {
        match (self.by, &self.evidence) {
            (AuthMethod::Link { .. } | AuthMethod::FolderLink, _) => "link",
            (AuthMethod::Signature { is_of_url: true }, _) => "s3-url",
            (_, Evidence::S3Key { .. }) => "s3-key",
            (_, Evidence::Token(_)) => "token",
            (_, Evidence::Password { .. }) => "password",
            (_, Evidence::Certificate(_)) => "certificate",
            (_, Evidence::Proxy(_)) => "proxy",
            (_, Evidence::Nothing) => "nothing",
        }
    }
}

/// The subject that `evidence` proves now; `None` where it proves none.
pub fn proven_subject<'p>(
    policy: &'p Policy,
    evidence: &Evidence,
    by: AuthMethod,
) -> Option<&'p Arc<Subject>> {
    // A certificate of an expired subject is no failure: its client is anonymous.
    let otherwise = (by == AuthMethod::Certificate).then_some(&policy.anonymous);
    policy.prove(evidence, SystemTime::now()).or(otherwise)
}

/// The refusal of a client that has to authenticate, counted as `result`.
pub fn unauthenticated(access: &Access, result: AuthResult) -> Refusal {
    access.count(result);
    let policy = access.policy();
    let mut refusal = UNAUTHENTICATED
        .because("authentication required: send a valid token, or name and password");
    // The schemes (RFC 9110, section 11.6.1). The realm is printable, and holds no quote.
    for (scheme, rest) in [("Basic", ", charset=\"UTF-8\""), ("Bearer", "")] {
        let challenge = format!("{scheme} realm=\"{}\"{rest}", policy.realm);
        if let Ok(challenge) = HeaderValue::try_from(challenge) {
            refusal = refusal.with(WWW_AUTHENTICATE, challenge);
        }
    }
    refusal
}

/// The field Authorization of a client, if it has one, or the name by which a proxy has signed it on, to be held
/// against the policy of a generation.
pub struct Presented<'a> {
    pub field: Option<&'a [u8]>,
    /// The field is the name of a user, and not Authorization.
    pub by_proxy: bool,
    pub source: ClientSource,
    pub generation: u64,
}

/// The last principal, and the field Authorization that proved it.
#[derive(Debug)]
struct CachedPrincipal {
    field: Option<Box<[u8]>>,
    source: ClientSource,
    generation: u64,
    principal: Rc<Principal>,
}

/// The certificate of a client, which was verified.
#[derive(Debug)]
pub struct ClientCertificate {
    /// The DNS names in it.
    pub names: Box<[String]>,
    /// Its last second, since the epoch.
    pub end: u64,
}

/// The last principal of one connection, and its certificate.
#[derive(Debug, Default)]
pub struct AuthCache {
    kept: RefCell<Option<CachedPrincipal>>,
    certificate: OnceCell<ClientCertificate>,
}

impl AuthCache {
    /// Keeps the certificate of the client.
    pub fn set_certificate(&self, certificate: ClientCertificate) {
        let _ = self.certificate.set(certificate);
    }

    /// True where the client's certificate has ended since: a handshake would be refused now.
    pub fn has_ended(&self) -> bool {
        let certificate = self.certificate.get();
        certificate.is_some_and(|certificate| now() > certificate.end)
    }

    /// The names of the client's certificate.
    pub fn certificate_names(&self) -> impl Iterator<Item = &str> {
        let certificate = self.certificate.get().into_iter();
        certificate.flat_map(|certificate| certificate.names.iter().map(String::as_str))
    }

    /// The principal that the `presented` field proved before, by the same policy. Other credentials end it, and a
    /// password counts for the client that sent it: several may share the connection of a proxy, and would guess by
    /// what is let through.
    pub fn kept(&self, presented: &Presented<'_>) -> Option<Rc<Principal>> {
        let mut cached = self.kept.borrow_mut();
        let kept = cached.as_ref()?;
        let is_same =
            kept.generation == presented.generation && kept.field.as_deref() == presented.field;
        let Principal { subject, by, .. } = &*kept.principal;
        let is_same = is_same && (*by == AuthMethod::Proxy) == presented.by_proxy;
        let is_of_client = || *by != AuthMethod::Basic || kept.source == presented.source;
        let is_valid = || subject.not_after.is_none() || subject.is_valid(SystemTime::now());
        if is_same && is_of_client() && is_valid() {
            return Some(Rc::clone(&kept.principal));
        }
        *cached = None;
        None
    }

    /// Keeps the `principal` that the `presented` field proved.
    pub fn keep(&self, presented: &Presented<'_>, principal: &Rc<Principal>) {
        *self.kept.borrow_mut() = Some(CachedPrincipal {
            field: presented.field.map(Box::from),
            source: presented.source,
            generation: presented.generation,
            principal: Rc::clone(principal),
        });
    }
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
            let found = credentials(field.as_bytes());
            assert_eq!(found, Some(Credentials::Token(token)), "{field}");
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

    #[test]
    fn a_link_has_each_of_its_parameters_once_and_others_are_ignored() {
        let signed_link = |query| signed_link(&QueryFields::of(query));
        assert!(signed_link(None).is_none());
        for other in "expires=1&by=a my_signature=abc a=signature=b X-Amz-Signature=abc".split(' ')
        {
            assert!(signed_link(Some(other)).is_none(), "{other}");
        }
        assert!(signed_link(Some("signature")).is_some());
        assert!(signed_link(Some("%73ignature=s")).is_some());
        for good in [
            "expires=1&by=a%20b&max=3&signature=s",
            "utm_source=x&expires=1&by=a%20b&max=3&signature=s&fbclid=y&utm_source=z&",
        ] {
            let link = signed_link(Some(good)).unwrap().ok().unwrap();
            let found = (link.expires, &*link.by, link.max, &*link.signature);
            assert_eq!(found, (1, "a b", Some(3), "s"));
        }
        for bad in "signature=s expires=1&by=a&signature=s&signature=s expires=1&expires=1&by=a&signature=s \
            expires=1&by=a&by=a&signature=s expires=1&by=a&max=1&max=2&signature=s expires=01&by=a&signature=s \
            expires=-1&by=a&signature=s expires=1&by=a&max=&signature=s \
            expires=99999999999999999999&by=a&signature=s".split(' ') {
            let seen = signed_link(Some(bad)).unwrap().err();
            assert_eq!(seen, Some(INVALID), "{bad}");
        }
    }
}
