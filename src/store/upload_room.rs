//! The room of a large value while its bytes arrive: in the bounds that hold for its key, and on the disk.
//!
//! Nothing is evicted for bytes that are announced and have not come. What lacks is evicted alone, a stretch at a time.

use std::sync::{Arc, Weak};
use std::time::Duration;

use super::bounds::{Choice, Staging, Total};
use super::publish::Publisher;
use super::write_context::WriteContext;

/// The pause of an upload while others make room, or have space that they are about to use.
const SOON: Duration = Duration::from_millis(1);

/// How often a write may fail for want of space in a row though as much is free as it needs.
const MOST_UNEXPLAINED: u32 = 100;

/// What makes room for one value of a store with bounds.
#[derive(Clone, Debug)]
pub struct UploadRoom {
    /// What counts for its bytes in bounds.
    pub staging: Arc<Staging>,
    pub writer: Arc<WriteContext>,
    /// Weak: the publisher ends with the store, and not with the last upload.
    pub publisher: Weak<Publisher>,
    /// How often nothing lacked in a row.
    pub unexplained: u32,
}

impl UploadRoom {
    /// Has values go until the disk has `bytes` and inodes for so many `files` free, for which a write found no space.
    /// False where no value is left that could go.
    pub async fn make(&mut self, bytes: u64, files: u64) -> bool {
        let mut is_made = false;
        loop {
            let (staging, writer) = (Arc::clone(&self.staging), Arc::clone(&self.writer));
            let choose = move || {
                let free = writer.free()?;
                staging.account.gone(|| free);
                let lacks = Total::lacking(free, bytes, files);
                let choose = || staging.account.for_disk(free, lacks, &[&staging.key]);
                Ok((!lacks.is_zero()).then(choose))
            };
            match self.writer.dir().disk.spawn(choose).await {
                Ok(None) if is_made => {
                    self.unexplained = 0;
                    return true;
                }
                // Others were about to use it.
                Ok(None) => {
                    self.unexplained += 1;
                    tokio::time::sleep(SOON).await;
                    return self.unexplained <= MOST_UNEXPLAINED;
                }
                Ok(Some(Choice::Evict(victims))) => {
                    let Some(publisher) = self.publisher.upgrade() else {
                        return false;
                    };
                    publisher.evict(victims, || true).await;
                    is_made = true;
                }
                Ok(Some(Choice::Wait)) => tokio::time::sleep(SOON).await,
                Ok(Some(Choice::Nobody(_))) | Err(_) => return false,
            }
        }
    }
}
