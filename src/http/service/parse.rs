//! The parser of the plain door: from method, target and headers to an [`Operation`], or a [`Refusal`].
//!
//! A request that can be refused by its head, without the store, is refused here, before a byte of the body is read. A
//! body of MKCOL is refused later, once it has come. GET, HEAD and PUT of a value are matched here; what else there is
//! has a row in a [table](ROWS), and knows itself whether a request is its own. Knows no status.

use std::rc::Rc;
use std::sync::Arc;

use hyper::Method;
use hyper::header::{ALLOW, HeaderValue};

use crate::http::admin::{Admin, page, page_request};
use crate::http::auth::authorize::link_kind;
use crate::http::auth::credentials::{AuthCache, INVALID, Principal, signed_link};
use crate::http::auth::{CERTIFICATE_ENDED, Guard, Identified};
use crate::http::head::accept::prefers_problem;
use crate::http::head::client::Door;
use crate::http::head::names::AuthorizationFields;
use crate::http::head::path::{PAGES, WATCH};
use crate::http::head::syntax::depth;
use crate::http::refusal::Refusal;
use crate::http::refusal::common::{NO_SUCH_PATH, no_method, no_page_method};
use crate::http::request::ResponseContext;
use crate::http::request::head::RequestHead;
use crate::http::response::problem::ErrorForm;
use crate::http::service::operation::{Operation, methods};
use crate::http::service_config::Routes;
use crate::http::values::content_names::placed;
use crate::http::values::get::GetOptions;
use crate::http::values::other_store;
use crate::http::values::put::put_of;
use crate::http::verb::{OptionsRequest, Parsed, Row, parsed};
use crate::http::watch::request::WatchRequest;
use crate::http::{
    archives, bazel, changes, dav, folders, forms, listing, restic, s3_door, share, states, ui,
    uploads,
};

pub mod explained;

/// What this door takes beside GET, HEAD and PUT of a value. A request is that of the first row that takes it.
const ROWS: &[Row] = &[
    forms::perform::form,
    uploads::request::resource,
    // Before uploads: with the fields of one, the value would be replaced.
    share::sign::link,
    ui::perform::session,
    archives::packing,
    archives::unpacking,
    bazel::entry,
    restic::request,
    listing::site::site,
    ui::perform::listing,
    uploads::request::creation,
    states::state,
    folders::removal,
    folders::extension,
    changes::removal,
    options,
];

/// The other doors, each with what takes its requests first: those that it leaves are the plain door's.
const DOORS: &[(Door, Row)] = &[(Door::Dav, dav::verb), (Door::S3, s3_door::verb)];

/// The methods of the feed of changes: no HEAD, for the response has no end.
const OF_WATCH: &str = "GET, OPTIONS";

impl<'a> RequestHead<'a> {
    /// The context of the response, before the client is authenticated.
    pub fn response_context(&self) -> ResponseContext {
        let Self { head, common, .. } = self;
        let has_page = || common.by_browser && !self.config.compat;
        ResponseContext {
            errors: ErrorForm {
                problem: common.wants_problem_json && prefers_problem(&head.headers),
                page: (has_page() && ui::is_preferred(&head.headers)).then(|| depth(self.path)),
                of_store: common.of_store || other_store::is_signed(common.presented),
                by_door: (self.client.door == Door::S3).then_some(s3_door::render),
            },
            principal: None,
            origin: self.allowed_origin(),
        }
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
        let is_s3 = self.client.door == Door::S3;
        if !is_s3 {
            other_store::check(
                head,
                &self.query,
                common.presented,
                common.of_store,
                config.authorizes,
            )?;
        }
        let is_foreign =
            || context.origin.is_none() && common.is_foreign(self.client, &head.headers);
        if !head.method.is_safe() && is_foreign() {
            return Err(common.unlisted().cross_site());
        }
        if is_s3 {
            return s3_door::signature::identify(self, guard, proven);
        }
        if let (Some(link), Some(guard)) = (self.link, guard) {
            let signed = link.signed.clone().ok_or(INVALID);
            let principal = guard.authenticate_link(signed, link.kind, &link.folder)?;
            return Ok(Identified::Known(Some(principal)));
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
        guard.identify(common.presented, self.user(), self.client, proven)
    }

    /// The user whom a trusted proxy has signed on.
    pub fn user(&self) -> AuthorizationFields<'a> {
        let field = self.config.proxy_user_header.as_ref();
        let user = field.map(|field| self.client.signed_on(field, &self.head.headers));
        user.unwrap_or_default()
    }

