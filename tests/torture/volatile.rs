//! T3: a disk with a volatile write cache loses what was not flushed to it. Unlike a file system that is shut down, it
//! may lose one block and keep another that was written later.

use crate::load::Load;
use crate::nbd::{Nbd, Weakness};
use crate::power::{Report, keep_some, moment};
use crate::scale::{available, counted, scaled};
use crate::support::Launch;

fn disk(what: &str) -> Option<Nbd> {
    available(what, Nbd::new(Weakness::VolatileCache))
}

#[test]
fn disk_loses_nothing_with_the_cache_of_a_disk() {
    let Some(mut disk) = disk("a disk with a volatile cache, --durability disk") else {
        return;
    };
    let mut load = Load::new("volatile");
    let mut report = Report::default();
    for cycle in 0..scaled(3, 100) {
        report.cut(&mut disk, &mut load, moment(cycle), || {
            Launch::new(&["--durability", "disk"])
        });
        report.assert_nothing_lost(&load);
    }
    counted(
        "volatile cache, disk, ext4",
        &format!("{report}; seed {}", load.seed),
    );
}

/// The disk does lose what is not flushed, else the test above would prove nothing.
#[test]
fn os_serves_again_after_the_cache_of_a_disk_is_lost_and_its_losses_are_counted() {
    let Some(mut disk) = disk("a disk with a volatile cache, --durability os") else {
        return;
    };
    let mut load = Load::new("volatile");
    let mut report = Report::default();
    for cycle in 0..scaled(1, 30) {
        keep_some(&mut disk, &mut load);
        report.cut(&mut disk, &mut load, moment(cycle), || {
            Launch::new(&["--durability", "os"])
        });
    }
    assert_ne!(report.tally.losses(), 0, "{report}");
    counted(
        "volatile cache, os, ext4",
        &format!("{report}; seed {}", load.seed),
    );
}
