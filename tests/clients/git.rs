//! git: a repository that is cloned and fetched over the dumb protocol.

use crate::client::Client;

/// 500 commits, each object a file of its own, and their clone.
const HISTORY: &str = r#"
git -c gc.auto=0 init -q long
for n in {1..500}; do echo $n > long/file; git -C long add file; git -C long -c gc.auto=0 commit -q -m "$n"; done
cp -r long/.git long.git
git -C long.git config core.bare true
git -C long.git update-server-info
find long.git -type f -printf "upload-file = \"%p\"\nurl = \"$S/%p\"\n" | curl -fsS -K -
git clone -q $S/long.git long-clone
git -C long-clone fsck --strict 2> log
git -C long-clone rev-list --count HEAD
#> 500
"#;

#[test]
fn the_lines_for_git_run() {
    let Some(mut client) = Client::of("git") else {
        return;
    };
    client.place(".gitconfig", "[user]\nname = A\nemail = a@example.org\n");
    client.play();
    client.run_if_full(HISTORY);
    client.server().dir.assert_nothing_staged();
}
