//! restic: repositories, of several hosts at once, of one who may only add, and as they lie on a disk.

use crate::client::Client;
use crate::support::needed;

/// More packs than one, of two hosts, in a repository that is moved to a local disk and back.
const MOVED: &str = r#"
for n in {1..8}; do head -c 3M /dev/urandom > letters/$n; done
restic -q backup --host a letters & a=$!
restic -q backup --host b letters & b=$!
wait $a && wait $b
restic -q check --read-data
snapshots() { restic "$@" snapshots --json | grep -o '"hostname":"[ab]"' | sort; }
snapshots
#> "hostname":"a"
#> "hostname":"b"
mv store/backups/laptop $PWD/moved
restic -q -r $PWD/moved check --read-data
restic -q -r $PWD/moved backup --host b letters
mv moved store/backups/back
snapshots -r rest:http://127.0.0.1:8081/backups/back/
#> "hostname":"a"
#> "hostname":"b"
#> "hostname":"b"
restic -q -r rest:http://127.0.0.1:8081/backups/back/ forget --keep-last 1 --prune
restic -q -r rest:http://127.0.0.1:8081/backups/back/ check --read-data
"#;

/// By the rules of the page. restic goes on for a while where it may not remove.
const APPENDED: &str = r#"
data-server new-token > token
cat - <(sed -n '/^```toml/,/^```/{/^```/!p}' PAGE) > access.toml <<END
[[subject]]
name = "laptop"
token = "$(tail -n 1 token)"
END
chmod 600 access.toml
data-server --dir private --listen 127.0.0.1:8083 --access access.toml --content 'prefix = "backups/", kind = "restic"' > server.log 2>&1 &
server=$!
until grep -qs listening server.log; do sleep 0.1; done
export RESTIC_REPOSITORY=rest:http://laptop:$(head -n 1 token)@127.0.0.1:8083/backups/laptop/
restic -q init > log
restic -q backup letters
rm letters/1
restic -q backup letters
files() { find private/backups -type f | grep -v /locks/ | sort | xargs sha256sum; }
files > before
timeout 5 restic -q forget --keep-last 1 --prune > log 2>&1 || echo refused
#> refused
files | cmp - before
restic -q unlock --remove-all
find private/backups -path '*/locks/*' -type f | wc -l
#> 0
restic -q check --read-data
kill $server
"#;

#[test]
fn restic_keeps_its_repositories_here() {
    let mut client = needed!(Client::of("restic"));
    client.play();
    client.run(MOVED);
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/clients.md");
    let section = "<(sed -n '/^## restic/,/^## lftp/p' PAGE)";
    let lines = APPENDED.replacen("PAGE", section, 1).replace("PAGE", page);
    client.run(&lines);
}
