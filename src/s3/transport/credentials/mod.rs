//! The secrets that requests are signed with: found at the start, and renewed before they expire by one thread,
//! `s3-credentials`. Readers get what is current and wait for nothing.
//!
//! They come from the first of the usual places that has any, found once and asked again later. They are never an
//! option, and never in a log, an error or a `Debug`. Secrets that cannot be renewed stay in use: the store decides
//! when they are over.

mod providers;

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, SystemTime};

use tokio::sync::watch;
use tokio::time::sleep;

use super::sign::{Renewed, Secrets};
use crate::s3::contract::Settings;
use providers::{Container, Fetcher, Instance, Pairs, Profile, WebIdentity};

/// The time before their end at which secrets are renewed; short-lived ones are renewed at half of their time.
const AHEAD: Duration = Duration::from_secs(5 * 60);

/// The pause before a source that names no end is asked again: a file that another program renews.
const REREAD: Duration = Duration::from_secs(30);

/// The pause before the next try after a failed one, and the longest that it grows to.
const RETRY: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));

/// The files that secrets are read from in the environment of this process, and the addresses that are asked for them:
/// those of the place that has secrets, and the files that are looked into before it.
pub fn reach(region: &str) -> (Vec<PathBuf>, Vec<String>) {
    let variables = Pairs::of_process();
    let (file, url) = match Provider::configured(&variables, region) {
        // Why there is none is said when they are looked for.
        Ok(Provider::Environment(_)) | Err(_) => return Default::default(),
        Ok(Provider::Profile(_)) => (None, None),
        Ok(Provider::WebIdentity(identity)) => (Some(identity.token_file), Some(identity.endpoint)),
        Ok(Provider::Container(container)) => (container.token_file, Some(container.uri)),
        Ok(Provider::Instance(instance)) => (None, Some(instance.endpoint)),
    };
    let files = Profile::new(&variables).files();
    let files = files.chain(file.map(PathBuf::from));
    (files.collect(), url.into_iter().collect())
}

/// The secrets of the moment.
#[derive(Clone, Debug)]
pub struct CurrentSecrets {
    /// The thread that renews them ends with the last one.
    current: watch::Receiver<Arc<Secrets>>,
}

impl CurrentSecrets {
    /// Finds them by the environment of this process, and keeps them current; else the reason why there are none.
    /// Blocks.
    pub fn start(settings: &Settings) -> Result<Self, String> {
        let fetcher = Fetcher::new(settings.ca.clone());
        Self::find(Pairs::of_process(), &settings.region, fetcher)
    }

    fn find(variables: Pairs, region: &str, fetcher: Fetcher) -> Result<Self, String> {
        let region = region.to_owned();
        let (told, found) = mpsc::channel();
        let run = move || {
            let mut runtime = tokio::runtime::Builder::new_current_thread();
            let Ok(runtime) = runtime.enable_all().build() else {
                return;
            };
            runtime.block_on(async {
                let (source, first) = match Provider::find(&variables, &region, &fetcher).await {
                    Ok(found) => found,
                    Err(why) => {
                        let _ = told.send(Err(why));
                        return;
                    }
                };
                let (renewed, current) = watch::channel(Arc::new(first.secrets));
                let _ = told.send(Ok(current));
                keep(&renewed, &source, first.expires, &fetcher).await;
            });
        };
        let thread = thread::Builder::new().name("s3-credentials".to_owned());
        let found = match thread.spawn(run) {
            Ok(_) => found.recv(),
            Err(error) => Ok(Err(format!("no thread to find them: {error}"))),
        };
        let found = found.unwrap_or_else(|_| Err("their thread ended".to_owned()));
        let current = found.map_err(|why| format!("no credentials: {why}"))?;
        Ok(Self { current })
    }

    /// Secrets that are never renewed.
    #[cfg(test)]
    pub fn fixed(secrets: Secrets) -> Self {
        Self {
            current: watch::channel(Arc::new(secrets)).1,
        }
    }

    /// The secrets of the moment. They are the same `Arc` until they change.
    pub fn current(&self) -> Arc<Secrets> {
        Arc::clone(&self.current.borrow())
    }
}

