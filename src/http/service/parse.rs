//! The parser: from method, target and headers to an [`Operation`], or a [`Refusal`].
//!
//! The fields of a request are read here and in the pure functions that this file calls. A request that can be refused without the
//! store is refused here, before a byte of the body is read. Knows no status.

use std::rc::Rc;

use hyper::header::{
    ACCESS_CONTROL_REQUEST_HEADERS, ACCESS_CONTROL_REQUEST_METHOD, CONTENT_LENGTH, HeaderMap,
    HeaderValue, ORIGIN,
};
use hyper::http::request::Parts;
use hyper::{Method, Version};

use crate::http::admin::MetricsFormat;
use crate::http::auth::authorize::{is_open, link_kind};
use crate::http::auth::credentials::{AuthCache, Principal, signed_link};
use crate::http::auth::{Guard, Identified};
use crate::http::body::request::RequestBody;
use crate::http::client::Client;
use crate::http::forms::FormRequest;
use crate::http::head::CommonHeaders;
use crate::http::head::accept::prefers_problem;
use crate::http::head::path::{FORMS, Segments, WATCH, check_depth, folder, key, page};
use crate::http::head::syntax::depth;
use crate::http::listing::perform::{list_request, session};
use crate::http::refusal::Refusal;
use crate::http::service::operation::{
    GetOptions, Operation, OptionsRequest, PutOptions, ResponseContext, Target,
};
use crate::http::service_config::{Routes, ServiceConfig};
use crate::http::ui;
use crate::http::uploads::{Creation, UploadRequest, upload};
use crate::http::values::conditional::preconditions;
use crate::http::values::other_store;
use crate::http::watch::request::WatchRequest;
use crate::store::{BadKey, Key, UploadId};

impl ResponseContext {
    /// The context of the response to `head`, before the client is authenticated.
    pub fn of(head: &Parts, common: &CommonHeaders<'_>, config: &ServiceConfig) -> Self {
        let origin = || allowed_origin(&head.headers, config);
        Self {
            problem: common.wants_problem_json && prefers_problem(&head.headers),
            page: (common.by_browser && !config.compat && ui::is_preferred(&head.headers))
                .then(|| depth(head.uri.path())),
            of_store: common.of_store || other_store::is_signed(common.presented),
            principal: None,
            origin: (!config.allowed.origins.is_empty()).then(origin).flatten(),
        }
    }
}

/// The head of a request, with the findings in it.
#[derive(Clone, Copy)]
pub struct RequestHead<'a> {
    pub head: &'a Parts,
    /// The length of the body, where the framing tells it.
    pub len: Option<u64>,
    pub client: Client,
    pub common: &'a CommonHeaders<'a>,
}

impl<'a> RequestHead<'a> {
    pub fn new(
        head: &'a Parts,
        body: &RequestBody,
        client: Client,
        common: &'a CommonHeaders<'a>,
    ) -> Self {
        Self {
            head,
            len: body.len(),
            client,
            common,
        }
    }

    /// True for the request of a page whose origin is not allowed.
    fn is_foreign(&self, context: &ResponseContext) -> bool {
        context.origin.is_none() && self.common.is_foreign(self.client)
    }

    /// True for the request of a page of another origin that was not allowed by its name.
    fn is_untrusted(&self, context: &ResponseContext, config: &ServiceConfig) -> bool {
        let origins = &config.allowed.origins;
        let origin = context.origin.as_ref();
        let is_trusted = origin.is_some_and(|origin| origins.trust(origin.as_bytes()));
        !is_trusted && self.common.is_foreign(self.client)
    }
}

/// Authenticates the client by its credentials, or by the proofs of its connection. An invalid head is refused first.
pub fn identify(
    request: RequestHead<'_>,
    config: &ServiceConfig,
    guard: Option<&Guard>,
    proven: &AuthCache,
    context: &ResponseContext,
) -> Result<Identified, Refusal> {
    let RequestHead {
        head,
        client,
        common,
        ..
    } = request;
    if proven.has_ended() {
        return Err(Refusal::CertificateEnded);
    }
    common.check(head, client, &config.allowed.hosts)?;
    other_store::check(head, common.presented, common.of_store, config.authorizes)?;
    if !head.method.is_safe() && request.is_foreign(context) {
        return Err(Refusal::CrossSite(common.unlisted()));
    }
    let is_open = || is_open(page(head.uri.path(), config.routes), config.routes);
    let Some(guard) = guard.filter(|_| !is_open()) else {
        return Ok(Identified::Known(None));
    };
    if let Some(link) = signed_link(head.uri.query())
        && let Some(kind) = link_kind(&head.method)
        && let Ok(key) = key(head.uri.path(), segments(config))
    {
        let principal = guard.authenticate_link(link, kind, key.as_str())?;
        return Ok(Identified::Known(Some(principal)));
    }
    guard.identify(common.presented, client, proven)
}

