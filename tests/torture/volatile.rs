//! T3: a disk with a volatile write cache loses what was not flushed to it. Unlike a file system that is shut down, it
//! may lose one block and keep another that was written later.

use crate::nbd::{Nbd, Weakness};
use crate::power::{it_serves_again, nothing_acknowledged_is_lost};
use crate::prelude::*;

const WHAT: &str = "volatile cache, ext4";

#[test]
fn disk_loses_nothing_with_the_cache_of_a_disk() {
    nothing_acknowledged_is_lost(WHAT, Nbd::new(Weakness::VolatileCache));
}

/// The disk does lose what is not flushed, else the test above would prove nothing.
#[test]
fn os_serves_again_after_the_cache_of_a_disk_is_lost_and_its_losses_are_counted() {
    let disk = Nbd::new(Weakness::VolatileCache);
    let report = needed!(it_serves_again(WHAT, disk, 0));
    assert_ne!(report.tally.losses(), 0, "{report}");
}
