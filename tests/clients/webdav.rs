//! `WebDAV`: the suite litmus, and programs that people use with it.

use crate::client::Client;
use crate::support::needed;

/// litmus counts the tests of a group that passed. Three tests of `locks`, and what follows the first of `props` that
/// needs it, store a property, which no value here keeps.
const LITMUS: &str = r#"
TESTS="http basic copymove" litmus $D/ > litmus.log 2>&1 || cat litmus.log
grep -o '0 failed' litmus.log | wc -l
#> 3
TESTS=locks litmus -k $D/ > locks.log 2>&1 || true
grep FAIL locks.log | grep -o '^.*owner_modify' | wc -l
#> 3
tr '\r' '\n' < locks.log | grep -o '38 passed'
#> 38 passed
"#;

/// Folders and files that are made, copied, moved and removed, with their dates.
const RCLONE: &str = r#"
mkdir -p many/a/b many/c
for n in {1..200}; do echo $n > many/a/$n; done
echo deep > many/a/b/deep
touch -d '2001-05-05 12:00:00 UTC' many/a/1 many/a/b/deep
rclone() { command rclone "$@" 2> log; }
rclone purge dav:litmus
rclone sync --transfers 8 many dav:many
rclone check many dav:many --log-file check.log
grep -o '0 differences found' check.log
#> 0 differences found
rclone lsl dav:many/a/b | grep -o '2001-05-05.*'
#> 2001-05-05 12:00:00.000000000 deep
rclone moveto dav:many/a dav:many/moved
rclone lsf dav:many/moved | wc -l
#> 201
rclone copy dav:many/moved back
diff -r many/a back
rclone purge dav:many
rclone lsf dav: | wc -l
#> 0
rclone about dav: | grep -c Free
#> 1
"#;

const CADAVER: &str = r"
echo one > one.txt
cadaver $D/ > cadaver.log <<END
mkcol album
cd album
put one.txt
copy one.txt two.txt
move two.txt three.txt
lock three.txt
unlock three.txt
ls
END
grep -c 'succeeded' cadaver.log
#> 7
grep -oE '(one|three).txt +4 ' cadaver.log | tr -s ' '
#> one.txt 4
#> three.txt 4
printf 'rmcol album\n' | cadaver $D/ | grep -c succeeded
#> 1
";

#[test]
fn programs_use_a_folder_by_webdav() {
    let mut client = needed!(Client::of("WebDAV"));
    client.play();
    client.run(LITMUS);
    client.run(RCLONE);
    client.run(CADAVER);
}
