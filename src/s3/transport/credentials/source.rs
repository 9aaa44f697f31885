//! Where secrets come from: the first of the usual places that has any, found once and asked again later. The variables of the
//! environment and the profile in `~/.aws/credentials` and `~/.aws/config` are read here; [`super::services`] are asked.

use std::collections::HashMap;
use std::fs;
use std::net::IpAddr;
use std::path::PathBuf;

use super::services::{Container, Fetcher, Instance, WebIdentity};
use crate::s3::transport::sign::{Renewed, Secrets};

/// Where the agent of ECS answers.
const CONTAINERS: &str = "http://169.254.170.2";

/// The addresses, beside this machine's, that are asked without encryption: the agents of ECS and EKS.
const AGENTS: [&str; 3] = ["169.254.170.2", "169.254.170.23", "[fd00:ec2::23]"];

/// Where the metadata of an instance are.
const INSTANCE: &str = "http://169.254.169.254";

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
            None => Self::Instance(instance(variables).ok_or(NOWHERE)?),
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
        Ok(container(variables)?.map(Self::Container))
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
            Ok(None) => (None, instance(variables).map(|instance| instance.endpoint)),
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

/// The service of a container, where one is set up.
fn container(variables: &Variables) -> Result<Option<Container>, String> {
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
    Ok(Some(Container {
        uri,
        token: text("AWS_CONTAINER_AUTHORIZATION_TOKEN"),
        token_file: text("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"),
    }))
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

/// The service of an instance, where it is not turned off.
fn instance(variables: &Variables) -> Option<Instance> {
    let endpoint = variables
        .get("AWS_EC2_METADATA_SERVICE_ENDPOINT")
        .unwrap_or(INSTANCE);
    let is_off = variables.is_true("AWS_EC2_METADATA_DISABLED");
    (!is_off).then(|| Instance {
        endpoint: endpoint.trim_end_matches('/').to_owned(),
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

/// The files, and the profile in them.
pub struct Profile {
    name: String,
    /// Whether it was asked for by its name.
    pub is_named: bool,
    credentials: Option<PathBuf>,
    config: Option<PathBuf>,
}

/// The settings of a profile. They hold secrets, so there is no `Debug`.
pub struct Settings(HashMap<String, String>);

impl Profile {
    pub fn new(variables: &Variables) -> Self {
        let named = variables.get("AWS_PROFILE");
        Self {
            name: named.unwrap_or("default").to_owned(),
            is_named: named.is_some(),
            credentials: variables.file("AWS_SHARED_CREDENTIALS_FILE", "credentials"),
            config: variables.file("AWS_CONFIG_FILE", "config"),
        }
    }

    /// Where they are.
    pub fn files(&self) -> impl Iterator<Item = PathBuf> + use<> {
        let files = [self.credentials.clone(), self.config.clone()];
        files.into_iter().flatten()
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// Reads the files; a setting of `credentials` wins. A file that is not there has no profile.
    pub fn read(&self) -> Settings {
        let mut settings = HashMap::new();
        for (file, prefix) in [(&self.config, "profile "), (&self.credentials, "")] {
            let text = file.as_ref().and_then(|file| fs::read_to_string(file).ok());
            settings.extend(section(&text.unwrap_or_default(), prefix, &self.name));
        }
        Settings(settings)
    }
}

impl Settings {
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// The keys that stand in the profile itself.
    pub fn secrets(&self) -> Option<Secrets> {
        Some(Secrets {
            id: self.get("aws_access_key_id")?.to_owned(),
            secret: self.get("aws_secret_access_key")?.to_owned(),
            token: self.get("aws_session_token").map(str::to_owned),
        })
    }
}

/// The settings of the section of this profile. In one of the files, names but `default` have a prefix.
fn section(text: &str, prefix: &str, name: &str) -> HashMap<String, String> {
    let mut settings = HashMap::new();
    let mut is_inside = false;
    for line in text.lines() {
        // What is indented belongs to the setting above it.
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

/// Variables by name. Some hold secrets, so it has no `Debug`.
pub struct Variables(HashMap<String, String>);

impl Variables {
    /// Those of this process.
    pub fn of_process() -> Self {
        let all = std::env::vars_os();
        let text = all.filter_map(|(name, value)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        });
        let is_ours = |name: &str| name == "HOME" || name.starts_with("AWS_");
        Self(text.filter(|(name, _)| is_ours(name)).collect())
    }

    /// The value of a variable; one that is empty is not set.
    pub fn get(&self, name: &str) -> Option<&str> {
        let value = self.0.get(name).map(String::as_str);
        value.filter(|value| !value.is_empty())
    }

    pub fn is_true(&self, name: &str) -> bool {
        self.get(name)
            .is_some_and(|value| value.eq_ignore_ascii_case("true"))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_settings_of_a_profile_are_those_of_its_section() {
        let text = "[default]\nA = 1\n# a = 2\n[profile x]\na=3 \ns3 =\n  a = 9\nb = c=d\n[y]\na = 4\n[profile y]\n";
        let a = |prefix, name| section(text, prefix, name).remove("a");
        assert_eq!(a("profile ", "default").as_deref(), Some("1"));
        assert_eq!(a("profile ", "x").as_deref(), Some("3"));
        assert_eq!(
            a("profile ", "y"),
            None,
            "without its prefix it is no profile"
        );
        assert_eq!(a("", "y").as_deref(), Some("4"));
        assert_eq!(section(text, "profile ", "x")["b"], "c=d");
        assert!(section(text, "profile ", "none").is_empty());
    }

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