/// The operation of the client, narrowed to what its `principal` permits. The principal goes to the `context` of the response.
pub fn parse_request<'a>(
    request: RequestHead<'a>,
    principal: Option<Rc<Principal>>,
    config: &ServiceConfig,
    context: &mut ResponseContext,
) -> Result<Operation<'a>, Refusal> {
    // A browser sends an ambient proof by itself, for the request of any page.
    let is_ambient = principal.as_ref().is_some_and(|it| it.is_ambient());
    if is_ambient && request.is_untrusted(context, config) {
        return Err(Refusal::CrossSite(request.common.unlisted()));
    }
    context.principal = principal;
    let mut operation = operation(request, config)?;
    if let Some(principal) = &context.principal {
        principal.permit(&mut operation)?;
    }
    Ok(operation)
}

fn subscription(
    head: &Parts,
    len: Option<u64>,
    client: Client,
    config: &ServiceConfig,
) -> Result<WatchRequest, Refusal> {
    match head.method {
        Method::GET => {
            let is_allowed = |headers: &_| allowed_origin(headers, config).is_some();
            Ok(WatchRequest::of(head, len, client.by_tls, is_allowed)?)
        }
        _ if config.compat => Err(Refusal::Method),
        // No HEAD: the response has no end.
        _ => Err(Refusal::PageMethod("GET")),
    }
}

fn operation<'a>(
    request: RequestHead<'a>,
    config: &ServiceConfig,
) -> Result<Operation<'a>, Refusal> {
    let RequestHead {
        head,
        len,
        client,
        common,
    } = request;
    if head.uri.path() == WATCH && config.routes != Routes::Pages {
        return subscription(head, len, client, config).map(Operation::Watch);
    }
    if let Some(page) = page(head.uri.path(), config.routes) {
        match head.method {
            Method::GET | Method::HEAD => {
                return Ok(Operation::Page(
                    page,
                    MetricsFormat::preferred(&head.headers),
                ));
            }
            _ if !config.compat => return Err(Refusal::PageMethod("GET, HEAD")),
            _ => {}
        }
    }
    if config.routes == Routes::Pages {
        return Err(Refusal::NoSuchPath);
    }
    if head.uri.path() == FORMS && !config.compat {
        return form(head, config);
    }
    if let Some(id) = upload(head.uri.path())
        && config.resumes()
    {
        return upload_resource(id, head, len);
    }
    match head.method {
        Method::GET | Method::HEAD => get(head, common, config),
        Method::PUT => put(head, len, common, config),
        // Clients that only know resumable uploads create them by POST.
        Method::POST if common.resumable && config.resumes() => put(head, len, common, config),
        Method::DELETE => {
            let key = changed(head.uri.path(), config)?;
            if config.read_only {
                return Err(Refusal::ReadOnly);
            }
            let preconditions = preconditions(&head.headers);
            Ok(Operation::Delete { key, preconditions })
        }
        Method::OPTIONS if !config.compat => Ok(options(head, Target::Values)),
        _ => Err(Refusal::Method),
    }
}

fn options(head: &Parts, target: Target) -> Operation<'static> {
    let fields = head.headers.get(ACCESS_CONTROL_REQUEST_HEADERS);
    Operation::Options(OptionsRequest {
        is_preflight: head.headers.contains_key(ACCESS_CONTROL_REQUEST_METHOD),
        fields: fields.cloned().map(Box::new),
        target,
    })
}

