//! The parser: from method, target and headers to an [`Operation`], or a [`Refusal`].
//!
//! The fields of a request are read here and in the pure functions that this file calls. A request that can be refused
//! by its head, without the store, is refused here, before a byte of the body is read. A body of MKCOL is refused
//! later, once it has come. Knows no status.

use std::rc::Rc;
use std::sync::Arc;

use hyper::header::{
    ACCESS_CONTROL_REQUEST_HEADERS, ACCESS_CONTROL_REQUEST_METHOD, ALLOW, CONTENT_LENGTH,
    HeaderValue, ORIGIN,
};
use hyper::http::request::Parts;
use hyper::{Method, StatusCode, Version};

use crate::http::admin::{Admin, MetricsFormat, PageRequest, page};
use crate::http::archives;
use crate::http::auth::authorize::link_kind;
use crate::http::auth::credentials::{AuthCache, Principal, signed_link};
use crate::http::auth::{CERTIFICATE_ENDED, Guard, Identified};
use crate::http::body::request::RequestBody;
use crate::http::forms::{FormRequest, NO_FORM};
use crate::http::head::CommonHeaders;
use crate::http::head::accept::prefers_problem;
use crate::http::head::client::Client;
use crate::http::head::path::{FORMS, WATCH, check_depth, folder, key};
use crate::http::head::query::QueryFields;
use crate::http::head::syntax::depth;
use crate::http::listing::perform::session;
use crate::http::listing::site::get_below;
use crate::http::refusal::Refusal;
use crate::http::refusal::common::{
    BAD_KEY, NO_SUCH_PATH, READ_ONLY, ROOT, no_method, no_page_method, too_large,
};
use crate::http::refusal::kind::{Flag, Kind};
use crate::http::request::ResponseContext;
use crate::http::response::problem::ErrorForm;
use crate::http::service::changes::Delete;
use crate::http::service::operation::{Operation, OptionsRequest, Target};
use crate::http::service_config::{Routes, ServiceConfig};
use crate::http::share::{self, ShareRequest};
use crate::http::ui;
use crate::http::uploads::perform::{CreateUpload, UseUpload};
use crate::http::uploads::{UploadCreation, UploadRequest, upload};
use crate::http::values::conditional::preconditions_of_write;
use crate::http::values::content_names::named_sha256;
use crate::http::values::get::GetOptions;
use crate::http::values::other_store;
use crate::http::values::put::PutOptions;
use crate::http::watch::request::WatchRequest;
use crate::store::{Digests, Key, UploadId};

pub mod explained;
mod folders;

const LENGTH_REQUIRED: &Kind = &Kind::new(StatusCode::LENGTH_REQUIRED, "length-required");
const IF_FIELD: &Kind = &Kind::new(StatusCode::NOT_IMPLEMENTED, "if-field");
/// With `--compat` alone.
const NOTHING_TO_STORE: &Kind = &Kind::new(StatusCode::NOT_MODIFIED, "").flags(&[Flag::Empty]);
const IS_FOLDER: Refusal = Refusal::new(
    BAD_KEY,
    "this is the address of a folder, which has no value: name a key in it, or make the folder with MKCOL",
);

/// The head of a request, with the findings in it.
pub struct RequestHead<'a> {
    pub head: &'a Parts,
    path: &'a str,
    query: QueryFields<'a>,
    /// The length of the body, if the framing has it.
    len: Option<u64>,
    pub client: Client,
    pub common: CommonHeaders<'a>,
    config: &'a ServiceConfig,
    /// None where it is only asked what the request needs.
    admin: Option<&'a Arc<Admin>>,
}

impl<'a> RequestHead<'a> {
    pub fn new(
        head: &'a Parts,
        body: &RequestBody,
        client: Client,
        config: &'a ServiceConfig,
        admin: &'a Arc<Admin>,
    ) -> Self {
        Self {
            head,
            path: head.uri.path(),
            query: QueryFields::of(head.uri.query()),
            len: body.len(),
            client,
            common: CommonHeaders::of(head),
            config,
            admin: Some(admin),
        }
    }