    /// The operation, narrowed to what the `principal` permits. The principal goes to the `context` of the response.
    pub fn operation_for(
        &self,
        principal: Option<Rc<Principal>>,
        context: &mut ResponseContext,
        admin: &Arc<Admin>,
    ) -> Result<Operation<'a>, Refusal> {
        // A browser sends ambient credentials by itself, with the request of any page.
        let is_ambient = principal.as_ref().is_some_and(|it| it.is_ambient());
        let trusts = |origin: &HeaderValue| self.config.allowed.origins.trust(origin.as_bytes());
        let is_trusted = || context.origin.as_ref().is_some_and(trusts);
        if is_ambient && !is_trusted() && self.common.is_foreign(self.client, &self.head.headers) {
            return Err(self.common.unlisted().cross_site());
        }
        context.principal = principal;
        let mut operation = self.operation(Some(admin))?;
        if let Some(principal) = &context.principal {
            operation.permit(principal)?;
        }
        Ok(operation)
    }

    /// The operation. Without an `admin` it is only asked what the request needs.
    fn operation(&self, admin: Option<&Arc<Admin>>) -> Result<Operation<'a>, Refusal> {
        if self.client.door != Door::Plain
            && self.config.routes != Routes::Pages
            && let Some((_, row)) = DOORS.iter().find(|(door, _)| *door == self.client.door)
            && let Some(verb) = row(self)?
        {
            return Ok(Operation::Other(verb));
        }
        let is_own = self.path.starts_with(PAGES) || self.config.routes == Routes::Pages;
        if is_own && let Some(own) = self.own(admin)? {
            return Ok(own);
        }
        // No row takes the other requests for a value, so that these pass none.
        let may_be_other = is_own
            || self.head.method == Method::PUT && (self.common.resumable || !self.query.is_empty());
        if !may_be_other && let Some(value) = self.value()? {
            return Ok(value);
        }
        for row in ROWS {
            if let Some(verb) = row(self)? {
                return Ok(Operation::Other(verb));
            }
        }
        self.value()?.ok_or_else(|| self.refuse_method())
    }

    /// The GET, HEAD or PUT of a value.
    fn value(&self) -> Result<Option<Operation<'a>>, Refusal> {
        match self.head.method {
            Method::GET | Method::HEAD => self.get(),
            Method::PUT => Ok(Some(Operation::Put(put_of(self, true)?))),
            _ => Ok(None),
        }
    }

    /// The GET of a value; `None` where it is of a folder, of a site or of an action cache.
    fn get(&self) -> Result<Option<Operation<'a>>, Refusal> {
        let (head, common, config) = (self.head, &self.common, self.config);
        if self.folder()?.is_some() {
            return Ok(None);
        }
        let mut key = self.key()?;
        if config.reads_by_rows {
            if let Some(place) = placed(&key, config) {
                key = place;
            } else if config.sites.below(key.as_str()).is_some()
                || config.action_results.has(key.as_str())
            {
                return Ok(None);
            }
        }
        let by_browser = (common.by_browser && !config.compat).then(|| depth(self.path));
        let has_options = common.has_read_conditions
            || (config.compress && common.codings_accepted)
            || (by_browser.is_some() && !self.query.is_empty());
        let options = has_options.then(|| Box::new(GetOptions::of(head, config)));
        Ok(Some(Operation::Get {
            key,
            options,
            by_browser,
        }))
    }

    /// What the dispatcher answers with what it has itself: the feed of changes, and the server's own pages.
    fn own(&self, admin: Option<&Arc<Admin>>) -> Result<Option<Operation<'a>>, Refusal> {
        let routes = self.config.routes;
        if self.path == WATCH && routes != Routes::Pages {
            return self.watch().map(Some);
        }
        match page_request(self, admin)? {
            Some(page) => Ok(Some(Operation::Other(page))),
            None if routes == Routes::Pages => Err(NO_SUCH_PATH),
            None => Ok(None),
        }
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
            Method::OPTIONS => Ok(Operation::Other(Box::new(OptionsRequest::of(
                self, OF_WATCH,
            )))),
            _ => Err(no_page_method(OF_WATCH)),
        }
    }

    /// True where a link to share may be asked for.
    fn shares(&self) -> bool {
        self.config.authorizes && self.query.has_any(share::PARAMETERS) && self.key().is_ok()
    }

    fn refuse_method(&self) -> Refusal {
        match self.config {
            // The C server had no Allow.
            config if config.compat && config.read_only => no_method("GET, HEAD"),
            config if config.compat => no_method("GET, HEAD, PUT, DELETE"),
            config => {
                let methods = methods(config, self.shares());
                no_method(methods).with(ALLOW, HeaderValue::from_static(methods))
            }
        }
    }
}

/// OPTIONS of a path of values.
fn options(asked: &RequestHead<'_>) -> Parsed {
    if asked.head.method != Method::OPTIONS || asked.config.compat {
        return Ok(None);
    }
    let methods = methods(asked.config, asked.shares());
    parsed(OptionsRequest::of(asked, methods))
}
