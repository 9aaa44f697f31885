//! Values that cannot be removed: they are passed over, and stop no write.

use super::{BLOCK, WAYS, place_old, taken};
use crate::support::prelude::*;

/// As in a snapshot below the directory, which is read-only.
#[test]
fn old_values_that_cannot_be_removed_are_passed_over() {
    directory_only!("bounds");
    for way in WAYS {
        let dir = DataDir::temporary();
        let keys: Vec<_> = (0..100).map(|n| format!("c/old/{n}")).collect();
        let old: Vec<_> = keys.iter().map(|key| (&**key, 600)).collect();
        place_old(&dir, &old);
        let folder = dir.file("c/old");
        let read_only = Mounted::by(&["mount", "--bind", "-o", "ro", text(&folder)], &folder);
        let _mounted = needed!(available("a folder that is read-only", read_only));
        let args = [&*words(way), &["--max-size", "800KiB", "--evict-existing"]].concat();
        let mut server = Launch::new(&args).on(&dir).start();
        for n in 0..150 {
            server.store(&format!("c/{n}"), BLOCK);
        }
        assert!(taken(&dir, "") <= 800 << 10, "{way}: {}", taken(&dir, ""));
        assert!(dir.file("c/60").exists(), "{way}");
        assert!(keys.iter().all(|key| dir.file(key).exists()), "{way}");
        server.stop();
        let log = server.log();
        let told = log.iter().filter(|line| line.contains("cannot be removed"));
        assert_eq!(told.count(), 1, "{way}: {log:#?}");
    }
}

/// A file that is mounted into a container.
#[test]
fn old_values_that_are_mounts_are_passed_over() {
    directory_only!("bounds");
    for way in WAYS {
        let dir = DataDir::temporary();
        let keys: Vec<_> = (0..70).map(|n| format!("c/old{n}")).collect();
        let old: Vec<_> = keys.iter().map(|key| (&**key, 600)).collect();
        place_old(&dir, &old);
        let mut mounted = Vec::new();
        for key in &keys {
            let file = dir.file(key);
            let bound = run("mount", &["--bind", text(&file), text(&file)]);
            needed!(available("a key that is a mount point", bound));
            mounted.push(file);
        }
        let args = [&*words(way), &["--max-size", "400KiB", "--evict-existing"]].concat();
        let server = Launch::new(&args).on(&dir).start();
        let statuses: Vec<_> = (0..60)
            .map(|n| server.put(&format!("c/{n}"), BLOCK).status)
            .collect();
        let left = taken(&dir, "");
        drop(server);
        for file in mounted {
            run("umount", &[text(&file)]).expect("it is unmounted");
        }
        let is_right = statuses.iter().all(|status| *status == 200);
        assert!(is_right, "{way}: {statuses:?}");
        assert!(left <= 400 << 10, "{way}: {left}");
    }
}