    /// The context of the response, before the client is authenticated.
    pub fn response_context(&self) -> ResponseContext {
        let Self { head, common, .. } = self;
        let has_page = || common.by_browser && !self.config.compat;
        ResponseContext {
            errors: ErrorForm {
                problem: common.wants_problem_json && prefers_problem(&head.headers),
                page: (has_page() && ui::is_preferred(&head.headers)).then(|| depth(self.path)),
                of_store: common.of_store || other_store::is_signed(common.presented),
            },
            principal: None,
            origin: self.allowed_origin(),
        }
    }

    /// The Origin of the request, if it is allowed.
    fn allowed_origin(&self) -> Option<HeaderValue> {
        let origins = &self.config.allowed.origins;
        if origins.is_empty() {
            return None;
        }
        let origin = self.head.headers.get(ORIGIN)?;
        origins.allow(origin.as_bytes()).then(|| origin.clone())
    }

    /// Authenticates the client by its credentials, or by what its connection has proved. An invalid head is refused
    /// first.
    pub fn identify(
        &self,
        guard: Option<&Guard>,
        proven: &AuthCache,
        context: &ResponseContext,
    ) -> Result<Identified, Refusal> {
        let (head, common, config) = (self.head, &self.common, self.config);
        if proven.has_ended() {
            return Err(CERTIFICATE_ENDED);
        }
        common.check(head, self.client, &config.allowed.hosts)?;
        other_store::check(
            head,
            &self.query,
            common.presented,
            common.of_store,
            config.authorizes,
        )?;
        let is_foreign =
            || context.origin.is_none() && common.is_foreign(self.client, &head.headers);
        if !head.method.is_safe() && is_foreign() {
            return Err(common.unlisted().cross_site());
        }
        let page = || page(self.path, config.routes);
        let is_open = || page().is_some_and(|page| page.is_open(config.routes));
        let Some(guard) = guard.filter(|_| !is_open()) else {
            return Ok(Identified::Known(None));
        };
        if let Some(link) = signed_link(&self.query)
            && let Some(kind) = link_kind(&head.method)
            && let Ok(key) = self.key()
        {
            let principal = guard.authenticate_link(link, kind, key.as_str())?;
            return Ok(Identified::Known(Some(principal)));
        }
        guard.identify(common.presented, self.client, proven)
    }

