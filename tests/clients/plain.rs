//! Clients of which the lines of the page say nearly all: one row for each.

use crate::client::Client;
use crate::support::needed;

/// What stands around the lines of a section.
#[derive(Default)]
struct Case {
    /// Files of the home that the page takes for granted.
    home: &'static [(&'static str, &'static str)],
    before: &'static str,
    after: &'static str,
    /// After that, in the full form.
    full: &'static [&'static str],
    /// A program of `tests/clients/programs`, and what runs it.
    hold: Option<(&'static str, &'static str)>,
    is_proxy: bool,
    /// All keys that are there in the end; otherwise only nothing is staged.
    holds: &'static [&'static str],
}

impl Case {
    fn run(&self, client: Option<Client>) {
        let mut client = needed!(client);
        for (path, text) in self.home {
            client.place(path, text);
        }
        client.run(self.before);
        client.play();
        client.run(self.after);
        client.run_if_full(&self.full.concat());
        if let Some((command, program)) = self.hold {
            client.hold(command, program);
        }
        if self.is_proxy {
            client.through_front();
        }
        let dir = &client.server().dir;
        dir.assert_nothing_staged();
        if !self.holds.is_empty() {
            dir.assert_holds(self.holds);
        }
    }
}

macro_rules! sections {
    ($($test:ident: $client:expr, { $($field:ident: $value:expr),* };)*) => {$(
        #[test]
        fn $test() {
            let case = Case { $($field: $value,)* ..Case::default() };
            case.run($client);
        }
    )*};
}

sections! {
    // Libraries: uploads, downloads, conditions, and transfers that are cut off.
    the_lines_for_aiohttp_run: Client::of("aiohttp"), { hold: Some(("python3", "with_aiohttp.py")) };
    the_lines_for_go_run: Client::of("Go"), { hold: Some(("go run", "with_net_http.go")) };
    the_lines_for_httpx_run: Client::of("httpx"), { hold: Some(("LIBRARY=httpx python3", "with_requests.py")) };
    the_lines_for_java_run: Client::of("Java"), { hold: Some(("java", "WithHttpClient.java")) };
    the_lines_for_node_run: Client::of("Node"), { hold: Some(("node", "with_fetch.mjs")) };
    the_lines_for_requests_run: Client::of("requests"), { hold: Some(("python3", "with_requests.py")) };

    // Proxies in front. That Varnish shows no old value is tested in `tests/it/get`.
    the_lines_for_nginx_run: Client::of("nginx"), { after: WHOLE_WITH_ETAG, is_proxy: true };
    the_lines_for_varnish_run: Client::of("Varnish"), { after: WHOLE_BY_VARNISH, is_proxy: true };

    // Repositories and caches of builds.
    the_lines_for_apt_run: Client::of("apt"), {
        holds: &["debian/Packages.gz", "debian/pool/greeting_1.0_all.deb"]
    };
    // No server of its own that outlives the test.
    the_lines_for_bazel_run: Client::of("Bazel"), { home: &[(".bazelrc", "startup --batch\n")] };
    the_lines_for_cargo_run: Client::of("Cargo"), {};
    the_lines_for_git_run: Client::of("git"), {
        home: &[(".gitconfig", "[user]\nname = A\nemail = a@example.org\n")],
        after: REPACKED,
        full: &[HISTORY]
    };
    // Modules are read-only by default, and the home could not be removed.
    the_lines_for_go_modules_run: Client::of("Go modules"), { before: "export GOFLAGS=-modcacherw" };
    the_lines_for_go_build_cache_run: Client::of("Go build cache"), {};
    the_lines_for_gradle_run: Client::of("Gradle"), { home: &[GRADLE_SETTINGS], before: GRADLE_HOME };
    // A store of its own, in place of /nix.
    the_lines_for_nix_run: Client::of("Nix"), {
        home: &[(
            ".config/nix/nix.conf",
            "experimental-features = nix-command\nbuild-users-group =\nsubstitute = false\n",
        )],
        before: "export NIX_STORE_DIR=$HOME/nix/store NIX_STATE_DIR=$HOME/nix/var NIX_LOG_DIR=$HOME/nix/log"
    };
    the_lines_for_npm_run: Client::of("npm"), {};
    the_lines_for_pip_run: Client::of("pip"), {};

    // Files and folders.
    the_lines_for_fsspec_run: Client::of("fsspec"), { after: WALK };
    the_lines_for_gdal_run: Client::of("GDAL"), {};
    the_lines_for_aria2_run: Client::of("aria2"), { after: ANSWERS, full: &[LARGE] };
    the_lines_for_curl_run: Client::of("curl"), {
        holds: &["data/numbers.txt", "site/css/style.css", "site/index.html"]
    };
    the_lines_for_ffmpeg_run: Client::of("ffmpeg"), { after: SEEKS_AND_LIVE };
    the_lines_for_lftp_run: Client::of("lftp"), {
        after: NEWER,
        full: &[MANY, "lftp -c \"mirror -P 4 $S/many/ copied\"", SAME]
    };
    the_lines_for_rclone_run: Client::of("rclone"), {
        after: CHECKED,
        full: &[MANY, "rclone copy store:many copied 2> log", SAME]
    };
    the_lines_for_terraform_and_opentofu_run: Client::of("Terraform and OpenTofu"), {
        before: "export CHECKPOINT_DISABLE=1",
        after: LOCKED,
        holds: &["states/app"]
    };
    the_lines_for_w3m_run: Client::of("w3m"), { after: TEXT };
    the_lines_for_wget_run: Client::of("wget"), {
        after: FOLDERS,
        full: &[
            MANY,
            "wget -q -m -np -nH --cut-dirs=1 -P copied $S/many/\n",
            "find copied -name index.html -delete",
            SAME
        ]
    };
    the_lines_for_tokens_and_passwords_run: Client::of("Tokens and passwords"), {};
}

