//! wget: a download that goes on, one that has not changed, and a mirror of a folder.

use crate::client::Client;

/// 10,000 keys in 100 folders, and as many in one, which is what a page holds.
const MANY: &str = r#"
mkdir -p many/{1..100} many/all
for f in {1..100}; do for n in {1..100}; do echo $f $n > many/$f/$n; echo $f $n > many/all/$f-$n; done; done
find many -type f -printf "upload-file = \"%p\"\nurl = \"$S/%p\"\n" | curl -fsS -K -
wget -q -m -np -nH --cut-dirs=1 -P copied --header 'Accept: text/html' $S/many/
find copied -name index.html -delete
diff -r many copied
echo same
#> same
"#;

#[test]
fn the_lines_for_wget_run() {
    let Some(mut client) = Client::of("wget") else {
        return;
    };
    client.play();
    client.run_if_full(MANY);
    client.server().dir.assert_nothing_staged();
}
