//! What administrators do to folders while clients list them: each change of rights, owners, mounts and names is seen
//! by the next listing. The server has the rights of nobody, and the truth is a walk of the disk with the same rights.

use proptest::prelude::*;

use crate::support::prelude::*;

/// What is done as root in the directory, by its number: `$1` and `$2` are folders, `$3` is a name. Some fail, as what
/// they need is not there.
const STEPS: &[&str] = &[
    "chmod 700 $1",
    "chmod 755 $1",
    "chmod 711 $1",
    "chmod 744 $1",
    "chmod -R u=rwX,go=rX $1",
    "chown nobody $1",
    "chown root $1 && chmod 750 $1",
    "chgrp 65534 $1",
    "setfacl -m u:65534:--- $1",
    "setfacl -m u:65534:rx $1",
    "setfacl -b $1",
    "mount -t tmpfs -o mode=755 tmpfs $1 && echo v > $1/mounted",
    "mount -t tmpfs -o mode=700 tmpfs $1 && echo v > $1/hidden",
    "mount --bind $2 $1",
    "mount --bind ../copy $1",
    "umount -l $1",
    "mount -o remount,mode=755 $1",
    "tar -xf ../backup.tar",
    "tar -C .. -cf - copy | tar --one-top-level=$1/$3 -xf -",
    "cp -a ../copy $1/",
    "rsync -a ../copy $1/",
    "rsync -a --delete ../copy/ $1/",
    "mv $1 $2/",
    "mv $1/copy $2/$3",
    "mv ../copy/deep $1/ && mkdir -p ../copy/deep && echo v > ../copy/deep/k",
    "rm -rf $1",
    "rm -rf --one-file-system $1/*",
    "mkdir -m 700 $1 && echo v > $1/$3 && chmod 755 $1",
    "mkdir -p $1/$3/deeper && echo v > $1/$3/deeper/k && chmod 700 $1/$3",
    "ln -s $2 $1/link; echo v > $1/$3",
    "chmod 000 $1/* && chmod 755 $1/$3",
];

/// What there is for nobody: files in folders that can be read and searched. `find` leaves out a folder that is mounted
/// in itself; a client sees its keys at each of their paths.
const WALK: &str =
    r#"shopt -s globstar; for p in **; do [[ ! -f $p || -L $p ]] || printf '%s\n' "$p"; done"#;

/// What is mounted in a directory, which ends with this.
struct Mounts<'a>(&'a Path);

impl Drop for Mounts<'_> {
    fn drop(&mut self) {
        let mounts = fs::read_to_string("/proc/self/mounts").expect("the mounts");
        let points = mounts.lines().filter_map(|line| line.split(' ').nth(1));
        // The last is on top.
        let is_below = |mount: &&str| Path::new(mount).starts_with(self.0);
        for mount in points.rev().filter(is_below) {
            let _ = Command::new("umount").args(["-l", mount]).status();
        }
    }
}

fn run(dir: &Path, command: &[&str]) -> String {
    let output = Command::new(command[0])
        .args(&command[1..])
        .current_dir(dir)
        .output();
    String::from_utf8(output.expect("a command").stdout).expect("text")
}

/// All keys, page by page.
fn listed(server: &TestServer) -> Vec<String> {
    let (mut all, mut after) = (Vec::new(), String::new());
    loop {
        let page = server.request(
            "GET",
            &format!("/?format=text&limit=1000&after={after}"),
            "Accept: text/plain\r\n",
            b"",
        );
        assert_eq!(page.status, 200);
        let page = page.text();
        let Some(last) = page.lines().last() else {
            return all;
        };
        last.clone_into(&mut after);
        all.extend(page.lines().map(str::to_owned));
    }
}

type Step = (&'static str, [&'static str; 3]);

/// Takes each step, and compares the listing after it with a walk of the disk.
fn after_each(is_large: bool, steps: &[Step]) -> Result<(), TestCaseError> {
    let dir = DataDir::in_memory();
    // More names than a walk for each listing is for.
    for n in 0..if is_large { 1_100 } else { 0 } {
        dir.place(&format!("many/{n:04}"), "");
    }
    fs::create_dir_all(dir.outside("copy/deep")).expect("a directory");
    fs::write(dir.outside("copy/deep/k"), "v").expect("a file");
    let backup = "tar --mode=700 -cf backup.tar --transform=s/copy/f0/ copy";
    run(&dir.outside(""), &words(backup));
    let Some(server) = served_by_nobody(&dir, "what administrators do") else {
        return Ok(());
    };
    let _mounts = Mounts(dir.path());
    for (line, args) in steps {
        listed(&server);
        run(dir.path(), &[&["sh", "-c", line, "sh"], &args[..]].concat());
        let mut walk = words("setpriv --reuid=65534 --regid=65534 --clear-groups bash -c");
        walk.push(WALK);
        let walk = run(dir.path(), &walk);
        let is_key = |path: &&str| !path.starts_with(".data-server");
        let mut there: Vec<_> = walk.lines().filter(is_key).collect();
        there.sort_unstable();
        prop_assert_eq!(listed(&server), there, "after {} {:?}", line, args);
    }
    Ok(())
}

#[test]
fn a_listing_has_what_is_there_whatever_administrators_do() {
    directory_only!("what administrators do");
    let folder = || prop::sample::select(vec!["f0", "f1", "f0/f2", "f1/copy"]);
    let name = prop::sample::select(vec!["k", "f2", "x"]);
    let step = (prop::sample::select(STEPS), folder(), folder(), name);
    let step = step.prop_map(|(line, one, other, name)| (line, [one, other, name]));
    let steps = (any::<bool>(), prop::collection::vec(step, 1..40));
    let config = ProptestConfig {
        max_shrink_iters: 200,
        ..ProptestConfig::with_cases(scaled(4, 40))
    };
    proptest!(config, |((is_large, steps) in steps)| after_each(is_large, &steps)?);
}

/// A folder whose rights change, mounts, of whose rights the folder above has no event, and a folder mounted in itself:
/// each path of a key is listed, as each is answered. (A walk by `find` leaves out what it has come through already.)
#[test]
fn rights_and_mounts_that_change_are_listed_as_they_are() {
    directory_only!("what administrators do");
    let scenes: [&[&str]; 4] = [
        &[
            "mkdir -p f0/below && echo v > f0/below/k && chmod 700 f0",
            "chmod 755 f0",
            "chmod 700 f0",
            "chmod 755 f0",
        ],
        &[
            "mkdir a-folder && echo v > a-folder/own",
            "mount -t tmpfs -o mode=755 tmpfs a-folder && echo v > a-folder/there",
            "umount -l a-folder",
        ],
        &[
            "mkdir f0 && mount -t tmpfs -o mode=700 tmpfs f0 && echo v > f0/k",
            "chmod 755 f0",
            "chmod 700 f0",
            "chmod 755 f0",
        ],
        &[
            "mkdir -p f0/f2 f1 && echo v > f0/f2/k",
            "mount --bind f0 f1",
            "mount --bind f1 f0/f2",
            "echo v > f0/new && rm f1/f2/k",
        ],
    ];
    for steps in scenes {
        let steps: Vec<Step> = steps.iter().map(|line| (*line, [""; 3])).collect();
        after_each(true, &steps).expect("a listing as the disk");
    }
}
