//! The places that give secrets: the variables of the environment, a profile in `~/.aws/credentials` and
//! `~/.aws/config`, the metadata service of a container or an instance, and STS for the token of a web identity.
//!
//! An error names the address, the status and a code of STS, and nothing else that was sent or given.

use std::cell::OnceCell;
use std::collections::HashMap;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::{Method, Request};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use serde::Deserialize;
use tokio::time::timeout;

use crate::s3::transport::answer::parse;
use crate::s3::transport::connector::{Connector, connector, tls};
use crate::s3::transport::sign::{Renewed, Secrets};

/// The files, and the profile in them.
pub struct Profile {
    pub name: String,
    /// True where `AWS_PROFILE` names it.
    pub is_named: bool,
    credentials: Option<PathBuf>,
    config: Option<PathBuf>,
}

impl Profile {
    pub fn new(variables: &Pairs) -> Self {
        let named = variables.get("AWS_PROFILE");
        Self {
            name: named.unwrap_or("default").to_owned(),
            is_named: named.is_some(),
            credentials: variables.file("AWS_SHARED_CREDENTIALS_FILE", "credentials"),
            config: variables.file("AWS_CONFIG_FILE", "config"),
        }
    }

    /// The paths of the files.
    pub fn files(&self) -> impl Iterator<Item = PathBuf> + use<> {
        let files = [self.credentials.clone(), self.config.clone()];
        files.into_iter().flatten()
    }

    /// Reads the files; a setting of `credentials` wins. A file that is not there has no profile.
    pub fn read(&self) -> Pairs {
        let mut settings = HashMap::new();
        for (file, prefix) in [(&self.config, "profile "), (&self.credentials, "")] {
            let text = file.as_ref().and_then(|file| fs::read_to_string(file).ok());
            settings.extend(section(&text.unwrap_or_default(), prefix, &self.name));
        }
        Pairs(settings)
    }
}

/// The settings of the section of this profile. In one of the files, names but `default` have a prefix.
fn section(text: &str, prefix: &str, name: &str) -> HashMap<String, String> {
    let mut settings = HashMap::new();
    let mut is_inside = false;
    for line in text.lines() {
        // An indented line belongs to the setting above it.
        if line.starts_with([' ', '\t', '#', ';']) {
            continue;
        }
        let line = line.trim_end();
        if let Some(title) = line
            .strip_prefix('[')
            .and_then(|line| line.split(']').next())
        {
            let title = title.trim();
            let own = title.strip_prefix(prefix).map_or(title, str::trim);
            is_inside = own == name && (own != title || prefix.is_empty() || name == "default");
        } else if let Some((key, value)) = line.split_once('=').filter(|_| is_inside) {
            settings.insert(key.trim().to_ascii_lowercase(), value.trim().to_owned());
        }
    }
    settings
}

/// Variables or settings, by name. Some hold secrets, so it has no `Debug`.
pub struct Pairs(HashMap<String, String>);

impl Pairs {
    /// The variables of this process that set credentials.
    pub fn of_process() -> Self {
        let all = std::env::vars_os();
        let text = all.filter_map(|(name, value)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        });
        let is_ours = |name: &str| name == "HOME" || name.starts_with("AWS_");
        Self(text.filter(|(name, _)| is_ours(name)).collect())
    }

    /// The value of a name; one that is empty is not set.
    pub fn get(&self, name: &str) -> Option<&str> {
        let value = self.0.get(name).map(String::as_str);
        value.filter(|value| !value.is_empty())
    }

    /// The keys under these names.
    pub fn secrets(&self, [id, secret, token]: [&str; 3]) -> Option<Secrets> {
        Some(Secrets {
            id: self.get(id)?.to_owned(),
            secret: self.get(secret)?.to_owned(),
            token: self.get(token).map(str::to_owned),
        })
    }

    /// The file that `name` names, or the one in the directory `.aws` of the user.
    pub fn file(&self, name: &str, default: &str) -> Option<PathBuf> {
        let named = self.get(name).map(PathBuf::from);
        named.or_else(|| Some(PathBuf::from(self.get("HOME")?).join(".aws").join(default)))
    }

    #[cfg(test)]
    pub fn of(pairs: &[(&str, &str)]) -> Self {
        let owned = pairs
            .iter()
            .map(|&(name, value)| (name.to_owned(), value.to_owned()));
        Self(owned.collect())
    }
}

