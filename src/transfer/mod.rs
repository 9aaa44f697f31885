//! How the bytes of a value come and go, whichever engine keeps it: the threads that may wait, pipes, buffers, digests on the way,
//! and the quota of uploads. It knows no key.

mod blocking_pool;
mod body_source;
mod limits;
mod pipes;
mod quota;
mod random;
mod receiver;
mod write_buffer;

pub use blocking_pool::BlockingPool;
pub use body_source::{BodySource, read};
pub use limits::{CHUNK, COPIED, IN_MEMORY, NEGLIGIBLE, SLOW_TO_FREE, SMALL, is_large};
pub use pipes::{Pipe, Piped, Pipes};
pub use quota::{
    InFlight, Reservation, Share, StagingBounds, StagingQuota, UPLOADS_OF_ONE, Uploader,
};
pub use random::random;
pub use receiver::{Hashing, Receiver, hash_file};
pub use write_buffer::{WriteBuffer, write_at};