/// Renews the secrets of `source`, which are valid until `expires`, for as long as they can change and are read.
async fn keep(
    current: &watch::Sender<Arc<Secrets>>,
    source: &Provider,
    expires: Option<SystemTime>,
    fetcher: &Fetcher,
) {
    let (mut pause, mut retry) = (pause_until(expires), RETRY.0);
    while source.can_change() {
        tokio::select! {
            () = sleep(pause) => {}
            () = current.closed() => return,
        }
        match source.renew(fetcher).await {
            Ok(renewed) => {
                (pause, retry) = (pause_until(renewed.expires), RETRY.0);
                if **current.borrow() != renewed.secrets {
                    current.send_replace(Arc::new(renewed.secrets));
                }
            }
            Err(why) => {
                tracing::warn!(why, "the credentials of the store were not renewed");
                pause = retry;
                retry = RETRY.1.min(retry * 2);
            }
        }
    }
}

/// The wait before secrets that are valid until `expires` are renewed.
fn pause_until(expires: Option<SystemTime>) -> Duration {
    let Some(expires) = expires else {
        return REREAD;
    };
    let left = expires
        .duration_since(SystemTime::now())
        .unwrap_or_default();
    left.saturating_sub(AHEAD).max(left / 2).max(RETRY.0)
}

/// The address of the agent of ECS.
const CONTAINERS: &str = "http://169.254.170.2";

/// The addresses, beside this machine's, that are asked without encryption: the agents of ECS and EKS.
const AGENTS: [&str; 3] = ["169.254.170.2", "169.254.170.23", "[fd00:ec2::23]"];

/// The address of the metadata of an instance.
const INSTANCE: &str = "http://169.254.169.254";

/// A place that has secrets.
pub enum Provider {
    Environment(Secrets),
    Profile(Profile),
    WebIdentity(WebIdentity),
    Container(Container),
    Instance(Instance),
}

impl Provider {
    /// The first place that is set up, with what it has; or why there is none, without any secret.
    pub async fn find(
        variables: &Pairs,
        region: &str,
        fetcher: &Fetcher,
    ) -> Result<(Self, Renewed), String> {
        let source = Self::configured(variables, region)?;
        let first = source.renew(fetcher).await;
        let first = first.map_err(|why| match source {
            Self::Instance(_) => format!("{NOWHERE}, and {why}"),
            _ => why,
        })?;
        Ok((source, first))
    }

    fn configured(variables: &Pairs, region: &str) -> Result<Self, String> {
        if let Some(secrets) = variables.secrets(VARIABLE_KEYS) {
            return Ok(Self::Environment(secrets));
        }
        if variables.get(VARIABLE_KEYS[0]).is_some() {
            return Err("AWS_ACCESS_KEY_ID is set and AWS_SECRET_ACCESS_KEY is not".to_owned());
        }
        let profile = Profile::new(variables);
        let settings = profile.read();
        if settings.secrets(PROFILE_KEYS).is_some() {
            return Ok(Self::Profile(profile));
        }
        if let Some(identity) = web_identity(variables, region, &settings, PROFILE_ROLE) {
            return Ok(Self::WebIdentity(identity));
        }
        if profile.is_named {
            return Err(unusable(&profile, &settings));
        }
        if let Some(identity) = web_identity(variables, region, variables, VARIABLE_ROLE) {
            return Ok(Self::WebIdentity(identity));
        }
        if let Some(container) = container(variables)? {
            return Ok(Self::Container(container));
        }
        let instance = instance(variables).ok_or(NOWHERE)?;
        Ok(Self::Instance(instance))
    }

    /// True where later secrets may differ from the first.
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
                let secrets = profile.read().secrets(PROFILE_KEYS).map(without_end);
                secrets.ok_or_else(|| format!("the profile {} has no keys any more", profile.name))
            }
            Self::WebIdentity(identity) => identity.renew(fetcher).await,
            Self::Container(container) => container.renew(fetcher).await,
            Self::Instance(instance) => instance.renew(fetcher).await,
        }
    }
}

const NOWHERE: &str = "AWS_ACCESS_KEY_ID is not set, ~/.aws has no keys for the profile default, and no web identity and no \
                       container service is set up";

/// A key, its secret and its token: the names of their settings.
const PROFILE_KEYS: [&str; 3] = [
    "aws_access_key_id",
    "aws_secret_access_key",
    "aws_session_token",
];
const VARIABLE_KEYS: [&str; 3] = [
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
];

/// A role, its session, and the file of the token: the names of their settings.
const PROFILE_ROLE: [&str; 3] = ["role_arn", "role_session_name", "web_identity_token_file"];
const VARIABLE_ROLE: [&str; 3] = [
    "AWS_ROLE_ARN",
    "AWS_ROLE_SESSION_NAME",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
];

