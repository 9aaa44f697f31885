//! Certificates that tests make, and clients that look at them.

use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rcgen::ExtendedKeyUsagePurpose::{ClientAuth, ServerAuth};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, date_time_ymd};
use rustls::client::WebPkiServerVerifier;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore, SupportedProtocolVersion};
use tempfile::TempDir;

use super::certificates::openssl;
use super::server::TLS;

/// Who issues certificates, and the directory with all of them.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    certificate: CertificateDer<'static>,
    dir: TempDir,
}

/// A certificate with its key, in memory and in files.
pub struct Issued {
    pub certificate: PathBuf,
    pub key: PathBuf,
    chain: Vec<CertificateDer<'static>>,
    der: PrivatePkcs8KeyDer<'static>,
}

impl Authority {
    #[track_caller]
    pub fn new() -> Self {
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::new([]).expect("no names");
        let name = &mut params.distinguished_name;
        name.push(DnType::CommonName, "authority");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let certificate = params.self_signed(&key).expect("a certificate");
        let dir = TempDir::new().expect("a temporary directory");
        std::fs::write(dir.path().join("ca.pem"), certificate.pem()).expect("a file");
        Self {
            certificate: certificate.der().clone(),
            issuer: Issuer::new(params, key),
            dir,
        }
    }

    /// The file of its own certificate.
    pub fn file(&self) -> PathBuf {
        self.dir.path().join("ca.pem")
    }

    /// A certificate of these names, in files called `file`.
    #[track_caller]
    pub fn issue(&self, file: &str, names: &[&str]) -> Issued {
        self.issue_until(file, names, 2100)
    }

    /// One that ends with the beginning of this year.
    #[track_caller]
    pub fn issue_until(&self, file: &str, names: &[&str], year: i32) -> Issued {
        let since = date_time_ymd(year, 1, 1) - date_time_ymd(1970, 1, 1);
        self.issue_until_second(file, names, since.whole_seconds())
    }

    /// One that ends so long from now.
    #[track_caller]
    pub fn issue_for(&self, file: &str, names: &[&str], life: Duration) -> Issued {
        let end = SystemTime::now() + life;
        let since = end.duration_since(UNIX_EPOCH).expect("a time of this age");
        let second = i64::try_from(since.as_secs()).expect("a time of this age");
        self.issue_until_second(file, names, second)
    }

    fn issue_until_second(&self, file: &str, names: &[&str], second: i64) -> Issued {
        let names: Vec<_> = names.iter().map(|&name| name.to_owned()).collect();
        let mut params = CertificateParams::new(names).expect("names");
        params.not_before = date_time_ymd(2000, 1, 1);
        let since = Duration::from_secs(second.unsigned_abs());
        params.not_after = date_time_ymd(1970, 1, 1) + since;
        params.extended_key_usages = vec![ServerAuth, ClientAuth];
        let key = KeyPair::generate().expect("a key");
        let made = params.signed_by(&key, &self.issuer).expect("a certificate");
        let place = |end| self.dir.path().join(format!("{file}.{end}"));
        std::fs::write(place("pem"), made.pem()).expect("a file");
        std::fs::write(place("key"), key.serialize_pem()).expect("a file");
        Issued {
            certificate: place("pem"),
            key: place("key"),
            chain: vec![made.der().clone()],
            der: key.serialize_der().into(),
        }
    }

    /// A client that trusts this authority.
    pub fn client(&self) -> TlsClient {
        TlsClient::new(&self.certificate, rustls::ALL_VERSIONS, None)
    }
}

impl Default for Authority {
    #[track_caller]
    fn default() -> Self {
        Self::new()
    }
}

