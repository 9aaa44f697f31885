//! A form with files as it arrives: what its head says, and its parts one after the other.
//!
//! multer finds where parts begin and end. It takes all bytes that it can get, and the head of a part may be of any length to
//! it. So it is given one frame of the body at a time, when it has found nothing in what it has, and few for a head: at most
//! two frames and [`MAX_PART_HEAD`] are in memory.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use futures_util::Stream;
use hyper::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use hyper::http::request::Parts;
use multer::{Field, Multipart};

use crate::http::body::request::Received;
use crate::http::forms::parts::{BadForm, Disposition};
use crate::http::refusal::rejection::Rejection;
use crate::http::ui;
use crate::http::values::conditional::Preconditions;
use crate::http::values::media;

/// About the longest head of a part, in bytes.
const MAX_PART_HEAD: usize = 16 * 1024;

/// The longest delimiter (RFC 2046, section 5.1.1).
const MAX_BOUNDARY: usize = 70;

/// As much as may follow the last delimiter, in bytes.
const MAX_EPILOGUE: usize = 64 * 1024;

/// The head of a form.
#[derive(Debug)]
pub struct FormRequest {
    pub boundary: String,
    /// They are decided for each file.
    pub preconditions: Option<Preconditions>,
    /// The answer is for a person, who goes on to the page of the folder.
    pub wants_page: bool,
}

impl FormRequest {
    pub fn of(head: &Parts) -> Result<Self, Rejection> {
        let media_type = head.headers.get(CONTENT_TYPE);
        let media_type = media_type.and_then(|value| value.to_str().ok());
        let boundary = media_type.and_then(|value| multer::parse_boundary(value).ok());
        let is_good = |boundary: &String| (1..=MAX_BOUNDARY).contains(&boundary.len());
        Ok(Self {
            boundary: boundary.filter(is_good).ok_or(Rejection::NoForm)?,
            preconditions: Preconditions::of(&head.headers).filter(Preconditions::are_of_writes),
            wants_page: ui::is_preferred(&head.headers),
        })
    }
}

/// A part of a form, without its data.
#[derive(Debug)]
pub struct Part {
    pub disposition: Disposition,
    pub media_type: Option<Box<str>>,
}

/// Where the bytes of a form come from.
pub trait Frames {
    /// The next ones, or `None` at the end.
    fn next_frame(&mut self) -> impl Future<Output = Result<Option<Bytes>, Rejection>>;
}

impl Frames for Received<'_> {
    async fn next_frame(&mut self) -> Result<Option<Bytes>, Rejection> {
        self.next().await
    }
}

/// A form as it arrives.
pub struct Form<'f, F> {
    body: &'f mut F,
    frame: NextFrame,
    parts: Multipart<'static>,
    /// The part whose data comes.
    part: Option<Field<'static>>,
}

impl<'f, F: Frames> Form<'f, F> {
    pub fn new(boundary: String, body: &'f mut F) -> Self {
        let frame = NextFrame::default();
        Self {
            body,
            parts: Multipart::new(frame.clone(), boundary),
            frame,
            part: None,
        }
    }

    /// The next part, once the data of the one before has been taken; `None` behind the last.
    pub async fn next(&mut self) -> Result<Option<Part>, Rejection> {
        self.part = None;
        let mut taken = 0;
        loop {
            let mut cx = Context::from_waker(Waker::noop());
            match self.parts.poll_next_field(&mut cx) {
                Poll::Ready(Ok(Some(field))) => {
                    let part = part(&field)?;
                    self.part = Some(field);
                    return Ok(Some(part));
                }
                Poll::Ready(Ok(None)) => return Ok(None),
                Poll::Ready(Err(_)) => return Err(BadForm::Malformed.into()),
                Poll::Pending if taken > MAX_PART_HEAD => return Err(BadForm::HeadTooLong.into()),
                Poll::Pending => taken += self.receive().await?,
            }
        }
    }

    /// The next bytes of the part, or `None` once its end has been seen.
    pub async fn data(&mut self) -> Result<Option<Bytes>, Rejection> {
        loop {
            let Some(part) = &mut self.part else {
                return Ok(None);
            };
            let mut cx = Context::from_waker(Waker::noop());
            match Pin::new(part).poll_next(&mut cx) {
                Poll::Ready(Some(Ok(data))) => return Ok(Some(data)),
                Poll::Ready(None) => return Ok(None),
                Poll::Ready(Some(Err(_))) => return Err(BadForm::Malformed.into()),
                Poll::Pending => self.receive().await?,
            };
        }
    }

    /// Receives what follows the last part, to the end of the body unless that is far.
    pub async fn end(&mut self) -> Result<(), Rejection> {
        let mut taken = 0;
        while taken <= MAX_EPILOGUE {
            let Some(data) = self.body.next_frame().await? else {
                break;
            };
            taken += data.len();
        }
        Ok(())
    }

    /// Gives multer the next frame of the body, or its end; how many bytes.
    async fn receive(&mut self) -> Result<usize, Rejection> {
        if self.frame.has_ended() {
            return Err(BadForm::Malformed.into());
        }
        let data = self.body.next_frame().await?;
        let len = data.as_ref().map_or(0, Bytes::len);
        self.frame.put(data);
        Ok(len)
    }
}

fn part(field: &Field<'_>) -> Result<Part, BadForm> {
    let headers = field.headers();
    let disposition = headers.get(CONTENT_DISPOSITION);
    let disposition = disposition.and_then(|value| Disposition::parse(value.as_bytes()));
    let media_type = headers.get(CONTENT_TYPE);
    let media_type = media_type.and_then(|value| media::check(value.as_bytes()));
    Ok(Part {
        disposition: disposition.ok_or(BadForm::Disposition)?,
        // Browsers say so of a file whose type they do not know.
        media_type: media_type
            .filter(|it| !it.eq_ignore_ascii_case("application/octet-stream"))
            .map(Into::into),
    })
}

/// The frame that multer is given next: the stream that it reads has nothing, one frame, or its end. After each change the
/// form polls again, so a waker that does nothing is enough.
#[derive(Clone, Default)]
struct NextFrame(Arc<Mutex<Given>>);

#[derive(Default)]
enum Given {
    #[default]
    Nothing,
    Frame(Bytes),
    End,
}

impl NextFrame {
    fn put(&self, data: Option<Bytes>) {
        let mut given = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *given = data.map_or(Given::End, Given::Frame);
    }

    fn has_ended(&self) -> bool {
        let given = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        matches!(*given, Given::End)
    }
}

impl Stream for NextFrame {
    type Item = Result<Bytes, std::convert::Infallible>;

    fn poll_next(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let mut given = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match std::mem::take(&mut *given) {
            Given::Nothing => Poll::Pending,
            Given::Frame(data) => Poll::Ready(Some(Ok(data))),
            Given::End => {
                *given = Given::End;
                Poll::Ready(None)
            }
        }
    }
}