/// A request to the path that takes forms with files.
fn form(head: &Parts, config: &ServiceConfig) -> Result<Operation<'static>, Refusal> {
    match head.method {
        Method::OPTIONS => Ok(options(head, Target::Forms)),
        Method::POST if config.read_only => Err(Refusal::ReadOnly),
        Method::POST => {
            needs_length(head)?;
            let request = FormRequest::of(head, ui::is_preferred(&head.headers))?;
            Ok(Operation::Form(Box::new(request.ok_or(Refusal::NoForm)?)))
        }
        _ => Err(Refusal::PageMethod(Target::Forms.methods(config))),
    }
}

fn upload_resource(
    id: Result<UploadId, Refusal>,
    head: &Parts,
    len: Option<u64>,
) -> Result<Operation<'static>, Refusal> {
    if head.method == Method::OPTIONS {
        return Ok(options(head, Target::Upload));
    }
    needs_length(head)?;
    let request = UploadRequest::of(&head.method, &head.headers, len)?;
    Ok(Operation::Upload(id?, request))
}

/// An HTTP/1.0 body without a length would end with the connection, as a cut-off one does.
fn needs_length(head: &Parts) -> Result<(), Refusal> {
    let has_body = matches!(head.method, Method::PUT | Method::POST | Method::PATCH);
    let has_length = || head.headers.contains_key(CONTENT_LENGTH);
    if has_body && head.version < Version::HTTP_11 && !has_length() {
        return Err(Refusal::LengthRequired);
    }
    Ok(())
}

fn get<'a>(
    head: &'a Parts,
    common: &CommonHeaders<'_>,
    config: &ServiceConfig,
) -> Result<Operation<'a>, Refusal> {
    match head.uri.path() {
        "/" if config.compat => Err(Refusal::NoSuchPath),
        "/" if config.authorizes
            && let Some(operation) = session(head) =>
        {
            operation
        }
        "/" => list_request(head, String::new()),
        path => {
            if !config.compat
                && let Some(folder) = folder(path)?
            {
                return list_request(head, folder);
            }
            let key = key(path, segments(config))?;
            let has_wishes =
                common.has_read_conditions || (config.compress && common.codings_accepted);
            let options = has_wishes
                .then(|| GetOptions::of(head, config))
                .map(Box::new);
            Ok(Operation::Get {
                key,
                options,
                by_browser: (common.by_browser && !config.compat).then(|| depth(path)),
            })
        }
    }
}

/// The key at `path`, whose value is to be changed.
fn changed<'a>(path: &'a str, config: &ServiceConfig) -> Result<Key<'a>, Refusal> {
    key(path, segments(config)).map_err(|why| match why {
        Refusal::BadKey(BadKey::EmptySegment) if matches!(folder(path), Ok(Some(_))) => {
            Refusal::Folder
        }
        why => why,
    })
}

fn segments(config: &ServiceConfig) -> Segments {
    if config.compat {
        Segments::One
    } else {
        Segments::Any
    }
}

fn put<'a>(
    head: &'a Parts,
    len: Option<u64>,
    common: &CommonHeaders<'_>,
    config: &ServiceConfig,
) -> Result<Operation<'a>, Refusal> {
    let key = changed(head.uri.path(), config).map_err(|why| match why {
        Refusal::NoSuchPath => Refusal::NoKey,
        other => other,
    })?;
    if config.read_only {
        return Err(Refusal::ReadOnly);
    }
    check_depth(&key, config.limits.max_key_depth)?;
    if config.compat && len.is_none_or(|len| len == 0) {
        return Err(Refusal::NothingToStore);
    }
    needs_length(head)?;
    let limit = config.limits.max_body;
    if len.is_some_and(|len| len > limit) {
        return Err(Refusal::TooLarge { limit });
    }
    let mut options = if common.has_only_plain_fields {
        Box::default()
    } else {
        Box::new(PutOptions::of(&head.headers, config)?)
    };
    if common.resumable && config.resumes() {
        options.creation = Creation::of(head, len, config)?;
    }
    if head.method == Method::POST && options.creation.is_none() {
        return Err(Refusal::Method);
    }
    Ok(Operation::Put { key, len, options })
}

/// The Origin of the request, if it is allowed.
fn allowed_origin(headers: &HeaderMap, config: &ServiceConfig) -> Option<HeaderValue> {
    let origin = headers.get(ORIGIN)?;
    let is_allowed = config.allowed.origins.allow(origin.as_bytes());
    is_allowed.then(|| origin.clone())
}