/// Java asks the system for the home, not HOME; and no daemon outlives the test.
pub(crate) const GRADLE_HOME: &str = "export GRADLE_USER_HOME=$HOME/.gradle";
pub(crate) const GRADLE_SETTINGS: (&str, &str) =
    (".gradle/gradle.properties", "org.gradle.daemon=false\n");

/// While one applies, another is refused; a lock that was left is forced away.
const LOCKED: &str = r#"
cat >> main.tf <<'EOF'
resource "terraform_data" "slow" {
  provisioner "local-exec" {
    command = "until test -e go; do sleep 0.1; done"
  }
}
EOF
terraform init -input=false > init.log
(terraform apply -auto-approve > one.log 2>&1 || echo failed > one.log) &
until curl -fsS $S/states/app.lock > holder 2> none; do sleep 0.1; done
! terraform apply -auto-approve > two.log 2>&1
grep -c "ID=$(cut -d '"' -f 4 holder)" two.log
#> 1
touch go
wait
grep -c 'Apply complete' one.log
#> 1
curl -sS -X LOCK -H 'Content-Type: application/json' -d '{"ID":"left"}' $S/states/app
! terraform plan > three.log 2>&1
terraform force-unlock -force left | grep -c 'successfully unlocked'
#> 1
terraform apply -auto-approve > four.log
"#;

const WHOLE_WITH_ETAG: &str = "
curl -fsS $FRONT/data/numbers.txt | cmp - numbers.txt
curl -fsSI $FRONT/data/numbers.txt | grep -ic '^etag'
#> 1
";

const WHOLE_BY_VARNISH: &str = "
curl -fsS $FRONT/data/numbers.txt | cmp - numbers.txt
curl -fsSI $FRONT/data/numbers.txt | grep -ic '^via: .*varnish'
#> 1
";

/// What is new after all objects have come into one pack.
const REPACKED: &str = "
git -C work commit -q --allow-empty -m third
git -C work push -q ../project.git HEAD
git -C project.git repack -q -a -d
git -C project.git update-server-info
store project.git/objects
store project.git
git -C clone pull -q
git -C clone log -1 --format=%s
#> third
";