impl Issued {
    /// One that `openssl req -x509` makes of this name in `dir`: it has signed itself, and is its own authority.
    #[track_caller]
    pub fn by_openssl(dir: &Path, file: &str, name: &str) -> Self {
        let made = format!(
            "-x509 -subj /CN={file} -keyout {file}.key -out {file}.pem -addext subjectAltName={name}"
        );
        openssl(dir, &made);
        let [certificate, key] = ["pem", "key"].map(|end| dir.join(format!("{file}.{end}")));
        Self {
            chain: vec![CertificateDer::from_pem_file(&certificate).expect("a certificate")],
            der: PrivatePkcs8KeyDer::from_pem_file(&key).expect("a key"),
            certificate,
            key,
        }
    }

    /// The options that have a server show it.
    pub fn options(&self) -> Vec<&str> {
        let [certificate, key] = [&self.certificate, &self.key].map(|path| crate::text(path));
        vec!["--tls-cert", certificate, "--tls-key", key]
    }

    pub fn der(&self) -> &CertificateDer<'static> {
        &self.chain[0]
    }
}

/// How a client makes connections.
#[derive(Clone)]
pub struct TlsClient {
    pub config: Arc<ClientConfig>,
    pub name: ServerName<'static>,
    authority: CertificateDer<'static>,
    versions: Vec<&'static SupportedProtocolVersion>,
}

impl TlsClient {
    fn new(
        authority: &CertificateDer<'static>,
        versions: &[&'static SupportedProtocolVersion],
        own: Option<&Issued>,
    ) -> Self {
        let mut roots = RootCertStore::empty();
        let added = roots.add(authority.clone());
        added.expect("a certificate of an authority");
        let provider = Arc::new(aws_lc_rs::default_provider());
        let verifier =
            WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider.clone());
        let config = ClientConfig::builder_with_provider(provider);
        let config = config.with_protocol_versions(versions).expect("versions");
        let config = config.with_webpki_verifier(verifier.build().expect("a verifier"));
        let config = match own {
            Some(own) => {
                let key = PrivateKeyDer::Pkcs8(own.der.clone_key());
                let config = config.with_client_auth_cert(own.chain.clone(), key);
                config.expect("a certificate and its key")
            }
            None => config.with_no_client_auth(),
        };
        Self {
            config: Arc::new(config),
            name: ServerName::try_from("127.0.0.1").expect("a name"),
            authority: authority.clone(),
            versions: versions.to_vec(),
        }
    }

    /// The same, with these versions alone.
    pub fn versions(&self, versions: &[&'static SupportedProtocolVersion]) -> Self {
        Self::new(&self.authority, versions, None)
    }

    /// The same, with a certificate of its own.
    pub fn with(&self, own: &Issued) -> Self {
        Self::new(&self.authority, &self.versions, Some(own))
    }

    /// The same, which asks for this name.
    pub fn asking_for(&self, name: &str) -> Self {
        let mut client = self.clone();
        client.name = ServerName::try_from(name.to_owned()).expect("a name");
        client
    }
}

/// What all servers show in a run of the suite over TLS.
pub(crate) struct Suite {
    _authority: Authority,
    pub(crate) own: Issued,
    pub(crate) client: TlsClient,
}

pub(crate) static SUITE: LazyLock<Option<Suite>> = LazyLock::new(|| {
    std::env::var_os(TLS).filter(|on| on == "1")?;
    let authority = Authority::new();
    let own = authority.issue("own", &["127.0.0.1", "::1", "localhost"]);
    let client = authority.client();
    Some(Suite {
        _authority: authority,
        own,
        client,
    })
});

/// Whether all servers of this run speak TLS.
pub fn is_tls() -> bool {
    SUITE.is_some()
}

/// Ends the test in a run over TLS: it is of what the clear path alone has.
#[macro_export]
macro_rules! clear_only {
    ($why:literal) => {
        let why = concat!("in the clear only: ", $why);
        $crate::only_where!(!$crate::is_tls(), &$crate::this_test(), why)
    };
}

/// Ends the test in a run over TLS or HTTP/2: what is sealed or framed does not pass the socket as it is.
#[macro_export]
macro_rules! plain_only {
    ($why:literal) => {
        $crate::http1_only!($why);
        $crate::clear_only!($why)
    };
}