/// The longest wait for a connection: where there is no such service, its address often swallows what is sent.
const CONNECT: Duration = Duration::from_secs(1);

/// The longest wait for a whole answer.
const WAIT: Duration = Duration::from_secs(5);

/// The longest answer.
const MOST: usize = 64 << 10;

/// The token in `file`, which another program renews.
fn read_token(file: &str) -> Result<String, String> {
    fs::read_to_string(file).map_err(|error| format!("{file}: {error}"))
}

/// The service of a container.
pub struct Container {
    pub uri: String,
    pub token: Option<String>,
    pub token_file: Option<String>,
}

impl Container {
    pub async fn renew(&self, fetcher: &Fetcher) -> Result<Renewed, String> {
        let token = match &self.token_file {
            Some(file) => Some(read_token(file)?),
            None => self.token.clone(),
        };
        let header = token
            .as_ref()
            .map(|token| ("authorization", token.trim_end()));
        given(fetcher, &self.uri, header.as_slice()).await
    }
}

/// The service of an instance (version 2).
pub struct Instance {
    pub endpoint: String,
}

impl Instance {
    pub async fn renew(&self, fetcher: &Fetcher) -> Result<Renewed, String> {
        let text = |body: Bytes| String::from_utf8_lossy(&body).trim().to_owned();
        let tokens = format!("{}/latest/api/token", self.endpoint);
        let lasts = [("x-aws-ec2-metadata-token-ttl-seconds", "300")];
        let token = fetcher.fetch(Method::PUT, &tokens, &lasts, String::new());
        let token = text(token.await?);
        let headers = [("x-aws-ec2-metadata-token", token.as_str())];
        let roles = format!(
            "{}/latest/meta-data/iam/security-credentials/",
            self.endpoint
        );
        let role = fetcher.fetch(Method::GET, &roles, &headers, String::new());
        let role = text(role.await?);
        let role = role.lines().next().unwrap_or_default();
        given(fetcher, &format!("{roles}{role}"), &headers).await
    }
}

/// The secrets as the metadata services and STS write them.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Given {
    access_key_id: String,
    secret_access_key: String,
    #[serde(alias = "SessionToken")]
    token: Option<String>,
    expiration: Option<String>,
}

impl From<Given> for Renewed {
    fn from(given: Given) -> Self {
        let expires = given.expiration.as_deref();
        Self {
            expires: expires.and_then(|text| humantime::parse_rfc3339(text).ok()),
            secrets: Secrets {
                id: given.access_key_id,
                secret: given.secret_access_key,
                token: given.token,
            },
        }
    }
}

/// The secrets that the metadata service at `uri` gives.
async fn given(fetcher: &Fetcher, uri: &str, headers: &[(&str, &str)]) -> Result<Renewed, String> {
    let body = fetcher.fetch(Method::GET, uri, headers, String::new());
    let body = body.await?;
    // The error would quote what it cannot read.
    let given: Given =
        serde_json::from_slice(&body).map_err(|_| format!("{uri}: gave no credentials"))?;
    Ok(given.into())
}

/// The role that a token is for.
pub struct WebIdentity {
    pub endpoint: String,
    pub role: String,
    pub session: Option<String>,
    pub token_file: String,
}

