//! An answer that takes long, as S3 gives it: a head of success, spaces as long as the work goes on, so that neither
//! the client nor a proxy gives up, and then the document, which may be that of an error.

use std::rc::Rc;
use std::time::Duration;

use futures_util::stream::{self, StreamExt as _};
use tokio::time::timeout;

use crate::failpoint;
use crate::http::body::Content;
use crate::http::body::response::Body;
use crate::http::exchange::Exchange;
use crate::http::piece::Piece;
use crate::http::refusal::Refusal;
use crate::http::request::Service;
use crate::http::response::Outcome;
use crate::http::s3_door::errors;
use crate::http::s3_door::xml::{DECLARATION, Document, answered};

/// How long a client waits for a head, and then for each space.
const PATIENCE: Duration = Duration::from_secs(5);

/// The answer with what `work` comes to. With its client gone the work ends.
pub async fn patiently(
    service: &Rc<Service>,
    exchange: &Rc<Exchange>,
    id: String,
    work: impl Future<Output = Result<Document, Refusal>> + 'static,
) -> Outcome {
    let patience = failpoint::interval("DATA_SERVER_PATIENCE", PATIENCE);
    let mut work = Box::pin(work);
    if let Ok(done) = timeout(patience, &mut work).await {
        return Ok(done?.answer());
    }
    let (service, exchange) = (Rc::clone(service), Rc::clone(exchange));
    let rest = stream::unfold(Some(work), move |work| {
        let (service, exchange, id) = (Rc::clone(&service), Rc::clone(&exchange), id.clone());
        async move {
            let mut work = work?;
            let text = match timeout(patience, &mut work).await {
                Err(_) => return Some((" ".to_owned(), Some(work))),
                Ok(Ok(document)) => document.end(),
                Ok(Err(why)) => {
                    let text = errors::document(&why, &id).end();
                    let _logged = service.broke_off(why, &exchange);
                    text
                }
            };
            let text = text.strip_prefix(DECLARATION).unwrap_or(&text);
            Some((text.to_owned(), None))
        }
    });
    let texts = stream::iter([DECLARATION.to_owned()]).chain(rest);
    let pieces = texts.map(|text| Ok(Piece::Bytes(text.into())));
    Ok(answered(Body::of(Content::Made(Box::pin(pieces)))))
}