    /// The operation, narrowed to what the `principal` permits. The principal goes to the `context` of the response.
    pub fn operation_for(
        &self,
        principal: Option<Rc<Principal>>,
        context: &mut ResponseContext,
    ) -> Result<Operation<'a>, Refusal> {
        // A browser sends ambient credentials by itself, with the request of any page.
        let is_ambient = principal.as_ref().is_some_and(|it| it.is_ambient());
        let trusts = |origin: &HeaderValue| self.config.allowed.origins.trust(origin.as_bytes());
        let is_trusted = || context.origin.as_ref().is_some_and(trusts);
        if is_ambient && !is_trusted() && self.common.is_foreign(self.client, &self.head.headers) {
            return Err(self.common.unlisted().cross_site());
        }
        context.principal = principal;
        let mut operation = self.operation()?;
        if let Some(principal) = &context.principal {
            operation.permit(principal)?;
        }
        Ok(operation)
    }

    fn operation(&self) -> Result<Operation<'a>, Refusal> {
        let (head, config) = (self.head, self.config);
        if self.path == WATCH && config.routes != Routes::Pages {
            return self.watch();
        }
        if let Some(page) = page(self.path, config.routes) {
            match head.method {
                Method::GET | Method::HEAD => {
                    let admin = self.admin.cloned();
                    let format = MetricsFormat::preferred(&head.headers);
                    return Ok(Operation::other(PageRequest {
                        admin,
                        page,
                        format,
                    }));
                }
                Method::OPTIONS if !config.compat => return Ok(self.options(Target::Page)),
                _ if !config.compat => {
                    return Err(no_page_method(Target::Page.methods(config)));
                }
                _ => {}
            }
        }
        if config.routes == Routes::Pages {
            return Err(NO_SUCH_PATH);
        }
        if self.path == FORMS && !config.compat {
            return self.form();
        }
        if let Some(id) = upload(self.path)
            && config.resumes()
        {
            return self.upload(id);
        }
        match head.method {
            Method::GET | Method::HEAD => self.get(),
            Method::PUT => self.put(),
            // Before uploads: with the fields of one, the value would be replaced.
            Method::POST if !config.compat && self.query.resembles(share::PARAMETERS) => {
                Ok(Operation::other(self.share()?))
            }
            // Clients that only know resumable uploads create them by POST.
            Method::POST if self.common.resumable && config.resumes() => self.put(),
            Method::DELETE if self.is_folder() => self.remove_folder(),
            Method::DELETE if self.path == "/" && !config.compat => Err(ROOT),
            Method::DELETE => {
                let key = self.key()?.into_owned();
                if config.read_only {
                    return Err(READ_ONLY);
                }
                self.refuses_if()?;
                let preconditions = preconditions_of_write(&head.headers);
                Ok(Operation::other(Delete { key, preconditions }))
            }
            Method::OPTIONS if !config.compat => Ok(self.options(self.target())),
            _ => self.extension(),
        }
    }

    fn share(&self) -> Result<ShareRequest, Refusal> {
        let key = self.changed_key()?.into_owned();
        ShareRequest::of(self.head, &self.query, key, self.client, self.config)
    }

    fn watch(&self) -> Result<Operation<'a>, Refusal> {
        match self.head.method {
            Method::GET => {
                let is_allowed = || self.allowed_origin().is_some();
                let by_https = self.client.by_https(&self.head.headers);
                let asked =
                    WatchRequest::of(self.head, &self.query, self.len, by_https, is_allowed)?;
                Ok(Operation::Watch(asked))
            }
            _ if self.config.compat => Err(self.refuse_method()),
            Method::OPTIONS => Ok(self.options(Target::Watch)),
            _ => Err(no_page_method(Target::Watch.methods(self.config))),
        }
    }

    /// The kind of target that a path outside of the server's own is.
    fn target(&self) -> Target {
        let shares = self.query.has_any(share::PARAMETERS);
        if self.config.authorizes && shares && self.key().is_ok() {
            return Target::Shared;
        }
        Target::Values
    }

    fn refuse_method(&self) -> Refusal {
        match self.config {
            // The C server had no Allow.
            config if config.compat && config.read_only => no_method("GET, HEAD"),
            config if config.compat => no_method("GET, HEAD, PUT, DELETE"),
            config => {
                let methods = self.target().methods(config);
                no_method(methods).with(ALLOW, HeaderValue::from_static(methods))
            }
        }
    }

    fn options(&self, target: Target) -> Operation<'static> {
        let headers = &self.head.headers;
        let fields = headers.get(ACCESS_CONTROL_REQUEST_HEADERS);
        Operation::other(OptionsRequest {
            is_preflight: headers.contains_key(ACCESS_CONTROL_REQUEST_METHOD),
            fields: fields.cloned().map(Box::new),
            target,
        })
    }

    /// A request to the path that takes forms with files.
    fn form(&self) -> Result<Operation<'static>, Refusal> {
        let (head, config) = (self.head, self.config);
        match head.method {
            Method::OPTIONS => Ok(self.options(Target::Forms)),
            Method::POST if config.read_only => Err(READ_ONLY),
            Method::POST => {
                self.needs_length()?;
                self.refuses_if()?;
                let request = FormRequest::of(head, ui::is_preferred(&head.headers))?;
                Ok(Operation::other(request.ok_or(NO_FORM)?))
            }
            _ => Err(no_page_method(Target::Forms.methods(config))),
        }
    }

    /// A request to an upload resource.
    fn upload(&self, id: Result<UploadId, Refusal>) -> Result<Operation<'static>, Refusal> {
        let head = self.head;
        if head.method == Method::OPTIONS {
            return Ok(self.options(Target::Upload));
        }
        self.needs_length()?;
        if !head.method.is_safe() {
            self.refuses_if()?;
        }
        let request = UploadRequest::of(&head.method, &head.headers, self.len)?;
        Ok(Operation::other(UseUpload(id?, request)))
    }

    /// An HTTP/1.0 body without a length would end with the connection, as a cut-off one does.
    fn needs_length(&self) -> Result<(), Refusal> {
        let head = self.head;
        let has_body = matches!(head.method, Method::PUT | Method::POST | Method::PATCH);
        let has_length = || head.headers.contains_key(CONTENT_LENGTH);
        if has_body && head.version < Version::HTTP_11 && !has_length() {
            return Err(LENGTH_REQUIRED.because("a body over HTTP/1.0 needs a Content-Length"));
        }
        Ok(())
    }

    /// Refuses a condition on the locks and states of `WebDAV` (RFC 4918, section 10.4), which this server cannot test.
    fn refuses_if(&self) -> Result<(), Refusal> {
        if !self.config.compat && self.head.headers.contains_key("if") {
            return Err(IF_FIELD.because(
                "this server has none of the locks and states that the field If of WebDAV asks for: nothing was done; If-Match asks for a version",
            ));
        }
        Ok(())
    }

    fn get(&self) -> Result<Operation<'a>, Refusal> {
        let (head, common, config) = (self.head, &self.common, self.config);
        match self.path {
            "/" if config.compat => Err(NO_SUCH_PATH),
            "/" if config.authorizes
                && let Some(sign_in) = session(&self.query)? =>
            {
                Ok(Operation::other(sign_in))
            }
            "/" => self.below(""),
            path => {
                if !config.compat
                    && let Some(folder) = folder(path)?
                {
                    return self.below(&folder);
                }
                let key = self.key()?;
                let by_browser = (common.by_browser && !config.compat).then(|| depth(path));
                if !config.sites.is_empty()
                    && let Some(asked) = get_below(head, &key, by_browser, config)
                {
                    return Ok(Operation::other(asked));
                }
                let has_options = common.has_read_conditions
                    || (config.compress && common.codings_accepted)
                    || (by_browser.is_some() && !self.query.is_empty());
                let options = has_options.then(|| Box::new(GetOptions::of(head, config)));
                Ok(Operation::Get {
                    key,
                    options,
                    by_browser,
                })
            }
        }
    }

    /// The key at the path.
    fn key(&self) -> Result<Key<'a>, Refusal> {
        key(self.path, self.config.compat)
    }

    /// The key at the path, whose value is to be changed.
    fn changed_key(&self) -> Result<Key<'a>, Refusal> {
        self.key().map_err(|why| {
            let is_folder = why.kind == BAD_KEY && matches!(folder(self.path), Ok(Some(_)));
            if is_folder { IS_FOLDER } else { why }
        })
    }

    fn put(&self) -> Result<Operation<'a>, Refusal> {
        let (head, len, common, config) = (self.head, self.len, &self.common, self.config);
        let key = match self.changed_key() {
            Ok(key) => key,
            Err(why) => return self.unpack(why),
        };
        if config.read_only {
            return Err(READ_ONLY);
        }
        check_depth(&key, config.limits.max_key_depth)?;
        if !self.query.is_empty() && !config.compat {
            let query = &self.query;
            query.check(archives::OF_VALUE, &[archives::OF_TAR])?;
        }
        if config.compat && len.is_none_or(|len| len == 0) {
            return Err(
                NOTHING_TO_STORE.because("nothing was stored: PUT needs a Content-Length above 0")
            );
        }
        self.needs_length()?;
        let limit = config.limits.max_body;
        if len.is_some_and(|len| len > limit) {
            return Err(too_large(limit));
        }
        let mut options = if common.has_stored_fields {
            self.refuses_if()?;
            Box::new(PutOptions::of(&head.headers, config)?)
        } else {
            Box::default()
        };
        let creation = if common.resumable && config.resumes() {
            UploadCreation::of(head, len, config)?
        } else {
            None
        };
        let named = named_sha256(&key, config)?;
        // The digest of a part is its own; the last part has the whole value compared.
        let is_whole = creation.as_ref().is_none_or(|it| it.part.is_last);
        if named.is_some() && is_whole {
            options.expected = options.expected.and(Digests::of_sha256(named))?;
        }
        if head.method == Method::POST && creation.is_none() {
            return Err(self.refuse_method());
        }
        let key = key.into_owned();
        Ok(match creation {
            Some(creation) => Operation::other(CreateUpload {
                key,
                options,
                creation: *creation,
            }),
            None => Operation::Put { key, len, options },
        })
    }
}
