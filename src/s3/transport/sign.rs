//! The [signature](crate::sigv4) of a request to the store, in the `Authorization` field or, of a link, in the query;
//! and the secrets that it is made with.
//!
//! Pure but for the key of the day, which is derived once and kept. It does not hash bodies: the caller names the
//! payload.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use hyper::header::{AUTHORIZATION, HOST, HeaderMap, HeaderName, HeaderValue};
use parking_lot::Mutex;

use crate::sigv4::{ALGORITHM, CanonicalRequest, Scope, SigningKey, UNSIGNED, query, time_text};
use crate::value::Error;

/// Secrets that requests are signed with. They never show their contents.
#[derive(Clone, PartialEq, Eq)]
pub struct Secrets {
    /// The name of the key, which is no secret.
    pub id: String,
    /// The key.
    pub secret: String,
    /// The token that goes with a key that is valid for some hours only.
    pub token: Option<String>,
}

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secrets")
    }
}

/// Secrets, and when they end.
pub struct Renewed {
    pub secrets: Secrets,
    pub expires: Option<SystemTime>,
}

/// Signs requests for one region.
#[derive(Debug)]
pub struct Signer {
    region: String,
    /// The key that was derived last.
    key: Mutex<Option<DayKey>>,
}

/// The key of a day, for one set of secrets. It does not show its contents either.
#[derive(Debug)]
struct DayKey {
    secrets: Arc<Secrets>,
    day: String,
    key: SigningKey,
}

/// The request that a link is for.
pub struct Link<'a> {
    pub method: &'a str,
    /// The host as the client names it, with the port where that is not the scheme's own.
    pub host: &'a str,
    /// The path of its URI, as it is sent.
    pub path: &'a str,
    /// The time for which it works.
    pub valid: Duration,
}

impl Signer {
    /// A signer for `region`, without a key yet.
    pub fn new(region: String) -> Self {
        Self {
            region,
            key: Mutex::new(None),
        }
    }

    /// Adds to `headers`, which have `Host`, what makes them those of a signed request.
    pub fn sign(
        &self,
        request: &CanonicalRequest<'_>,
        headers: &mut HeaderMap,
        secrets: &Arc<Secrets>,
        now: SystemTime,
    ) -> Result<(), Error> {
        let time = time_text(now);
        headers.insert("x-amz-date", value(&time)?);
        headers.insert("x-amz-content-sha256", value(request.payload)?);
        if let Some(token) = &secrets.token {
            headers.insert("x-amz-security-token", secret_value(token)?);
        }
        let mut fields: Vec<_> = headers
            .iter()
            .filter(|(name, _)| is_signed(name))
            .map(|(name, value)| (name.as_str(), value.as_bytes()))
            .collect();
        fields.sort_by_key(|(name, _)| *name);
        let scope = self.scope(&time);
        let (names, text) = request.text(&fields, &time, scope);
        let signature = self.key(secrets, scope).sign(&text);
        let id = &secrets.id;
        let authorization = format!(
            "{ALGORITHM} Credential={id}/{scope},SignedHeaders={names},Signature={signature}"
        );
        headers.insert(AUTHORIZATION, secret_value(&authorization)?);
        Ok(())
    }

    /// The query of the URI of `link`, by which its holder may make that one request. It binds the method, the host,
    /// the path and the time. It does not bind the version of the object: that takes a signed `If-Match`, which a
    /// client that follows a redirect does not send.
    pub fn presign(
        &self,
        link: &Link<'_>,
        secrets: &Arc<Secrets>,
        now: SystemTime,
    ) -> Result<String, Error> {
        let time = time_text(now);
        let scope = self.scope(&time);
        let credential = format!("{}/{scope}", secrets.id);
        let seconds = link.valid.as_secs().to_string();
        let mut parameters = vec![
            ("X-Amz-Algorithm", ALGORITHM),
            ("X-Amz-Credential", &credential),
            ("X-Amz-Date", &time),
            ("X-Amz-Expires", &seconds),
            ("X-Amz-SignedHeaders", HOST.as_str()),
        ];
        if let Some(token) = &secrets.token {
            parameters.push(("X-Amz-Security-Token", token));
        }
        let query = query(&parameters);
        let request = CanonicalRequest {
            method: link.method,
            path: link.path,
            query: &query,
            payload: UNSIGNED,
        };
        let host = value(link.host)?;
        let (_, text) = request.text(&[(HOST.as_str(), host.as_bytes())], &time, scope);
        let signature = self.key(secrets, scope).sign(&text);
        Ok(format!("{query}&X-Amz-Signature={signature}"))
    }

    /// The scope of a signature that is made at this time.
    fn scope<'a>(&'a self, time: &'a str) -> Scope<'a> {
        Scope {
            day: &time[..8],
            region: &self.region,
        }
    }

    fn key(&self, secrets: &Arc<Secrets>, scope: Scope<'_>) -> SigningKey {
        let mut last = self.key.lock();
        if let Some(last) = &*last
            && Arc::ptr_eq(&last.secrets, secrets)
            && last.day == scope.day
        {
            return last.key.clone();
        }
        let key = SigningKey::new(&secrets.secret, scope);
        *last = Some(DayKey {
            secrets: Arc::clone(secrets),
            day: scope.day.to_owned(),
            key: key.clone(),
        });
        key
    }
}

