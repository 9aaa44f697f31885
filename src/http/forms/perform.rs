//! POST of a form, to the path that takes them: its files are received and stored one after the other, each as a PUT
//! stores a value.
//!
//! Nothing is stored of a file that is truncated or refused, and the response names the files stored before it. multer
//! finds the ends of parts. It buffers all bytes that it gets, and does not limit the head of a part. So it gets one
//! frame of the body at a time, only when it needs more, and few frames for a head: at most two frames and
//! [`MAX_PART_HEAD`] are in memory.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::mpsc::{Sender, TryRecvError, channel};
use std::task::{Context, Poll, Waker};
use std::time::SystemTime;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::Stream;
use futures_util::stream::poll_fn;
use hyper::header::LOCATION;
use hyper::{Method, StatusCode};
use multer::{Field, Multipart};

use crate::http::body::request::{FrameSource, Received};
use crate::http::forms::{
    FormPart, FormRequest, FormState, MALFORMED, MAX_TEXT, NO_FORM, Role, StoredFile, bad_form,
    bad_text, check_digests, json,
};
use crate::http::head::syntax::{encoded, put};
use crate::http::refusal::common::no_page_method;
use crate::http::refusal::{BulkProgress, BulkWork, Refusal};
use crate::http::request::RequestContext;
use crate::http::request::head::RequestHead;
use crate::http::response::{JSON, Outcome, Reply, empty, unstored};
use crate::http::ui;
use crate::http::values::put::{PutRequest, receive_part};
use crate::http::verb::{BodyUse, OptionsRequest, Parsed, Verb, parsed};
use crate::store::bounds::Together;
use crate::store::{Key, Preconditions};

/// About the longest head of a part, in bytes.
const MAX_PART_HEAD: usize = 16 * 1024;

/// The longest epilogue that is received, in bytes.
const MAX_EPILOGUE: usize = 64 * 1024;

/// The path that takes forms.
const PATH: &str = "/-/upload";

/// The request for the path that takes forms.
pub fn form(asked: &RequestHead<'_>) -> Parsed {
    let (head, config) = (asked.head, asked.config);
    if asked.path != PATH || config.compat {
        return Ok(None);
    }
    let methods = if config.read_only {
        "OPTIONS"
    } else {
        "POST, OPTIONS"
    };
    match head.method {
        Method::OPTIONS => parsed(OptionsRequest::of(asked, methods)),
        Method::POST => {
            asked.config.may_change()?;
            asked.needs_length()?;
            asked.refuses_if()?;
            let request = FormRequest::of(head, ui::is_preferred(&head.headers))?;
            parsed(request.ok_or(NO_FORM)?)
        }
        _ => Err(no_page_method(methods)),
    }
}

/// A form whose files are being stored.
struct FormUpload<'r, 'f, 'b> {
    request: &'r RequestContext,
    form: Form<'f, Received<'b>>,
    preconditions: Option<Preconditions>,
    state: FormState,
    /// The key of the file under way.
    file: Option<Key<'static>>,
    stored: Vec<StoredFile>,
    /// The files so far.
    together: Together,
}

#[async_trait(?Send)]
impl Verb for FormRequest {
    fn body(&self) -> BodyUse {
        BodyUse::Values
    }

    fn of_each(&self) -> Option<&'static str> {
        Some("PUT")
    }

    async fn perform(
        self: Box<Self>,
        request: &RequestContext,
        body: &mut Received<'_>,
    ) -> Outcome {
        let mut upload = FormUpload {
            request,
            form: Form::new(self.boundary, body),
            preconditions: self.preconditions,
            state: FormState::default(),
            file: None,
            stored: Vec::new(),
            together: Together::default(),
        };
        let received = upload.store_files().await;
        let (folder, stored) = (upload.state.folder(), &upload.stored);
        if let Err(why) = received {
            return Err(why.after(BulkProgress {
                at: upload.file.map(|file| file.as_str().to_owned()),
                keys: stored.iter().map(|file| file.key.clone()).collect(),
                ..BulkProgress::of(BulkWork::Form(folder.to_owned()))
            }));
        }
        Ok(if self.wants_page {
            // Relative to where forms are sent, so that it holds behind a proxy that serves this server below a path.
            let to = format!("../{}", encoded(folder));
            Reply::from(empty(StatusCode::SEE_OTHER)).with(|headers| put(headers, LOCATION, to))
        } else {
            unstored(StatusCode::OK, JSON, json(stored)).into()
        })
    }
}