/// Files of folders in a folder.
const WALK: &str = r#"
echo 'part 3' | curl -fsS -T - $S/parts/2026/3.csv
cat > walk.py <<EOF
import fsspec

http = fsspec.filesystem("http")

def find(folder):
    for found in http.ls(folder):
        yield from find(found["name"]) if found["type"] == "directory" else [found["name"]]

for name in sorted(find("$S/parts/")):
    print(name, http.cat(name))
EOF
python3 walk.py
#> http://.../parts/1.csv b'part 1\n'
#> http://.../parts/2.csv b'part 2\n'
#> http://.../parts/2026/3.csv b'part 3\n'
"#;

const NEWER: &str = "
echo new | curl -fsS -T - $S/photos/2026/2.jpg
lftp -c \"mirror --only-newer $S/photos/ copy\"
cat copy/2026/*
#> photo
#> new
";

const CHECKED: &str = "
rclone check --download store:photos copy 2>&1 | grep -o '0 differences found'
#> 0 differences found
";

const TEXT: &str = "
w3m -dump $S/letters/2026/hello.txt
#> hello
";

const FOLDERS: &str = "
echo text | curl -fsS -T - $S/tree/c/d/e.txt
wget -q -m -np -nH $S/tree/
find tree -type f ! -name index.html | sort
#> tree/a b/100%.txt
#> tree/c/d/e.txt
";

/// Seeks to each part of the stream and of the file show the picture that the file on disk shows. Then a live stream of
/// 6 segments that keeps 2 in its list, and one or two more for players that are behind.
const SEEKS_AND_LIVE: &str = r#"
picture() { ffmpeg -v error -ss "$1" -i "$2" -frames:v 1 -f md5 -; }
for at in 0 1.9 2 3.7 7.2 9.9; do
  there=$(picture $at movie.mp4)
  test "$(picture $at $S/movie.mp4)" = "$there"
  test "$(picture $at $S/video/index.m3u8)" = "$there"
done
echo same
#> same
ffmpeg -v error -f lavfi -i testsrc=duration=12:rate=10 -c:v libx264 -pix_fmt yuv420p -g 20 \
    -f hls -hls_time 2 -hls_list_size 2 -hls_flags delete_segments -method PUT $S/live/index.m3u8
curl -fsS -H 'Accept: text/plain' $S/live/
#> live/index.m3u8
#> live/index3.ts
#> live/index4.ts
#> live/index5.ts
"#;

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

/// How many answers to GET the server has sent to their ends.
const ANSWERS: &str = r#"
curl -fsS $S/-/metrics | awk '/^data_server_requests_total.*"GET".*"2xx"/ { n += $2 } END { print (n >= 16 ? "many" : n) }'
#> many
"#;

/// 1 GiB, by 16 connections, and resumed at each quarter.
const LARGE: &str = r"
head -c 1G /dev/urandom > huge.bin
curl -fsS -T huge.bin $S/huge.bin
aria2c -q -x 16 -s 16 -k 1M -o copied.bin $S/huge.bin
cmp huge.bin copied.bin
for n in 1 2 3; do
  head -c $((n * 256))M huge.bin > part.bin
  aria2c -q -c -x 16 -s 16 -o part.bin $S/huge.bin
  cmp huge.bin part.bin
done
echo same
#> same
";

/// 10,000 keys in 100 folders, and as many in one, which is what a page holds.
const MANY: &str = r#"
mkdir -p many/{1..100} many/all
for f in {1..100}; do for n in {1..100}; do echo $f $n > many/$f/$n; echo $f $n > many/all/$f-$n; done; done
find many -type f -printf "upload-file = \"%p\"\nurl = \"$S/%p\"\n" | curl -fsS -K -
"#;

const SAME: &str = "
diff -r many copied
echo same
#> same
";
