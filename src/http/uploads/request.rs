//! The requests of resumable uploads: which ones are, and what each asks for. Pure.

use hyper::Method;

use crate::http::request::head::RequestHead;
use crate::http::uploads::{
    UPLOAD_METHODS, UploadCreation, UploadRequest, upload, upload_complete,
};
use crate::http::values::put::{PutRequest, put_of};
use crate::http::verb::{OptionsRequest, Parsed, parsed};
use crate::store::UploadId;

/// A PUT whose body is the first part of a value that may come in several requests.
pub struct CreateUpload {
    pub put: Box<PutRequest>,
    pub creation: UploadCreation,
}

/// A request to an upload resource.
pub struct UseUpload(pub UploadId, pub UploadRequest);

/// The request for an upload resource.
pub fn resource(asked: &RequestHead<'_>) -> Parsed {
    let (head, config) = (asked.head, asked.config);
    let Some(id) = upload(asked.path).filter(|_| config.resumes()) else {
        return Ok(None);
    };
    if head.method == Method::OPTIONS {
        return parsed(OptionsRequest::of(asked, UPLOAD_METHODS));
    }
    asked.needs_length()?;
    if !head.method.is_safe() {
        asked.refuses_if()?;
    }
    let request = UploadRequest::of(&head.method, &head.headers, asked.len)?;
    parsed(UseUpload(id?, request))
}

/// The PUT that creates an upload. Clients that only know resumable uploads create them by POST.
pub fn creation(asked: &RequestHead<'_>) -> Parsed {
    let (head, config) = (asked.head, asked.config);
    let stores = matches!(head.method, Method::PUT | Method::POST);
    if !(stores && asked.common.resumable && config.resumes()) {
        return Ok(None);
    }
    // The digest of a part is its own; the last part has the whole value compared.
    let put = put_of(asked, upload_complete(&head.headers) == Some(true))?;
    let Some(creation) = UploadCreation::of(head, asked.len, config)? else {
        return Ok(None);
    };
    let creation = *creation;
    parsed(CreateUpload { put, creation })
}
