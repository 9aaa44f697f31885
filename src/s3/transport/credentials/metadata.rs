//! The services that give secrets to what runs in a container or on an instance.

use std::fs;
use std::net::IpAddr;
use std::time::SystemTime;

use hyper::Method;
use serde::Deserialize;

use super::fetch::{Ask, Fetcher};
use super::variables::Variables;
use crate::s3::transport::secrets::{Renewed, Secrets};

/// Where the agent of ECS answers.
const CONTAINERS: &str = "http://169.254.170.2";

/// The addresses, beside this machine's, that are asked without encryption: the agents of ECS and EKS.
const AGENTS: [&str; 3] = ["169.254.170.2", "169.254.170.23", "[fd00:ec2::23]"];

/// Where the metadata of an instance are.
const INSTANCE: &str = "http://169.254.169.254";

/// The service of a container.
pub struct Container {
    pub uri: String,
    token: Option<String>,
    pub token_file: Option<String>,
}

impl Container {
    pub fn new(variables: &Variables) -> Result<Option<Self>, String> {
        let relative = variables.get("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI");
        let full = variables.get("AWS_CONTAINER_CREDENTIALS_FULL_URI");
        let uri = match (relative, full) {
            (Some(path), _) => format!("{CONTAINERS}{path}"),
            (None, Some(uri)) if is_trusted(uri) => uri.to_owned(),
            (None, Some(_)) => {
                let name = "AWS_CONTAINER_CREDENTIALS_FULL_URI";
                return Err(format!(
                    "{name} is neither of https nor of an agent on this machine"
                ));
            }
            (None, None) => return Ok(None),
        };
        let text = |name| variables.get(name).map(str::to_owned);
        Ok(Some(Self {
            uri,
            token: text("AWS_CONTAINER_AUTHORIZATION_TOKEN"),
            token_file: text("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"),
        }))
    }

    pub async fn renew(&self, fetcher: &Fetcher) -> Result<Renewed, String> {
        // The file is renewed by other programs.
        let read =
            |file: &String| fs::read_to_string(file).map_err(|error| format!("{file}: {error}"));
        let token = match &self.token_file {
            Some(file) => Some(read(file)?),
            None => self.token.clone(),
        };
        let headers = token
            .as_ref()
            .map(|token| ("authorization", token.trim_end()));
        let headers: Vec<_> = headers.into_iter().collect();
        get(fetcher, &self.uri, &headers).await
    }
}

/// Whether a token and secrets may go this way.
fn is_trusted(uri: &str) -> bool {
    let Ok(uri) = uri.parse::<hyper::Uri>() else {
        return false;
    };
    let host = uri.host().unwrap_or_default();
    let is_here = host == "localhost"
        || host
            .trim_matches(['[', ']'])
            .parse()
            .is_ok_and(|address: IpAddr| address.is_loopback());
    uri.scheme_str() == Some("https") || is_here || AGENTS.contains(&host)
}

/// The service of an instance (version 2).
pub struct Instance {
    pub endpoint: String,
}

impl Instance {
    pub fn new(variables: &Variables) -> Option<Self> {
        let endpoint = variables
            .get("AWS_EC2_METADATA_SERVICE_ENDPOINT")
            .unwrap_or(INSTANCE);
        let is_off = variables.is_true("AWS_EC2_METADATA_DISABLED");
        (!is_off).then(|| Self {
            endpoint: endpoint.trim_end_matches('/').to_owned(),
        })
    }

    pub async fn renew(&self, fetcher: &Fetcher) -> Result<Renewed, String> {
        let text = |body: bytes::Bytes| String::from_utf8_lossy(&body).trim().to_owned();
        let token = Ask {
            method: Method::PUT,
            uri: &format!("{}/latest/api/token", self.endpoint),
            headers: &[("x-aws-ec2-metadata-token-ttl-seconds", "300")],
            body: String::new(),
        };
        let token = fetcher.fetch(token).await.map_err(|refusal| refusal.why)?;
        let token = text(token);
        let headers = [("x-aws-ec2-metadata-token", token.as_str())];
        let roles = format!(
            "{}/latest/meta-data/iam/security-credentials/",
            self.endpoint
        );
        let role = fetcher.fetch(Ask::get(&roles, &headers)).await;
        let role = text(role.map_err(|refusal| refusal.why)?);
        let role = role.lines().next().unwrap_or_default();
        get(fetcher, &format!("{roles}{role}"), &headers).await
    }
}

/// What both services answer.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Given {
    access_key_id: String,
    secret_access_key: String,
    token: Option<String>,
    expiration: Option<String>,
}

async fn get(
    fetcher: &Fetcher,
    uri: &str,
    headers: &[(&'static str, &str)],
) -> Result<Renewed, String> {
    let body = fetcher
        .fetch(Ask::get(uri, headers))
        .await
        .map_err(|refusal| refusal.why)?;
    // The error would quote what it cannot read.
    let given: Given =
        serde_json::from_slice(&body).map_err(|_| format!("{uri}: gave no credentials"))?;
    Ok(Renewed {
        expires: given.expiration.as_deref().and_then(time),
        secrets: Secrets {
            id: given.access_key_id,
            secret: given.secret_access_key,
            token: given.token,
        },
    })
}

/// A time as these services say it.
pub fn time(text: &str) -> Option<SystemTime> {
    humantime::parse_rfc3339(text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_asked_for_in_the_clear_only_on_this_machine() {
        for uri in [
            "https://example.org/x",
            "http://127.0.0.1:1/x",
            "http://[::1]/",
            "http://169.254.170.23/v1",
        ] {
            assert!(is_trusted(uri), "{uri}");
        }
        for uri in [
            "http://example.org/",
            "http://10.0.0.1/",
            "http://127.0.0.1.example.org/",
            "x",
            "",
        ] {
            assert!(!is_trusted(uri), "{uri}");
        }
    }
}
