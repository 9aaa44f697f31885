//! Resumable uploads as the plain door has them: a PUT that creates one, requests to an upload resource, and what they
//! answer. What is done is in [`parts`](super::parts).

use async_trait::async_trait;
use hyper::StatusCode;
use hyper::header::LOCATION;

use crate::access::Right;
use crate::http::auth::authorize::not_allowed;
use crate::http::auth::credentials::{AuthMethod, Principal};
use crate::http::auth::need::Need;
use crate::http::body::request::Received;
use crate::http::head::syntax::put as put_field;
use crate::http::refusal::Refusal;
use crate::http::request::RequestContext;
use crate::http::response::{Outcome, Reply, empty};
use crate::http::service_config::ServiceConfig;
use crate::http::uploads::parts::{RefusedUpload, append, begin, cancel, publish, resume};
use crate::http::uploads::request::{CreateUpload, UseUpload};
use crate::http::uploads::{
    UploadRequest, UploadState, add_limit, address, describe, describe_state, resumption_supported,
};
use crate::http::values;
use crate::http::values::put::PutRequest;
use crate::http::values::representation::{describe_stored, stored};
use crate::http::verb::Verb;
use crate::store::{Digests, Error, Resumable};

#[async_trait(?Send)]
impl Verb for CreateUpload {
    fn needs(&self) -> Vec<Need<'_>> {
        self.put.needs().collect()
    }

    fn permit(&mut self, client: &Principal) -> Result<(), Refusal> {
        self.put.permit(client)?;
        match client.by {
            // A link is for one request.
            AuthMethod::Link { .. } => Err(not_allowed(Right::Write)),
            _ => Ok(()),
        }
    }

    async fn perform(
        self: Box<Self>,
        request: &RequestContext,
        body: &mut Received<'_>,
    ) -> Outcome {
        let Self { put, creation } = *self;
        let (config, part) = (&request.service.config, creation.part);
        let can_tell = creation.wants_104 && body.can_send_interim() && config.store_resumes;
        let begun = if part.is_last && !can_tell {
            // The client never learns where it could resume.
            None
        } else {
            match begin(request, &put, part.length, creation.fields).await? {
                // All of the value is here: it needs no place among the unfinished ones.
                Err(_) if part.is_last => None,
                begun => Some(begun.map_err(Error::from)?),
            }
        };
        let Some(mut upload) = begun else {
            // A PUT like any other.
            let has_date = put.has_date();
            let published = values::put::put(request, put, body).await?;
            let state = UploadState {
                complete: true,
                ..UploadState::default()
            };
            return Ok(
                stored(published, has_date).with(|headers| describe(headers, &state, config))
            );
        };
        if can_tell {
            let address = address(upload.announce(), creation.depth);
            body.announce(resumption_supported(address, config)).await;
        }
        let appended = append(request, &mut upload, 0, &part, body).await;
        let of_value = appended.map_err(|refused| refusal(refused, config))?;
        if part.is_last {
            return complete(request, upload, Some(put), of_value).await;
        }
        let address = address(upload.announce(), creation.depth);
        Ok(Reply::from(empty(StatusCode::CREATED)).with(|headers| {
            describe_state(headers, &UploadState::of(&upload));
            put_field(headers, LOCATION, address);
            add_limit(headers, config);
        }))
    }
}

#[async_trait(?Send)]
impl Verb for UseUpload {
    fn of_each(&self) -> Option<&'static str> {
        Some("PUT")
    }

    async fn perform(
        self: Box<Self>,
        request: &RequestContext,
        body: &mut Received<'_>,
    ) -> Outcome {
        let Self(id, asked) = *self;
        let config = &request.service.config;
        let mut upload = resume(request, id).await?;
        match asked {
            UploadRequest::Offset => upload.secure().await?,
            UploadRequest::Append(offset, part) => {
                let appended = append(request, &mut upload, offset, &part, body).await;
                let of_value = appended.map_err(|refused| refusal(refused, config))?;
                if part.is_last {
                    return complete(request, upload, None, of_value).await;
                }
            }
            UploadRequest::Cancel => {
                cancel(request, &mut upload).await?;
                return Ok(empty(StatusCode::NO_CONTENT).into());
            }
        }
        let goes_on = Reply::from(empty(StatusCode::NO_CONTENT));
        Ok(goes_on.with(|headers| describe(headers, &UploadState::of(&upload), config)))
    }
}

/// Publishes `upload`, and answers that.
async fn complete(
    request: &RequestContext,
    mut upload: Resumable,
    put: Option<Box<PutRequest>>,
    of_value: Digests,
) -> Outcome {
    let config = &request.service.config;
    let published = publish(request, &mut upload, put, of_value).await;
    let published = published.map_err(|refused| refusal(refused, config))?;
    Ok(Reply::from(empty(StatusCode::OK)).with(|headers| {
        describe_stored(headers, published);
        describe(headers, &UploadState::published(&upload), config);
    }))
}

/// The refusal with the fields of the upload that was `refused`.
fn refusal(refused: RefusedUpload, config: &ServiceConfig) -> Refusal {
    let RefusedUpload { mut why, state } = refused;
    if let Some(state) = state {
        describe(&mut why.more().fields, &state, config);
    }
    why
}
