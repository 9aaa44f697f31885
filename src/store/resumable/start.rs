//! How a request comes to its claim: it makes an upload, or claims one that is there.

use std::sync::Arc;

use super::super::upload_claim::{Entry, Progress, Standing, Touched, UploadId};
use super::super::writer::{Durability, Writer};
use super::files::{create, open};
use super::registry::{Registry, remove_files};
use super::{Field, NewUpload, Resumable};
use crate::transfer::Reservation;
use crate::value::Error;

impl Resumable {
    /// Makes an upload. It goes with the claim, unless its client is to be told of it.
    pub(in crate::store) async fn begin(
        writer: &Arc<Writer>,
        registry: &Arc<Registry>,
        new: NewUpload,
    ) -> Result<Self, Error> {
        let reservation = Reservation::of_unfinished(writer.quota(), new.uploader)?;
        let is_synced = writer.durability() == Durability::Disk;
        let progress = Progress {
            length: new.length,
            synced: is_synced.then_some(0),
            received: 0,
            is_ahead: false,
            touched: Touched::now(),
            standing: Standing::Open,
        };
        let id = UploadId::random()?;
        let entry = Entry::new(id, new.key, progress, reservation);
        let claim = entry.try_claim().map(Arc::new).ok_or(Error::Truncated)?;
        let forgotten = registry.add(entry)?;
        let mut upload = Self {
            writer: Arc::clone(writer),
            registry: Arc::clone(registry),
            claim,
            file: None,
            offset: 0,
            is_known: false,
        };
        // The job has the upload: where no request waits for it any more, it is dropped with the job's result, and removed.
        let job = move || {
            for id in forgotten {
                remove_files(upload.writer.temp_dir().uploads(), id);
            }
            upload.create(new.fields).map(|()| upload)
        };
        writer.disk().spawn(job).await
    }

    /// Makes its files, or leaves none. Blocks.
    fn create(&mut self, fields: Vec<Field>) -> Result<(), Error> {
        let created = create(&self.writer, &self.claim, fields);
        if created.is_err() {
            self.registry
                .remove(&self.claim, self.writer.temp_dir().uploads());
            self.is_known = true;
        }
        self.file = Some(Arc::new(created?));
        Ok(())
    }

    /// Claims the upload `id`, which ends what another request does with it; `None` where there is none.
    pub(in crate::store) async fn claim(
        writer: &Arc<Writer>,
        registry: &Arc<Registry>,
        id: UploadId,
    ) -> Result<Option<Self>, Error> {
        let Some(entry) = registry.get(id) else {
            return Ok(None);
        };
        let Some(claim) = entry.claim().await.map(Arc::new) else {
            return Ok(None);
        };
        let mut claimed = Self {
            writer: Arc::clone(writer),
            registry: Arc::clone(registry),
            claim,
            file: None,
            offset: entry.progress().length.unwrap_or(0),
            is_known: true,
        };
        entry.progress().touched = Touched::now();
        if entry.progress().standing == Standing::Complete {
            return Ok(Some(claimed));
        }
        let Some((file, offset)) = claimed.on_disk(open).await? else {
            claimed.remove().await?;
            return Ok(None);
        };
        (claimed.file, claimed.offset) = (Some(Arc::new(file)), offset);
        Ok(Some(claimed))
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::task::Poll;
    use std::time::{Duration, Instant};

    use tempfile::TempDir;

    use super::super::super::directory::{Directory, JournalOptions, Options};
    use super::*;
    use crate::transfer::{StagingBounds, Uploader};
    use crate::value::Key;

    #[test]
    fn an_upload_whose_request_ends_while_it_is_made_is_removed() {
        let dir = TempDir::new().unwrap();
        let options = Options {
            cache: 0,
            cached_files: 1,
            listing_index: 0,
            compute_threads: 1,
            cpus: None,
            durability: Durability::Os,
            journal: JournalOptions::default(),
            min_free: 0,
            staging: StagingBounds::default(),
            upload_expiry: Duration::ZERO,
            is_text: |_, _| false,
        };
        let directory = Directory::open(dir.path(), &options).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        runtime.unwrap().block_on(async {
            for _ in 0..20 {
                let mut beginning = Box::pin(directory.begin_resumable(NewUpload {
                    key: Key::new("k").unwrap(),
                    length: None,
                    fields: Vec::new(),
                    uploader: Uploader::new("a client"),
                }));
                poll_fn(|cx| match beginning.as_mut().poll(cx) {
                    Poll::Ready(Err(error)) => panic!("{error}"),
                    _ => Poll::Ready(()),
                })
                .await;
            }
        });
        let uploads = dir.path().join(".data-server/uploads");
        let left = || uploads.read_dir().unwrap().count() + directory.unfinished_uploads();
        let deadline = Instant::now() + Duration::from_secs(30);
        while left() > 0 {
            assert!(Instant::now() < deadline, "{} are left", left());
            std::thread::yield_now();
        }
    }
}