/// The role that `settings` name.
fn web_identity(
    variables: &Pairs,
    region: &str,
    settings: &Pairs,
    [role, session, token_file]: [&str; 3],
) -> Option<WebIdentity> {
    let get = |name| settings.get(name).map(str::to_owned);
    let endpoint = variables.get("AWS_ENDPOINT_URL_STS").map(str::to_owned);
    Some(WebIdentity {
        token_file: get(token_file)?,
        role: get(role)?,
        session: get(session),
        endpoint: endpoint.unwrap_or_else(|| format!("https://sts.{region}.amazonaws.com")),
    })
}

/// The service of a container, where one is set up.
fn container(variables: &Pairs) -> Result<Option<Container>, String> {
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

/// True where a token and secrets may be sent to `uri`: encrypted, or to an agent on this machine.
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
fn instance(variables: &Pairs) -> Option<Instance> {
    let endpoint = variables
        .get("AWS_EC2_METADATA_SERVICE_ENDPOINT")
        .unwrap_or(INSTANCE);
    let is_off = variables.get("AWS_EC2_METADATA_DISABLED");
    let is_off = is_off.is_some_and(|value| value.eq_ignore_ascii_case("true"));
    (!is_off).then(|| Instance {
        endpoint: endpoint.trim_end_matches('/').to_owned(),
    })
}

/// The reason why a profile that is named cannot be used.
fn unusable(profile: &Profile, settings: &Pairs) -> String {
    let name = &profile.name;
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

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::fs;
    use std::io::{BufRead, BufReader, Read, Write};
    use std::net::TcpListener;
    use std::path::Path;
    use std::sync::Mutex;
    use std::time::Instant;

    use tempfile::TempDir;

    use data_server_testing::DEADLINE;

    use super::*;

    /// A service that answers from a table of `METHOD /path`, and keeps what it was asked. It ends with the process.
    struct CredentialServer {
        endpoint: String,
        answers: Arc<Mutex<HashMap<String, String>>>,
        asked: Arc<Mutex<Vec<String>>>,
    }

    impl CredentialServer {
        fn start(answers: &[(&str, &str)]) -> Self {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let service = Self {
                endpoint: format!("http://{}", listener.local_addr().unwrap()),
                answers: Arc::default(),
                asked: Arc::default(),
            };
            for (ask, answer) in answers {
                service.answers(ask, answer);
            }
            let (answers, asked) = (Arc::clone(&service.answers), Arc::clone(&service.asked));
            thread::spawn(move || {
                for stream in listener.incoming().map_while(Result::ok) {
                    let mut stream = BufReader::new(stream);
                    let mut head = String::new();
                    while !head.ends_with("\r\n\r\n") && stream.read_line(&mut head).unwrap() > 0 {}
                    let length = head
                        .lines()
                        .find_map(|line| line.strip_prefix("content-length: "));
                    let mut body = vec![0; length.map_or(0, |length| length.parse().unwrap())];
                    stream.read_exact(&mut body).unwrap();
                    let line = head.split(" HTTP").next().unwrap_or_default().to_owned();
                    asked
                        .lock()
                        .unwrap()
                        .push(head + &String::from_utf8(body).unwrap());
                    let answer = answers.lock().unwrap().get(&line).cloned();
                    let (status, body) =
                        answer.map_or((404, String::new()), |answer| (200, answer));
                    let length = body.len();
                    let head = format!(
                        "HTTP/1.1 {status} X\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
                    );
                    let _ = stream.get_mut().write_all((head + &body).as_bytes());
                }
            });
            service
        }

        fn answers(&self, ask: &str, answer: &str) {
            self.answers
                .lock()
                .unwrap()
                .insert(ask.to_owned(), answer.to_owned());
        }

        fn was_asked(&self, text: &str) -> bool {
            self.times_asked(text) > 0
        }

        fn times_asked(&self, text: &str) -> usize {
            let asked = self.asked.lock().unwrap();
            asked.iter().filter(|asked| asked.contains(text)).count()
        }
    }

    fn find(variables: &[(&str, &str)]) -> Result<CurrentSecrets, String> {
        let home = [("HOME", "/nowhere"), ("AWS_EC2_METADATA_DISABLED", "true")];
        let variables = [&home, variables].concat();
        let fetcher = Fetcher::new(None);
        CurrentSecrets::find(Pairs::of(&variables), "nowhere-1", fetcher)
    }

    fn id(credentials: &CurrentSecrets) -> String {
        credentials.current().id.clone()
    }

    fn path(path: &Path) -> &str {
        path.to_str().unwrap()
    }

    /// Waits for the thread to have renewed them.
    fn becomes(credentials: &CurrentSecrets, expected: &str) {
        until(expected, || id(credentials) == expected);
    }

    fn until(what: &str, holds: impl Fn() -> bool) {
        let deadline = Instant::now() + DEADLINE;
        while !holds() {
            assert!(Instant::now() < deadline, "not in time: {what}");
            thread::sleep(Duration::from_millis(5));
        }
    }

    fn given(id: &str, lasts: Duration) -> String {
        let end = humantime::format_rfc3339_seconds(SystemTime::now() + lasts);
        format!(
            r#"{{"Code":"Success","AccessKeyId":"{id}","SecretAccessKey":"hush","Token":"t-{id}","Expiration":"{end}"}}"#
        )
    }

    const HOUR: Duration = Duration::from_secs(3600);

    #[test]
    fn the_environment_comes_first() {
        let both = [
            ("AWS_ACCESS_KEY_ID", "from-env"),
            ("AWS_SECRET_ACCESS_KEY", "hush"),
            ("AWS_PROFILE", "none"),
        ];
        let found = find(&both).unwrap();
        assert_eq!(id(&found), "from-env");
        assert_eq!(found.current().token, None);
        assert!(!format!("{found:?}").contains("hush"));
        let half = find(&both[..1]).unwrap_err();
        let expected = "no credentials: AWS_ACCESS_KEY_ID is set and AWS_SECRET_ACCESS_KEY is not";
        assert_eq!(half, expected);
    }

    #[test]
    fn a_profile_of_either_file_is_found() {
        let dir = TempDir::new().unwrap();
        let [credentials, config] = ["credentials", "config"].map(|name| dir.path().join(name));
        fs::write(
            &credentials,
            "[default]\naws_access_key_id = first\naws_secret_access_key = hush\naws_session_token =\n",
        )
        .unwrap();
        fs::write(
            &config,
            "[profile other]\naws_access_key_id=second\naws_secret_access_key=hush\naws_session_token=tk\n[profile sso]\nsso_session = x\n",
        )
        .unwrap();
        let files = [
            ("AWS_SHARED_CREDENTIALS_FILE", path(&credentials)),
            ("AWS_CONFIG_FILE", path(&config)),
        ];
        let first = find(&files).unwrap();
        assert_eq!(id(&first), "first");
        assert_eq!(first.current().token, None);
        let with = |name| find(&[&files[..], &[("AWS_PROFILE", name)]].concat());
        let other = with("other").unwrap();
        assert_eq!(id(&other), "second");
        assert_eq!(other.current().token.as_deref(), Some("tk"));
        let sso =
            "no credentials: the profile sso uses sso_session, which data-server does not know";
        assert_eq!(with("sso").unwrap_err(), sso);
        let expected = "no credentials: AWS_PROFILE is none, and no file has keys for it";
        assert_eq!(with("none").unwrap_err(), expected);
        let home = TempDir::new().unwrap();
        fs::create_dir(home.path().join(".aws")).unwrap();
        fs::copy(&credentials, home.path().join(".aws/credentials")).unwrap();
        assert_eq!(id(&find(&[("HOME", path(home.path()))]).unwrap()), "first");
    }

    #[test]
    fn an_instance_is_asked_with_a_token_and_its_secrets_are_renewed_before_they_end() {
        let roles = "GET /latest/meta-data/iam/security-credentials/";
        let role = format!("{roles}the-role");
        let service = CredentialServer::start(&[
            ("PUT /latest/api/token", "session"),
            (roles, "the-role\n"),
            (&role, &given("one", Duration::from_secs(3))),
        ]);
        let instance = [
            (
                "AWS_EC2_METADATA_SERVICE_ENDPOINT",
                service.endpoint.as_str(),
            ),
            ("AWS_EC2_METADATA_DISABLED", "false"),
        ];
        let found = find(&instance).unwrap();
        assert_eq!(id(&found), "one");
        assert_eq!(found.current().token.as_deref(), Some("t-one"));
        assert!(service.was_asked("x-aws-ec2-metadata-token: session"));
        // A renewal that fails changes nothing, and is tried again.
        service.answers(&role, "{}");
        until("a renewal", || service.times_asked(&role) > 1);
        assert_eq!(id(&found), "one");
        service.answers(&role, &given("two", HOUR));
        becomes(&found, "two");
        let first = found.current();
        assert!(Arc::ptr_eq(&first, &found.current()));
    }

    #[test]
    fn a_container_is_asked_with_the_token_of_its_file() {
        let service = CredentialServer::start(&[("GET /creds", &given("boxed", HOUR))]);
        let uri = format!("{}/creds", service.endpoint);
        let dir = TempDir::new().unwrap();
        let token = dir.path().join("token");
        fs::write(&token, "prove it\n").unwrap();
        let found = find(&[
            ("AWS_CONTAINER_CREDENTIALS_FULL_URI", &uri),
            ("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", path(&token)),
        ]);
        assert_eq!(id(&found.unwrap()), "boxed");
        assert!(service.was_asked("authorization: prove it\r\n"));
        let elsewhere =
            find(&[("AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://example.org/")]).unwrap_err();
        assert!(elsewhere.contains("neither of https"), "{elsewhere}");
        let gone = find(&[(
            "AWS_CONTAINER_CREDENTIALS_FULL_URI",
            &format!("{}/no", service.endpoint),
        )]);
        assert!(gone.unwrap_err().ends_with("/no: answered 404"));
    }

    #[test]
    fn a_web_identity_is_exchanged_by_its_token_as_it_is_now() {
        let xml = |id: &str, lasts| {
            let end = humantime::format_rfc3339_seconds(SystemTime::now() + lasts);
            format!(
                "<AssumeRoleWithWebIdentityResponse xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\">\
                 <AssumeRoleWithWebIdentityResult><Audience>x</Audience><Credentials><AccessKeyId>{id}</AccessKeyId>\
                 <SecretAccessKey>hush</SecretAccessKey><SessionToken>st</SessionToken><Expiration>{end}</Expiration>\
                 </Credentials></AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>"
            )
        };
        let service = CredentialServer::start(&[("POST /", &xml("first", Duration::from_secs(3)))]);
        let dir = TempDir::new().unwrap();
        let token = dir.path().join("token");
        fs::write(&token, "a+b").unwrap();
        let found = find(&[
            ("AWS_WEB_IDENTITY_TOKEN_FILE", path(&token)),
            ("AWS_ROLE_ARN", "arn:aws:iam::1:role/r"),
            ("AWS_ENDPOINT_URL_STS", &service.endpoint),
        ])
        .unwrap();
        assert_eq!(id(&found), "first");
        assert_eq!(found.current().token.as_deref(), Some("st"));
        assert!(service.was_asked("WebIdentityToken=a%2Bb"));
        fs::write(&token, "later").unwrap();
        service.answers("POST /", &xml("second", HOUR));
        becomes(&found, "second");
        assert!(service.was_asked("WebIdentityToken=later"));
    }

    #[test]
    fn where_there_are_none_the_reason_names_the_places() {
        let why = find(&[]).unwrap_err();
        assert!(
            why.starts_with("no credentials: AWS_ACCESS_KEY_ID is not set, ~/.aws has no keys"),
            "{why}"
        );
        let closed = TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap();
        let why = find(&[
            (
                "AWS_EC2_METADATA_SERVICE_ENDPOINT",
                &format!("http://{closed}"),
            ),
            ("AWS_EC2_METADATA_DISABLED", "false"),
        ]);
        assert!(
            why.unwrap_err()
                .contains("/latest/api/token: Connection refused")
        );
    }

    #[test]
    fn secrets_are_renewed_well_before_they_end() {
        let pause =
            |left| pause_until(Some(SystemTime::now() + Duration::from_secs(left))).as_secs();
        assert!((3290..=3300).contains(&pause(3600)));
        assert!((298..=300).contains(&pause(600)));
        assert!((28..=30).contains(&pause(60)));
        assert_eq!(pause(0), 1);
        assert_eq!(pause_until(None), REREAD);
    }

    #[test]
    fn secrets_are_asked_for_in_the_clear_only_on_this_machine() {
        for uri in "https://example.org/x http://127.0.0.1:1/x http://[::1]/ \
            http://169.254.170.23/v1"
            .split(' ')
        {
            assert!(is_trusted(uri), "{uri}");
        }
        for uri in
            "http://example.org/|http://10.0.0.1/|http://127.0.0.1.example.org/|x|".split('|')
        {
            assert!(!is_trusted(uri), "{uri}");
        }
    }
}
