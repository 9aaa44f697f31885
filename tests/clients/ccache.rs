//! ccache: each layout of its remote storage has what it stored after the local cache is gone.

use crate::client::{Client, files};
use crate::support::needed;

/// Each of 4 files is a miss, and after the local cache is gone a hit.
const EACH_LAYOUT: &str = r#"
export CCACHE_REMOTE_STORAGE="$S/layouts/LAYOUT|layout=LAYOUT"
compile() { for n in {1..4}; do echo "int LAYOUT$n;" > $n.c; ccache gcc -c $n.c; done; }
counts() { ccache --print-stats | grep -E "^(cache_miss|remote_storage_(hit|error|timeout))"; }
ccache -C > /dev/null 2>&1; ccache -z > /dev/null
compile; counts
#> cache_miss	4
#> remote_storage_error	0
#> remote_storage_hit	0
#> remote_storage_timeout	0
ccache -C > /dev/null 2>&1; ccache -z > /dev/null
compile; counts
#> cache_miss	0
#> remote_storage_error	0
#> remote_storage_hit	4
#> remote_storage_timeout	0
"#;

#[test]
fn the_lines_for_ccache_run() {
    let mut client = needed!(Client::of("ccache"));
    client.play();
    // The result, and the manifest that leads to it, in folders by the first byte.
    let stored = files(&client.server().dir.file("ccache"));
    assert_eq!(stored.len(), 2, "{stored:?}");
    let in_folders = stored.iter().all(|key| key.find('/') == Some(2));
    assert!(in_folders, "{stored:?}");
    for layout in ["flat", "subdirs", "bazel"] {
        client.run(&EACH_LAYOUT.replace("LAYOUT", layout));
        let folder = client.server().dir.file(format!("layouts/{layout}"));
        let stored = files(&folder);
        assert_eq!(stored.len(), 2 * 4, "{layout}: {stored:?}");
    }
    client.server().dir.assert_nothing_staged();
}
