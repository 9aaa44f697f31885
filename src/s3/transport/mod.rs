//! Requests to the store: connections, endpoints, signatures, bodies, and how often each is tried. It knows no value.
//!
//! A [`S3Client`] is one reactor's way to the store: its pool of connections, through which requests go to the
//! endpoints in turn, past those that could not be reached a moment ago. A connection is driven on the runtime of the
//! reactor that made it. At most so many requests are under way as there may be connections; others wait their turn,
//! and that counts as time of theirs.

pub mod answer;
pub mod body;
pub mod call;
pub mod connector;
pub mod credentials;
pub mod sign;

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use hyper::header::{HOST, HeaderValue};
use hyper::{Method, Request};
use hyper_util::client::legacy::Client as Pool;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use rustls::ClientConfig;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout_at};

use self::answer::{ErrorBody, RequestError, StoreResponse, Tries, unclear};
use self::body::SendBody;
use self::call::{Call, Endpoint, Endpoints};
use self::connector::{Connector, connector, tls};
use self::credentials::CurrentSecrets;
use self::sign::{Link, Signer};
use crate::metrics::S3Counters;
use crate::s3::contract::{BucketPrefix, Settings};
use crate::sigv4::CanonicalRequest;
use crate::value::Error;

/// The longest wait for a connection to one endpoint.
const CONNECT: Duration = Duration::from_secs(1);

/// The time for which an unused connection is kept.
const IDLE: Duration = Duration::from_secs(50);

/// The shortest time that is taken to find out what a change has done.
const LOOK: Duration = Duration::from_millis(1500);

/// Bytes of an answer that are read ahead for a slow reader.
const READ_AHEAD: usize = 64 << 10;

/// The time for which a link works: enough to begin, and a download that has begun goes on.
const VALID: Duration = Duration::from_secs(5 * 60);

/// One reactor's client of the store.
#[derive(Debug)]
pub struct S3Client {
    pool: Pool<Connector, SendBody>,
    /// Each open connection has a reference to it.
    open: Arc<()>,
    permits: Arc<Semaphore>,
    /// All permits, taken or not.
    most: usize,
    reach: Reach,
    signer: Signer,
    /// Which objects are the values.
    pub place: BucketPrefix,
    /// The longest wait for the head of an answer.
    pub timeout: Duration,
    pub counters: S3Counters,
}

/// The parts that all clients of a store share.
#[derive(Clone, Debug)]
pub struct Reach {
    endpoints: Arc<Endpoints>,
    credentials: CurrentSecrets,
    tls: Arc<ClientConfig>,
}

impl Reach {
    /// The store of `settings`, with these credentials; the reason, where it cannot be reached.
    pub fn new(settings: &Settings, credentials: &CurrentSecrets) -> Result<Self, String> {
        Ok(Self {
            endpoints: Arc::new(Endpoints::new(settings)),
            credentials: credentials.clone(),
            tls: tls(settings.ca.as_deref())?,
        })
    }
}

