//! Uploads in parts of a directory: begun, received, read again, published or given up.

use std::sync::Arc;

use super::Directory;
use crate::store::multipart::{Multipart, OpenPart, ReceivedPart};
use crate::store::resumable::{Field, Record};
use crate::store::upload::{FileUpload, secured};
use crate::store::upload_claim::UploadId;
use crate::transfer::Uploader;
use crate::value::{Error, Key, Meta};

impl Directory {
    /// Begins an upload of the value of `key` in parts; the `fields` are kept with it.
    pub async fn begin_multipart(
        &self,
        key: Key<'static>,
        fields: Vec<Field>,
        uploader: Uploader,
    ) -> Result<UploadId, Error> {
        let writing = self.writing()?;
        let (writer, uploads) = (Arc::clone(&writing.writer), Arc::clone(&writing.multiparts));
        let begin = move || uploads.begin(&writer, key, fields, &uploader);
        writing.writer.note(self.dir.disk.spawn(begin).await)
    }

    /// The upload `id`, if it is there.
    pub fn multipart(&self, id: UploadId) -> Option<Arc<Multipart>> {
        self.writing.as_ref()?.multiparts.get(id)
    }

    /// The uploads of keys with this prefix, in the order of their keys.
    pub fn multiparts(&self, prefix: &str) -> Vec<Arc<Multipart>> {
        let writing = self.writing.as_ref();
        writing.map_or_else(Vec::new, |writing| writing.multiparts.with(prefix))
    }

    /// The fields that are kept with an upload.
    pub async fn fields_of(&self, upload: &Multipart) -> Result<Vec<Field>, Error> {
        let (writer, id) = (Arc::clone(&self.writing()?.writer), upload.id);
        let find = move || Record::find(&writer.temp_dir.parts, id);
        let record = self.dir.disk.spawn(find).await?;
        Ok(record.map_or_else(Vec::new, |record| record.fields))
    }

    /// Keeps what was received as the part of this number; `None` where the upload has ended.
    pub async fn keep_part(
        &self,
        mut part: FileUpload,
        upload: &Arc<Multipart>,
        number: u16,
    ) -> Result<Option<Meta>, Error> {
        let writing = self.writing()?;
        if !part.is_small() {
            part.write_out().await?;
        }
        let mut value = part.into_value();
        // No journal has it: its file has all its bytes.
        value.is_journaled = false;
        let value = secured(value, &writing.writer, writing.room(&upload.key)).await?;
        let (writer, upload) = (Arc::clone(&writing.writer), Arc::clone(upload));
        let keep = move || upload.take(&writer, number, value);
        writing.writer.note(self.dir.disk.spawn(keep).await)
    }

    /// Opens `part`; `None` where another has its place by now.
    pub async fn open_part(
        &self,
        upload: &Arc<Multipart>,
        part: ReceivedPart,
    ) -> Result<Option<OpenPart>, Error> {
        let (writer, upload) = (Arc::clone(&self.writing()?.writer), Arc::clone(upload));
        let open = move || upload.open(&writer, part);
        self.dir.disk.spawn(open).await
    }

    /// Gives an upload up, with all its parts.
    pub async fn remove_multipart(&self, upload: &Arc<Multipart>) -> Result<(), Error> {
        let writing = self.writing()?;
        let (writer, uploads) = (Arc::clone(&writing.writer), Arc::clone(&writing.multiparts));
        let upload = Arc::clone(upload);
        let remove = move || {
            uploads.remove(&writer.temp_dir.parts, &upload);
            Ok(())
        };
        self.dir.disk.spawn(remove).await
    }
}
