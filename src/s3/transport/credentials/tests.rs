//! Each place in turn, with services played on loopback.

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
struct Service {
    endpoint: String,
    answers: Arc<Mutex<HashMap<String, String>>>,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Service {
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
                let (status, body) = answer.map_or((404, String::new()), |answer| (200, answer));
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

fn find(variables: &[(&str, &str)]) -> Result<Credentials, String> {
    let home = [("HOME", "/nowhere"), ("AWS_EC2_METADATA_DISABLED", "true")];
    let variables = [&home, variables].concat();
    let fetcher = Fetcher::new(None);
    Credentials::find(Variables::of(&variables), "nowhere-1", fetcher)
        .map_err(|error| error.to_string())
}

fn id(credentials: &Credentials) -> String {
    credentials.current().id.clone()
}

fn path(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Waits for the thread to have renewed them.
fn becomes(credentials: &Credentials, expected: &str) {
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
    assert_eq!(
        (id(&found).as_str(), &found.current().token),
        ("from-env", &None)
    );
    assert!(!format!("{found:?}").contains("hush"));
    let half = find(&both[..1]).unwrap_err();
    assert_eq!(
        half,
        "no credentials: AWS_ACCESS_KEY_ID is set and AWS_SECRET_ACCESS_KEY is not"
    );
}

#[test]
fn a_profile_of_either_file_is_found() {
    let dir = TempDir::new().unwrap();
    let [credentials, config] = ["credentials", "config"].map(|name| dir.path().join(name));
    fs::write(
        &credentials,
        "[default]\naws_access_key_id = first\naws_secret_access_key = hush\n",
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
    assert_eq!(id(&find(&files).unwrap()), "first");
    let with = |name| find(&[&files[..], &[("AWS_PROFILE", name)]].concat());
    let other = with("other").unwrap();
    assert_eq!(
        (id(&other).as_str(), other.current().token.as_deref()),
        ("second", Some("tk"))
    );
    let sso = "no credentials: the profile sso uses sso_session, which data-server does not know";
    assert_eq!(with("sso").unwrap_err(), sso);
    assert_eq!(
        with("none").unwrap_err(),
        "no credentials: AWS_PROFILE is none, and no file has keys for it"
    );
    let home = TempDir::new().unwrap();
    fs::create_dir(home.path().join(".aws")).unwrap();
    fs::copy(&credentials, home.path().join(".aws/credentials")).unwrap();
    assert_eq!(id(&find(&[("HOME", path(home.path()))]).unwrap()), "first");
}

#[test]
fn an_instance_is_asked_with_a_token_and_its_secrets_are_renewed_before_they_end() {
    let roles = "GET /latest/meta-data/iam/security-credentials/";
    let role = format!("{roles}the-role");
    let service = Service::start(&[
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
    assert_eq!(
        (id(&found).as_str(), found.current().token.as_deref()),
        ("one", Some("t-one"))
    );
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
    let service = Service::start(&[("GET /creds", &given("boxed", HOUR))]);
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
    let service = Service::start(&[("POST /", &xml("first", Duration::from_secs(3)))]);
    let dir = TempDir::new().unwrap();
    let token = dir.path().join("token");
    fs::write(&token, "a+b").unwrap();
    let found = find(&[
        ("AWS_WEB_IDENTITY_TOKEN_FILE", path(&token)),
        ("AWS_ROLE_ARN", "arn:aws:iam::1:role/r"),
        ("AWS_ENDPOINT_URL_STS", &service.endpoint),
    ])
    .unwrap();
    assert_eq!(
        (id(&found).as_str(), found.current().token.as_deref()),
        ("first", Some("st"))
    );
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
    let pause = |left| pause_until(Some(SystemTime::now() + Duration::from_secs(left))).as_secs();
    assert!((3290..=3300).contains(&pause(3600)));
    assert!((298..=300).contains(&pause(600)));
    assert!((28..=30).contains(&pause(60)));
    assert_eq!(pause(0), 1);
    assert_eq!(pause_until(None), REREAD);
}