impl S3Client {
    pub fn new(settings: &Settings, reach: Reach) -> Self {
        let open = Arc::default();
        let connector = connector(&reach.tls, CONNECT.min(settings.timeout / 2), &open);
        let pool = Pool::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE)
            .pool_max_idle_per_host(settings.connections)
            .http1_max_buf_size(READ_AHEAD)
            .set_host(false)
            .build(connector);
        Self {
            pool,
            open,
            permits: Arc::new(Semaphore::new(settings.connections)),
            most: settings.connections,
            reach,
            signer: Signer::new(settings.region.clone()),
            place: settings.place.clone(),
            timeout: settings.timeout,
            counters: S3Counters::default(),
        }
    }

    /// Connections that are open.
    pub fn connections(&self) -> usize {
        Arc::strong_count(&self.open) - 1
    }

    /// Requests under way.
    pub fn under_way(&self) -> usize {
        self.most.saturating_sub(self.permits.available_permits())
    }

    /// The endpoint that it asks, or the first of several.
    pub fn origin(&self) -> String {
        self.reach.endpoints.all[0].origin()
    }

    /// Asks the store whether the bucket is there.
    pub async fn probe(&self) -> Result<(), Error> {
        let answer = self.read(&Call::bucket(Method::HEAD)).await?;
        let why = "404, without a code of S3: is this the endpoint of a store?";
        answer
            .map(drop)
            .ok_or_else(|| Error::Refused(why.to_owned()))
    }

    /// An address at which `method` reads what the `object` with this encoded name is by then, through the endpoint
    /// that is in turn. The store is not asked for it.
    pub fn link(&self, method: &Method, object: &str) -> Result<String, Error> {
        let endpoint = self.reach.endpoints.next();
        let path = endpoint.path(object);
        let link = Link {
            method: method.as_str(),
            host: &endpoint.authority,
            path: &path,
            valid: VALID,
        };
        let secrets = self.reach.credentials.current();
        let query = self.signer.presign(&link, &secrets, SystemTime::now())?;
        Ok(format!("{}{path}?{query}", endpoint.origin()))
    }

    /// The end of the time that a request has which begins now.
    pub fn deadline(&self) -> Instant {
        Instant::now() + self.timeout
    }

    /// The tries of a request that begins now.
    pub fn tries(&self) -> Tries<'_> {
        Tries::until(self.deadline(), &self.counters)
    }

    /// Tries `call`, which changes nothing, until there is an answer or no hope. `None`: there is no such object, or
    /// not the version or the range that the call asks for.
    pub async fn read(&self, call: &Call) -> Result<Option<StoreResponse>, Error> {
        self.read_until(call, self.deadline()).await
    }

    /// Looks what a change has done, until then at least for as long as it takes to find out.
    pub async fn look(&self, call: &Call, until: Instant) -> Result<Option<StoreResponse>, Error> {
        self.read_until(call, until.max(Instant::now() + LOOK))
            .await
    }

    async fn read_until(
        &self,
        call: &Call,
        until: Instant,
    ) -> Result<Option<StoreResponse>, Error> {
        match self.repeat(call, until).await {
            Ok(answer) => Ok(Some(answer)),
            Err(RequestError::Refused(refusal)) if refusal.is_missing() => Ok(None),
            Err(RequestError::Refused(refusal))
                if refusal.is_changed() && call.is_conditional() =>
            {
                Ok(None)
            }
            Err(RequestError::Refused(refusal)) if refusal.is_changed() => {
                Err(unclear("a condition failed that was not set"))
            }
            Err(failure) => Err(failure.error()),
        }
    }

    /// Tries `call`, which may be done more than once, until there is an answer or no hope.
    pub async fn repeat(&self, call: &Call, until: Instant) -> Result<StoreResponse, RequestError> {
        let mut tries = Tries::until(until, &self.counters);
        loop {
            let failure = match self.ask(call, until).await {
                Err(RequestError::Refused(refusal)) if call.method == Method::HEAD => {
                    self.reason(call, refusal, until).await
                }
                Err(failure) => failure,
                answered => return answered,
            };
            tries.retry(failure).await?;
        }
    }

    /// The reason why `head` is refused, by a GET: the answer to a HEAD has no body. It distinguishes a missing
    /// bucket from a missing value.
    async fn reason(&self, head: &Call, refusal: ErrorBody, until: Instant) -> RequestError {
        let call = Call {
            method: Method::GET,
            ..head.clone()
        };
        let call = if call.object.is_empty() {
            call.with_query(&[("list-type", "2"), ("max-keys", "1")])
        } else {
            call.with_static("range", "bytes=0-0")
        };
        match self.ask(&call, until).await {
            Err(RequestError::Refused(said)) if !said.is_changed() => RequestError::Refused(said),
            // It has changed meanwhile.
            Ok(_) | Err(RequestError::Refused(_)) => RequestError::Refused(refusal),
            Err(failure) => failure,
        }
    }

    /// Tries `call` once, and waits for the answer until then.
    pub async fn ask(&self, call: &Call, until: Instant) -> Result<StoreResponse, RequestError> {
        let permit = self.permit(until).await?;
        let sent = timeout_at(until, self.send(call, permit)).await;
        let left = until.saturating_duration_since(Instant::now());
        let sent = sent.unwrap_or_else(|_| {
            self.counters.count(call.operation(), 0);
            Err(RequestError::Late)
        });
        sent?.checked(left).await
    }

    /// A permit for one request.
    pub async fn permit(&self, until: Instant) -> Result<OwnedSemaphorePermit, RequestError> {
        let permit = timeout_at(until, Arc::clone(&self.permits).acquire_owned()).await;
        let permit = permit.ok().and_then(Result::ok);
        permit.ok_or(RequestError::Busy {
            retry_after: 1,
            may_be_made: false,
        })
    }

    /// Sends `call` once; whatever the store says is an answer.
    pub async fn send(
        &self,
        call: &Call,
        connection: OwnedSemaphorePermit,
    ) -> Result<StoreResponse, RequestError> {
        let endpoint = self.reach.endpoints.next();
        let request = self.request(call, endpoint);
        let (operation, began) = (call.operation(), Instant::now());
        let sent = self
            .pool
            .request(request.map_err(RequestError::NotTried)?)
            .await;
        let response = sent.map_err(|error| {
            self.counters.count(operation, 0);
            if error.is_connect() {
                endpoint.avoid();
            }
            RequestError::without_answer(&error)
        })?;
        let (head, body) = response.into_parts();
        let status = head.status.as_u16();
        self.counters.count(operation, status);
        let time_to_head = &self.counters.time_to_head;
        time_to_head.observe_duration(began.elapsed());
        Ok(StoreResponse {
            status,
            headers: head.headers,
            body,
            _connection: connection,
        })
    }

    fn request(&self, call: &Call, endpoint: &Endpoint) -> Result<Request<SendBody>, Error> {
        let unfit = |what: &dyn std::fmt::Display| Error::Refused(what.to_string());
        let path = endpoint.path(&call.object);
        let mut headers = call.headers.clone();
        let host = HeaderValue::from_str(&endpoint.authority).map_err(|e| unfit(&e))?;
        headers.insert(HOST, host);
        let signed = CanonicalRequest {
            method: call.method.as_str(),
            path: &path,
            query: &call.query,
            payload: &call.payload,
        };
        let secrets = self.reach.credentials.current();
        self.signer
            .sign(&signed, &mut headers, &secrets, SystemTime::now())?;
        let mark = if call.query.is_empty() { "" } else { "?" };
        let uri = format!("{}{path}{mark}{}", endpoint.origin(), call.query);
        let mut request = Request::builder()
            .method(&call.method)
            .uri(uri)
            .body(call.body.clone())
            .map_err(|e| unfit(&e))?;
        *request.headers_mut() = headers;
        Ok(request)
    }
}
