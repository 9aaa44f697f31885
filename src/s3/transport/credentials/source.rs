//! Where secrets come from: the first of the usual places that has any. It is found once, and asked again later.

use std::path::PathBuf;

use super::profile::{Profile, Settings, Variables};
use super::services::{Container, Fetcher, Instance, WebIdentity};
use crate::s3::transport::sign::{Renewed, Secrets};

/// A place that has secrets.
pub enum Source {
    Environment(Secrets),
    Profile(Profile),
    WebIdentity(WebIdentity),
    Container(Container),
    Instance(Instance),
}

impl Source {
    /// The first place that is set up, with what it has; or why there is none, without any secret.
    pub async fn find(
        variables: &Variables,
        region: &str,
        fetcher: &Fetcher,
    ) -> Result<(Self, Renewed), String> {
        let source = match Self::configured(variables, region)? {
            Some(source) => source,
            None => Self::Instance(Instance::new(variables).ok_or(NOWHERE)?),
        };
        let is_last = matches!(source, Self::Instance(_));
        let first = source.renew(fetcher).await;
        let first = first.map_err(|why| {
            if is_last {
                format!("{NOWHERE}, and {why}")
            } else {
                why
            }
        })?;
        Ok((source, first))
    }

    fn configured(variables: &Variables, region: &str) -> Result<Option<Self>, String> {
        if let Some(secrets) = of_environment(variables)? {
            return Ok(Some(Self::Environment(secrets)));
        }
        let profile = Profile::new(variables);
        let settings = profile.read();
        if settings.secrets().is_some() {
            return Ok(Some(Self::Profile(profile)));
        }
        let of_profile = |name: &str| settings.get(name).map(str::to_owned);
        if let Some(identity) = web_identity(variables, region, of_profile, PROFILE_NAMES) {
            return Ok(Some(Self::WebIdentity(identity)));
        }
        if profile.is_named {
            return Err(unusable(&profile, &settings));
        }
        let of_variables = |name: &str| variables.get(name).map(str::to_owned);
        if let Some(identity) = web_identity(variables, region, of_variables, VARIABLE_NAMES) {
            return Ok(Some(Self::WebIdentity(identity)));
        }
        Ok(Container::new(variables)?.map(Self::Container))
    }

    /// The files that it is read from, and the addresses that it is asked at: those of the place that has secrets, and the
    /// files that are looked into before it.
    pub fn reach(variables: &Variables, region: &str) -> (Vec<PathBuf>, Vec<String>) {
        let (file, url) = match Self::configured(variables, region) {
            // Why there is none is said when they are looked for.
            Ok(Some(Self::Environment(_))) | Err(_) => return Default::default(),
            Ok(Some(Self::Profile(_))) => (None, None),
            Ok(Some(Self::WebIdentity(identity))) => {
                (Some(identity.token_file), Some(identity.endpoint))
            }
            Ok(Some(Self::Container(container))) => (container.token_file, Some(container.uri)),
            Ok(Some(Self::Instance(instance))) => (None, Some(instance.endpoint)),
            Ok(None) => (
                None,
                Instance::new(variables).map(|instance| instance.endpoint),
            ),
        };
        let profile = Profile::new(variables);
        let files = profile.files().chain(file.map(PathBuf::from));
        (files.collect(), url.into_iter().collect())
    }

    /// Whether it may have others later.
    pub fn can_change(&self) -> bool {
        !matches!(self, Self::Environment(_))
    }

    /// Its secrets now; the error has none in it.
    pub async fn renew(&self, fetcher: &Fetcher) -> Result<Renewed, String> {
        let without_end = |secrets| Renewed {
            secrets,
            expires: None,
        };
        match self {
            Self::Environment(secrets) => Ok(without_end(secrets.clone())),
            Self::Profile(profile) => {
                let secrets = profile.read().secrets().map(without_end);
                secrets
                    .ok_or_else(|| format!("the profile {} has no keys any more", profile.name()))
            }
            Self::WebIdentity(identity) => identity.renew(fetcher).await,
            Self::Container(container) => container.renew(fetcher).await,
            Self::Instance(instance) => instance.renew(fetcher).await,
        }
    }
}

const NOWHERE: &str = "AWS_ACCESS_KEY_ID is not set, ~/.aws has no keys for the profile default, and no web identity and no \
                       container service is set up";

/// A role, its session, and the file of the token: the names of their settings.
const PROFILE_NAMES: [&str; 3] = ["role_arn", "role_session_name", "web_identity_token_file"];
const VARIABLE_NAMES: [&str; 3] = [
    "AWS_ROLE_ARN",
    "AWS_ROLE_SESSION_NAME",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
];

fn of_environment(variables: &Variables) -> Result<Option<Secrets>, String> {
    let Some(id) = variables.get("AWS_ACCESS_KEY_ID") else {
        return Ok(None);
    };
    let secret = variables.get("AWS_SECRET_ACCESS_KEY");
    let secret = secret.ok_or("AWS_ACCESS_KEY_ID is set and AWS_SECRET_ACCESS_KEY is not")?;
    Ok(Some(Secrets {
        id: id.to_owned(),
        secret: secret.to_owned(),
        token: variables.get("AWS_SESSION_TOKEN").map(str::to_owned),
    }))
}

fn web_identity(
    variables: &Variables,
    region: &str,
    get: impl Fn(&str) -> Option<String>,
    [role, session, token_file]: [&str; 3],
) -> Option<WebIdentity> {
    let endpoint = variables.get("AWS_ENDPOINT_URL_STS").map(str::to_owned);
    Some(WebIdentity {
        token_file: get(token_file)?,
        role: get(role)?,
        session: get(session),
        endpoint: endpoint.unwrap_or_else(|| format!("https://sts.{region}.amazonaws.com")),
    })
}

/// Why a profile that was asked for cannot be used.
fn unusable(profile: &Profile, settings: &Settings) -> String {
    let name = profile.name();
    let others = [
        "credential_process",
        "sso_session",
        "sso_start_url",
        "source_profile",
        "credential_source",
    ];
    match others.iter().find(|other| settings.get(other).is_some()) {
        Some(other) => format!("the profile {name} uses {other}, which data-server does not know"),
        None => format!("AWS_PROFILE is {name}, and no file has keys for it"),
    }
}
