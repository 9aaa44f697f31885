//! DVC: data that is pushed and pulled.

use crate::client::Client;
use crate::support::needed;

/// 2,000 files.
const MANY: &str = r#"
mkdir many
for n in {1..2000}; do echo "file $n" > many/$n; done
dvc add -q many
dvc push -q
rm -r many .dvc/cache
dvc pull -q
cat many/* | sort -u | wc -l
#> 2000
"#;

#[test]
fn the_lines_for_dvc_run() {
    let mut client = needed!(Client::of("DVC"));
    let quiet = "[core]\nanalytics = false\ncheck_update = false\n";
    client.place(".config/dvc/config", quiet);
    client.play();
    client.run("dvc status --cloud\n#> Cache and remote 'store' are in sync.");
    // 20 files and the list of them, by their hashes.
    assert_eq!(client.server().dir.names().len(), 21);
    client.server().dir.assert_nothing_staged();
    client.run_if_full(MANY);
}
