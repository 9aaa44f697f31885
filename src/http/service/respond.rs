//! What all responses have: the fields beside those of the feature that answers, among them what pages of other origins
//! may do (CORS, the Fetch standard); and the response to OPTIONS.

use async_trait::async_trait;
use hyper::body::Body as _;
use hyper::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ALLOW, CONTENT_LENGTH, HeaderMap,
    HeaderValue, ORIGIN, VARY, X_CONTENT_TYPE_OPTIONS,
};
use hyper::{Response, StatusCode};

use crate::http::body::request::Received;
use crate::http::body::response::Body;
use crate::http::fields::mark_private;
use crate::http::refusal::Refusal;
use crate::http::refusal::common::TOO_LARGE;
use crate::http::refusal::failures::NAME_TAKEN;
use crate::http::request::RequestContext;
use crate::http::request::ResponseContext;
use crate::http::response::problem::refuse;
use crate::http::response::{Outcome, Reply, empty};
use crate::http::service::operation::methods_of_existing;
use crate::http::service_config::ServiceConfig;
use crate::http::uploads;
use crate::http::verb::{OptionsRequest, Verb};

/// The response to a request, by what came of it.
pub fn render(
    result: Outcome,
    context: &ResponseContext,
    config: &ServiceConfig,
) -> Response<Body> {
    let (mut response, is_value, keeps_cache_control) = match result {
        Ok(reply) => (reply.response, reply.is_value, reply.keeps_cache_control),
        Err(refusal) => (refused(&refusal, context, config), false, false),
    };
    if response.status() == StatusCode::OK && response.body().is_end_stream() {
        // hyper leaves it out of the response to HEAD where the body is empty.
        let none = HeaderValue::from_static("0");
        response.headers_mut().insert(CONTENT_LENGTH, none);
    }
    // The headers of a value have it already, but for 304.
    let has_nosniff = is_value && response.status() != StatusCode::NOT_MODIFIED;
    let headers = response.headers_mut();
    if !has_nosniff {
        headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    }
    add_cors_headers(headers, context, config);
    if !keeps_cache_control {
        let subject = context.principal.as_ref().map(|it| &*it.subject);
        mark_private(headers, subject, is_value);
    }
    response
}

/// The response to a refused request, with what the configuration adds.
fn refused(refusal: &Refusal, context: &ResponseContext, config: &ServiceConfig) -> Response<Body> {
    let mut response = refuse(refusal, context.errors, config.compat);
    if refusal.kind == NAME_TAKEN {
        let methods = HeaderValue::from_static(methods_of_existing(config));
        response.headers_mut().insert(ALLOW, methods);
    }
    if refusal.kind == TOO_LARGE && config.announces_uploads() {
        uploads::add_limit(response.headers_mut(), config);
    }
    response
}

/// Fields of responses that pages of other origins may read.
const EXPOSED: &str = "etag, last-modified, content-encoding, content-disposition, content-range, accept-ranges, x-delete-at, x-oc-mtime, repr-digest, link, retry-after, x-request-id, \
    server-timing, location, upload-complete, upload-offset, upload-length, upload-limit";

#[async_trait(?Send)]
impl Verb for OptionsRequest {
    /// Answers the methods of a target and, to a preflight request, that a page of an allowed origin may use them with
    /// the fields that it asks for, whatever they are: each request is checked when it arrives.
    async fn perform(self: Box<Self>, request: &RequestContext, _: &mut Received<'_>) -> Outcome {
        let config = &request.service.config;
        let reply = Reply::from(empty(StatusCode::NO_CONTENT));
        Ok(reply.with(|headers| {
            let methods = HeaderValue::from_static(self.methods);
            if self.methods.split(", ").any(|method| method == "PATCH") {
                uploads::add_accept_patch(headers);
            }
            headers.insert(ALLOW, methods.clone());
            if config.announces_uploads() {
                uploads::add_limit(headers, config);
            }
            if self.is_preflight && request.context.origin.is_some() {
                headers.insert(ACCESS_CONTROL_ALLOW_METHODS, methods);
                if let Some(fields) = self.fields {
                    headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, *fields);
                }
                // An hour.
                headers.insert(ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("3600"));
            }
        }))
    }
}

/// Lets the page that asked read the response, if its origin is allowed.
fn add_cors_headers(headers: &mut HeaderMap, context: &ResponseContext, config: &ServiceConfig) {
    if let Some(origin) = &context.origin {
        let exposed = HeaderValue::from_static(EXPOSED);
        headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin.clone());
        headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, exposed);
        for name in config.kept_fields.names() {
            headers.append(ACCESS_CONTROL_EXPOSE_HEADERS, name.clone().into());
        }
    }
    if !config.allowed.origins.is_empty() {
        headers.append(VARY, ORIGIN.into());
    }
}