impl FormUpload<'_, '_, '_> {
    async fn store_files(&mut self) -> Result<(), Refusal> {
        while let Some(part) = self.form.next().await? {
            let role = self
                .state
                .role(part.disposition, part.media_type.as_deref());
            match role? {
                Role::Text(name) => {
                    let text = self.text(name).await?;
                    self.state.set(name, text)?;
                }
                Role::File(name) => {
                    let key = self.state.key(&name)?;
                    self.file = Some(key.clone().into_owned());
                    self.store(key, part.media_type, part.date).await?;
                    self.file = None;
                }
            }
        }
        self.state.end()?;
        self.form.end().await?;
        let trailers = self.form.body.trailers.as_ref();
        trailers.map_or(Ok(()), check_digests)
    }

    async fn text(&mut self, name: &'static str) -> Result<Vec<u8>, Refusal> {
        let mut text = Vec::new();
        while let Some(data) = self.form.data().await? {
            text.extend_from_slice(&data);
            if text.len() > MAX_TEXT {
                return Err(bad_text(name));
            }
        }
        Ok(text)
    }

    /// Stores the data of this part as the value of `key`.
    async fn store(
        &mut self,
        key: Key<'static>,
        media_type: Option<Box<str>>,
        modified: Option<SystemTime>,
    ) -> Result<(), Refusal> {
        // The preconditions of each file: the head's, or else that there is no value, unless the form replaces values.
        let only_new = (!self.state.replaces()).then_some(Preconditions::NEW);
        let (request, form, mut len) = (self.request, &mut self.form, 0);
        let mut put = PutRequest::of(key.clone(), &request.service.config)?;
        put.preconditions = self.preconditions.clone().or(only_new);
        put.media_type = media_type;
        if let Some(date) = modified {
            put.set_date(date);
        }
        let data = async || {
            let data = form.data().await?;
            len += data.as_ref().map_or(0, Bytes::len) as u64;
            Ok(data)
        };
        let received = receive_part(request, put, data).await?;
        if let Some(account) = request.service.store.account() {
            account.may_join(&mut self.together, key.as_str(), len)?;
        }
        let published = match received {
            Some(publishing) => {
                let published = publishing.await?;
                request.changed(&key);
                Some(published)
            }
            None => None,
        };
        self.stored.push(StoredFile { key, published });
        Ok(())
    }
}

/// A form as it arrives.
pub struct Form<'f, F> {
    body: &'f mut F,
    /// The way of the frames to multer, until the body has ended.
    frames: Option<Sender<Bytes>>,
    parts: Multipart<'static>,
    /// The part whose data is next.
    part: Option<Field<'static>>,
}

impl<'f, F: FrameSource> Form<'f, F> {
    pub fn new(boundary: String, body: &'f mut F) -> Self {
        let (frames, given) = channel();
        // After each frame the form polls again, so that none has to be woken.
        let frame = move |_: &mut Context<'_>| match given.try_recv() {
            Ok(frame) => Poll::Ready(Some(Ok::<Bytes, Infallible>(frame))),
            Err(TryRecvError::Empty) => Poll::Pending,
            Err(TryRecvError::Disconnected) => Poll::Ready(None),
        };
        Self {
            body,
            frames: Some(frames),
            parts: Multipart::new(poll_fn(frame), boundary),
            part: None,
        }
    }

    /// The next part, once the data of the one before has been taken; `None` behind the last.
    pub async fn next(&mut self) -> Result<Option<FormPart>, Refusal> {
        self.part = None;
        let mut taken = 0;
        loop {
            let mut cx = Context::from_waker(Waker::noop());
            match self.parts.poll_next_field(&mut cx) {
                Poll::Ready(Ok(Some(field))) => {
                    let part = FormPart::of(field.headers())?;
                    self.part = Some(field);
                    return Ok(Some(part));
                }
                Poll::Ready(Ok(None)) => return Ok(None),
                Poll::Ready(Err(_)) => return Err(bad_form(MALFORMED)),
                Poll::Pending if taken > MAX_PART_HEAD => {
                    return Err(bad_form("the head of a part is too long"));
                }
                Poll::Pending => taken += self.feed().await?,
            }
        }
    }

    /// The next bytes of the part, or `None` once its end has been seen.
    pub async fn data(&mut self) -> Result<Option<Bytes>, Refusal> {
        loop {
            let Some(part) = &mut self.part else {
                return Ok(None);
            };
            let mut cx = Context::from_waker(Waker::noop());
            match Pin::new(part).poll_next(&mut cx) {
                Poll::Ready(Some(Ok(data))) => return Ok(Some(data)),
                Poll::Ready(None) => return Ok(None),
                Poll::Ready(Some(Err(_))) => return Err(bad_form(MALFORMED)),
                Poll::Pending => self.feed().await?,
            };
        }
    }

    /// Receives the epilogue, to the end of the body unless that is far.
    pub async fn end(&mut self) -> Result<(), Refusal> {
        let mut taken = 0;
        while taken <= MAX_EPILOGUE {
            let Some(data) = self.body.next_frame().await? else {
                break;
            };
            taken += data.len();
        }
        Ok(())
    }

    /// Gives multer the next frame of the body, or its end; returns the length of the frame.
    async fn feed(&mut self) -> Result<usize, Refusal> {
        let frames = self.frames.take().ok_or_else(|| bad_form(MALFORMED))?;
        let Some(data) = self.body.next_frame().await? else {
            return Ok(0);
        };
        let len = data.len();
        // multer holds the other end as long as this form lasts.
        let _ = frames.send(data);
        self.frames = Some(frames);
        Ok(len)
    }
}
