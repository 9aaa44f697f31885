//! Secrets for a token that proves who this is, such as Kubernetes gives: `AssumeRoleWithWebIdentity` of STS.

use std::fs;

use hyper::Method;
use quick_xml::de;
use serde::Deserialize;

use super::fetch::{Ask, Fetcher};
use super::metadata::time;
use crate::s3::transport::secrets::{Renewed, Secrets};

/// The role that a token is for.
pub struct WebIdentity {
    pub endpoint: String,
    pub role: String,
    pub session: Option<String>,
    pub token_file: String,
}

impl WebIdentity {
    pub async fn renew(&self, fetcher: &Fetcher) -> Result<Renewed, String> {
        // Another program renews it.
        let token = fs::read_to_string(&self.token_file)
            .map_err(|error| format!("{}: {error}", self.token_file))?;
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
        let ask = Ask {
            method: Method::POST,
            uri: &format!("{}/", self.endpoint.trim_end_matches('/')),
            headers: &[("content-type", "application/x-www-form-urlencoded")],
            body,
        };
        let answer = fetcher.fetch(ask).await.map_err(|refusal| {
            let code = parse::<Refused>(&refusal.body).map(|refused| refused.error.code);
            format!("{} {}", refusal.why, code.unwrap_or_default())
        })?;
        let given = parse::<Assumed>(&answer)
            .ok_or_else(|| format!("{}: gave no credentials", self.endpoint))?;
        let given = given.result.credentials;
        Ok(Renewed {
            expires: time(&given.expiration),
            secrets: Secrets {
                id: given.access_key_id,
                secret: given.secret_access_key,
                token: Some(given.session_token),
            },
        })
    }
}

fn parse<T: for<'de> Deserialize<'de>>(xml: &[u8]) -> Option<T> {
    de::from_reader(xml).ok()
}

#[derive(Deserialize)]
struct Assumed {
    #[serde(rename = "AssumeRoleWithWebIdentityResult")]
    result: Outcome,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Outcome {
    credentials: Given,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Given {
    access_key_id: String,
    secret_access_key: String,
    session_token: String,
    expiration: String,
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