/// Whether a field is signed: what decides what the request does. What is only kept with a value is left out, as stores
/// differ in how they fold its spaces.
fn is_signed(name: &HeaderName) -> bool {
    let name = name.as_str();
    name.starts_with("x-amz-")
        || matches!(
            name,
            "host" | "date" | "range" | "content-type" | "if-match" | "if-none-match"
        )
}

fn value(text: &str) -> Result<HeaderValue, Error> {
    HeaderValue::from_str(text).map_err(|_| {
        Error::Refused("the credentials or the region cannot stand in a field".to_owned())
    })
}

fn secret_value(text: &str) -> Result<HeaderValue, Error> {
    let mut value = value(text)?;
    value.set_sensitive(true);
    Ok(value)
}

#[cfg(test)]
mod tests {
    use sha2::{Digest as _, Sha256};

    use super::*;
    use crate::sigv4::{NOTHING, hex};

    /// The examples of "Signature Calculations for the Authorization Header" in the reference of Amazon S3.
    #[test]
    fn the_published_examples() {
        let put = [
            ("date", "Fri, 24 May 2013 00:00:00 GMT"),
            ("x-amz-storage-class", "REDUCED_REDUNDANCY"),
        ];
        let welcome = hex(&Sha256::digest("Welcome to Amazon S3."));
        for (method, path, query, fields, payload, signature) in [
            (
                "GET",
                "/test.txt",
                "",
                &[("range", "bytes=0-9")][..],
                NOTHING,
                "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41",
            ),
            (
                "PUT",
                "/test%24file.text",
                "",
                &put[..],
                &*welcome,
                "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd",
            ),
            (
                "GET",
                "/",
                "lifecycle=",
                &[],
                NOTHING,
                "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543",
            ),
            (
                "GET",
                "/",
                "max-keys=2&prefix=J",
                &[],
                NOTHING,
                "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7",
            ),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert("host", value("examplebucket.s3.amazonaws.com").unwrap());
            for &(name, text) in fields {
                headers.insert(name, value(text).unwrap());
            }
            let request = CanonicalRequest {
                method,
                path,
                query,
                payload,
            };
            signer()
                .sign(&request, &mut headers, &secrets(), may_2013())
                .unwrap();
            let authorization = headers[AUTHORIZATION].to_str().unwrap();
            let is_right = authorization.ends_with(&format!("Signature={signature}"));
            assert!(is_right, "{method} {path}?{query}: {authorization}");
        }
    }

    /// The example of "Authenticating Requests: Using Query Parameters" in the same reference.
    #[test]
    fn the_published_example_of_a_link() {
        let link = Link {
            method: "GET",
            host: "examplebucket.s3.amazonaws.com",
            path: "/test.txt",
            valid: Duration::from_secs(86_400),
        };
        let query = signer().presign(&link, &secrets(), may_2013()).unwrap();
        assert_eq!(
            query,
            "X-Amz-Algorithm=AWS4-HMAC-SHA256\
             &X-Amz-Credential=AKIAIOSFODNN7EXAMPLE%2F20130524%2Fus-east-1%2Fs3%2Faws4_request\
             &X-Amz-Date=20130524T000000Z&X-Amz-Expires=86400&X-Amz-SignedHeaders=host\
             &X-Amz-Signature=aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404"
        );
        let with_token = Arc::new(Secrets {
            id: "id".to_owned(),
            secret: "secret".to_owned(),
            token: Some("a/b+c=".to_owned()),
        });
        let query = signer().presign(&link, &with_token, may_2013()).unwrap();
        let is_right = query.contains("&X-Amz-Security-Token=a%2Fb%2Bc%3D&");
        assert!(is_right, "{query}");
    }

    #[test]
    fn the_key_of_the_day_is_derived_again_for_other_secrets_and_days() {
        let signer = signer();
        let first = secrets();
        let key = |secrets, day| signer.key(secrets, signer.scope(day)).sign("");
        let today = key(&first, "20130524");
        assert_eq!(key(&first, "20130524"), today);
        assert_ne!(key(&first, "20130525"), today);
        let other = Arc::new(Secrets {
            id: first.id.clone(),
            secret: "other".to_owned(),
            token: None,
        });
        assert_ne!(key(&other, "20130524"), today);
    }

    #[test]
    fn nothing_shows_a_secret() {
        let signer = signer();
        signer.key(&secrets(), signer.scope("20130524"));
        let shown = format!("{signer:?} {:?}", secrets());
        assert!(!shown.contains("wJalr"), "{shown}");
    }

    fn signer() -> Signer {
        Signer::new("us-east-1".to_owned())
    }

    fn secrets() -> Arc<Secrets> {
        Arc::new(Secrets {
            id: "AKIAIOSFODNN7EXAMPLE".to_owned(),
            secret: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY".to_owned(),
            token: None,
        })
    }

    fn may_2013() -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(1_369_353_600)
    }
}
