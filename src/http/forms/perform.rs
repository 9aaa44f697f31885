//! POST of a form: its files stored one after the other, each as a PUT stores a value.
//!
//! Promises that of a file that breaks off, or is refused, nothing is stored, and that the answer names those that were stored
//! before it.

use bytes::Bytes;

use crate::http::auth::authorize::Asker;
use crate::http::body::request::Received;
use crate::http::forms::BadForm;
use crate::http::forms::request::{Form, FormRequest, FormState, MAX_TEXT, Role};
use crate::http::head::path::check_depth;
use crate::http::refusal::rejection::Rejection;
use crate::http::response::outcome::{FormHalted, FormStored, Outcome, StoredFile};
use crate::http::service::handler::Handler;
use crate::http::service::operation::PutOptions;
use crate::http::values::conditional::Preconditions;
use crate::http::values::put::InFlight;
use crate::http::values::upload::Announced;
use crate::metrics::ReactorCounters;
use crate::store::Key;

/// A form whose files are being stored.
struct FormUpload<'h, 'f, 'b> {
    handler: &'h Handler,
    counters: &'h ReactorCounters,
    asker: Asker<'h>,
    form: Form<'f, Received<'b>>,
    preconditions: Option<Preconditions>,
    state: FormState,
    /// The file under way.
    file: Option<Key<'static>>,
    stored: Vec<StoredFile>,
}

impl Handler {
    pub async fn form(
        &self,
        request: FormRequest,
        body: &mut Received<'_>,
        counters: &ReactorCounters,
        asker: Asker<'_>,
    ) -> Result<Outcome, Outcome> {
        let mut upload = FormUpload {
            handler: self,
            counters,
            asker,
            form: Form::new(request.boundary, body),
            preconditions: request.preconditions,
            state: FormState::default(),
            file: None,
            stored: Vec::new(),
        };
        match upload.receive().await {
            Ok(()) => Ok(Outcome::FormStored(FormStored {
                folder: upload.state.folder().to_owned(),
                files: upload.stored,
                wants_page: request.wants_page,
            })),
            Err(why) => Err(Outcome::FormHalted(Box::new(FormHalted {
                folder: upload.state.folder().to_owned(),
                file: upload.file,
                stored: upload.stored,
                why,
            }))),
        }
    }
}

impl FormUpload<'_, '_, '_> {
    async fn receive(&mut self) -> Result<(), Outcome> {
        while let Some(part) = self.form.next().await? {
            match self.state.role(part.disposition)? {
                Role::Text(name) => {
                    let text = self.text(name).await?;
                    self.state.set(name, text)?;
                }
                Role::File(key) => {
                    self.file = Some(key.to_owned());
                    self.store(key, part.media_type).await?;
                    self.file = None;
                }
            }
        }
        self.state.end()?;
        Ok(self.form.end().await?)
    }

    async fn text(&mut self, name: &'static str) -> Result<Vec<u8>, Rejection> {
        let mut text = Vec::new();
        while let Some(data) = self.form.data().await? {
            text.extend_from_slice(&data);
            if text.len() > MAX_TEXT {
                return Err(BadForm::Text(name).into());
            }
        }
        Ok(text)
    }

    /// Stores the data of the part as the value of `key`.
    async fn store(
        &mut self,
        key: Key<'static>,
        media_type: Option<Box<str>>,
    ) -> Result<(), Outcome> {
        check_depth(&key, self.handler.config.limits.max_key_depth)?;
        let mut options = PutOptions {
            preconditions: self.preconditions(),
            media_type,
            ..PutOptions::default()
        };
        self.handler
            .permit_put(self.asker.proof, &key, &mut options)?;
        let _in_flight = InFlight::begin(self.counters);
        if self.handler.config.discard {
            let mut len = 0;
            while self.data(&mut len).await?.is_some() {}
            self.stored.push(StoredFile {
                key,
                published: None,
            });
            return Ok(());
        }
        let is_only_new = options.is_only_new;
        let stored = self.receive_file(key, options).await;
        if is_only_new {
            return self.handler.without_replacing(stored, self.asker.proof);
        }
        stored
    }

    async fn receive_file(
        &mut self,
        key: Key<'static>,
        options: PutOptions,
    ) -> Result<(), Outcome> {
        let announced = Announced {
            media_type: options.media_type.as_deref(),
            preconditions: options.preconditions.as_ref(),
            uploader: self.handler.uploader(self.asker),
            ..Announced::default()
        };
        let mut upload = self.handler.begin_value(&key, announced).await?;
        let mut len = 0;
        while let Some(data) = self.data(&mut len).await? {
            upload.push(data).await?;
        }
        let published = upload.publish(key.clone(), options.preconditions).await?;
        let published = Some(published);
        self.stored.push(StoredFile { key, published });
        Ok(())
    }

    /// The next bytes of a file of which there were `len` before.
    async fn data(&mut self, len: &mut u64) -> Result<Option<Bytes>, Rejection> {
        let data = self.form.data().await?;
        *len += data.as_ref().map_or(0, Bytes::len) as u64;
        let limit = self.handler.config.limits.max_body;
        if *len > limit {
            return Err(Rejection::TooLarge { limit });
        }
        Ok(data)
    }

    /// On what condition files are stored: what the head asks, else that there is nothing, unless the form replaces.
    fn preconditions(&self) -> Option<Preconditions> {
        let asked = self.preconditions.clone();
        asked.or((!self.state.replaces()).then_some(Preconditions::NEW))
    }
}