impl WebIdentity {
    pub async fn renew(&self, fetcher: &Fetcher) -> Result<Renewed, String> {
        let token = read_token(&self.token_file)?;
        let body = form_urlencoded::Serializer::new(String::new())
            .append_pair("Action", "AssumeRoleWithWebIdentity")
            .append_pair("Version", "2011-06-15")
            .append_pair("RoleArn", &self.role)
            .append_pair(
                "RoleSessionName",
                self.session.as_deref().unwrap_or("data-server"),
            )
            .append_pair("WebIdentityToken", token.trim())
            .finish();
        let uri = format!("{}/", self.endpoint.trim_end_matches('/'));
        let form = [("content-type", "application/x-www-form-urlencoded")];
        let answer = fetcher.fetch(Method::POST, &uri, &form, body).await?;
        let assumed = parse::<Assumed>(&answer).ok();
        let given = assumed.map(|assumed| assumed.result.credentials);
        let given = given.filter(|given| given.token.is_some() && given.expiration.is_some());
        let given = given.ok_or_else(|| format!("{}: gave no credentials", self.endpoint))?;
        Ok(given.into())
    }
}

#[derive(Deserialize)]
struct Assumed {
    #[serde(rename = "AssumeRoleWithWebIdentityResult")]
    result: AssumedRole,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct AssumedRole {
    credentials: Given,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Refused {
    error: Code,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Code {
    code: String,
}

/// The client of these services. It reads the certificates of the system when it is first used: many servers need none.
pub struct Fetcher {
    ca: Option<PathBuf>,
    client: OnceCell<Client<Connector, Full<Bytes>>>,
}

impl Fetcher {
    /// A fetcher that also trusts the CA certificates of the file `ca`.
    pub fn new(ca: Option<PathBuf>) -> Self {
        Self {
            ca,
            client: OnceCell::new(),
        }
    }

    fn client(&self) -> Result<&Client<Connector, Full<Bytes>>, String> {
        if let Some(client) = self.client.get() {
            return Ok(client);
        }
        let connector = connector(&tls(self.ca.as_deref())?, CONNECT, &Arc::default());
        let client = Client::builder(TokioExecutor::new()).build(connector);
        Ok(self.client.get_or_init(|| client))
    }

    /// The body of the answer.
    async fn fetch(
        &self,
        method: Method,
        uri: &str,
        headers: &[(&str, &str)],
        body: String,
    ) -> Result<Bytes, String> {
        let failed = |why: String| format!("{uri}: {why}");
        let mut request = Request::builder().method(method).uri(uri);
        for &(name, value) in headers {
            request = request.header(name, value);
        }
        let request = request.body(Full::from(body));
        // The fault of a header may quote a secret.
        let request = request.map_err(|_| failed("cannot be asked".to_owned()))?;
        let fetched = timeout(WAIT, async {
            let client = self.client().map_err(failed)?;
            let answer = client.request(request).await;
            let answer = answer.map_err(|error| failed(cause(&error)))?;
            let status = answer.status();
            let body = Limited::new(answer.into_body(), MOST).collect().await;
            let body = body.map_err(|error| failed(error.to_string()))?.to_bytes();
            if status.is_success() {
                return Ok(body);
            }
            let code = parse::<Refused>(&body).map(|refused| refused.error.code);
            let why = format!("answered {} {}", status.as_u16(), code.unwrap_or_default());
            Err(failed(why.trim_end().to_owned()))
        });
        fetched
            .await
            .unwrap_or_else(|_| Err(failed("no answer in time".to_owned())))
    }
}

/// The innermost cause, which says most.
fn cause(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes.last().map_or_else(String::new, ToString::to_string)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_settings_of_a_profile_are_those_of_its_section() {
        let text = "[default]\nA = 1\n# a = 2\n[profile x]\na=3 \ns3 =\n  a = 9\nb = c=d\n[y]\na = 4\n[profile y]\n";
        let a = |prefix, name| section(text, prefix, name).remove("a");
        assert_eq!(a("profile ", "default").as_deref(), Some("1"));
        assert_eq!(a("profile ", "x").as_deref(), Some("3"));
        let found = a("profile ", "y");
        assert_eq!(found, None, "without its prefix it is no profile");
        assert_eq!(a("", "y").as_deref(), Some("4"));
        assert_eq!(section(text, "profile ", "x")["b"], "c=d");
        assert!(section(text, "profile ", "none").is_empty());
    }
}
