//! Build caches by the lines of docs/caching.md, under eviction: a bound smaller than what a build stores, and a token
//! that may create and not replace. Each build must be right, what is asked for again must hit, and the directory must
//! stay within the bound.

use crate::client::Client;
use crate::page::cache_lines;
use crate::plain::{GRADLE_HOME, GRADLE_SETTINGS};
use crate::support::needed;

/// `bounded SIZE` starts a server with that bound; `S`, `HOST` and `T` are as on the page. `judged` compares what the
/// program has built with what it should be, and the directory with the bound.
const BOUNDED: &str = r#"
HOST=127.0.0.1:8082
S=http://$HOST
bounded() {
    bound=$1
    data-server new-token > token.txt
    T=$(head -n 1 token.txt)
    cat > access.toml <<END
[[subject]]
name = "main"
token = "$(tail -n 1 token.txt)"
[[rule]]
who = ["main"]
may = ["read", "create"]
[[rule]]
who = ["main"]
prefix = "bazel/"
may = ["write"]
[[rule]]
who = ["main"]
prefix = "sccache/."
may = ["write"]
END
    chmod 600 access.toml
    data-server --dir bounded --listen $HOST --access access.toml --content 'prefix = "bazel/ac/", kind = "bazel-ac"' --max-size $1 --access-log --log-level debug > out.log 2> err.log &
    server=$!
    until grep -qs listening out.log; do sleep 0.1; done
}
hits() { grep 'method="GET"' err.log | grep -c 'status=200' || true; }
judged() {
    find bounded -name .data-server -prune -o -type f -printf '%b\n' | awk -v bound=$bound '{ sum += $1 / 2 }
        END { print sum <= bound + 0 ? "within the bound" : sum " KiB are beyond " bound }'
    (( $(grep -c 'a value is removed' err.log) > 0 )) && echo "values went"
    (( $(hits) > 0 )) && echo "values were found"
    kill $server
    wait $server || true
}
"#;

/// What `judged` prints.
const JUDGED: &str = "
judged
#> within the bound
#> values went
#> values were found
";

/// Runs `lines` with the settings of the page for this program, beside a server with a bound of this size.
fn under_eviction(client: &mut Client, name: &str, bound: &str, lines: &str) {
    client.run(BOUNDED);
    client.run(&format!("bounded {bound}"));
    let lines = lines.replace("SETTINGS", &cache_lines(name));
    client.run(&(lines + JUDGED));
}

/// Compiles 24 files, each by an empty local cache and each with one file again that is always asked for.
const COMPILES: &str = r#"
SETTINGS
for n in {0..24}; do
    echo "const char text$n[] = \"$(seq 1 2000 | sha512sum | head -c 100)$n\"; int f$n(void) { return $n; }" > $n.c
    gcc -c $n.c -o $n.right.o
done
for n in {1..24} {20..24}; do
    for one in 0 $n; do
        EMPTY
        COMPILER gcc -c $one.c -o $one.o
        cmp $one.o $one.right.o
    done
done
"#;

#[test]
fn ccache_builds_right_under_eviction() {
    let mut client = needed!(Client::of("ccache"));
    let lines = COMPILES.replace("EMPTY", "ccache -C > /dev/null 2>&1");
    let lines = lines.replace("COMPILER", "ccache");
    under_eviction(&mut client, "ccache", "64KiB", &lines);
}

#[test]
fn sccache_builds_right_under_eviction() {
    let mut client = needed!(Client::of("sccache"));
    // No server of its own that outlives the test, nor one of another test.
    let port = "export SCCACHE_SERVER_PORT=$((20000 + RANDOM % 10000)) SCCACHE_IDLE_TIMEOUT=60\n";
    let lines = COMPILES
        .replace("EMPTY", ":")
        .replace("COMPILER", "sccache");
    let end = "sccache --show-stats | grep -E '^Cache (write|read) errors' | tr -s ' '\n#> Cache read errors 0\n#> Cache write errors 0\nsccache --stop-server > /dev/null\n";
    let lines = port.to_owned() + &lines + end;
    under_eviction(&mut client, "sccache", "64KiB", &lines);
}

/// Ten tasks, whose outputs are known; the last again after all.
const TASKS: &str = r"
SETTINGS
right() { for n in $*; do cmp packages/p$n/dist/out <(seq $n 4000); done; }
for pass in 1 2; do
    forget
    build > build.log 2>&1 || { cat build.log; false; }
    right {1..10}
done
for pass in 1 2; do
    forget
    build_one > build.log 2>&1 || { cat build.log; false; }
    right 1
done
grep -oE '1/1 hit|1 cached, 1 total' build.log
#> 1...
";

const TURBOREPO: &str = r#"
export TURBO_TELEMETRY_DISABLED=1 PATH=$CLIENTS/caches/node_modules/.bin:$PATH
echo '{ "name": "work", "private": true, "workspaces": ["packages/*"], "packageManager": "npm@10.0.0" }' > package.json
echo '{ "tasks": { "build": { "outputs": ["dist/**"] } } }' > turbo.json
for n in {1..10}; do
    mkdir -p packages/p$n
    echo "{ \"name\": \"p$n\", \"scripts\": { \"build\": \"mkdir -p dist && seq $n 4000 > dist/out\" } }" > packages/p$n/package.json
done
forget() { rm -rf packages/*/dist; }
build() { turbo run build --cache=remote:rw; }
build_one() { turbo run build --cache=remote:rw --filter=p1; }
"#;

#[test]
fn turborepo_builds_right_under_eviction() {
    let mut client = needed!(Client::of("Turborepo"));
    client.run(TURBOREPO);
    under_eviction(&mut client, "Turborepo", "96KiB", TASKS);
}

const NX: &str = r#"
export NX_DAEMON=false NX_TUI=false CI=true PATH=$CLIENTS/caches/node_modules/.bin:$PATH
ln -s $CLIENTS/caches/node_modules node_modules
echo '{ "name": "work", "private": true }' > package.json
echo '{ "targetDefaults": { "build": { "cache": true, "outputs": ["{projectRoot}/dist"] } }, "analytics": false }' > nx.json
for n in {1..10}; do
    mkdir -p packages/p$n
    command="mkdir -p packages/p$n/dist && seq $n 4000 > packages/p$n/dist/out"
    echo "{ \"name\": \"p$n\", \"targets\": { \"build\": { \"command\": \"$command\" } } }" > packages/p$n/project.json
done
forget() { rm -rf packages/*/dist .nx; }
build() { nx run-many -t build; }
build_one() { nx run p1:build; }
"#;

#[test]
fn nx_builds_right_under_eviction() {
    let mut client = needed!(Client::of("Nx"));
    client.run(NX);
    under_eviction(&mut client, "Nx", "64KiB", TASKS);
}

const BAZEL: &str = r#"
cat > .bazelrc <<END
startup --batch
SETTINGS
END
touch WORKSPACE MODULE.bazel
for n in {1..12}; do
    echo "genrule(name = \"p$n\", outs = [\"$n.txt\"], cmd = \"seq $n 4000 > \$@\")"
done > BUILD
for goals in //:all //:all //:p1 //:p1; do
    bazel clean > clean.log 2>&1
    bazel build $goals > build.log 2>&1 || { cat build.log; false; }
    for built in bazel-bin/*.txt; do cmp $built <(seq $(basename $built .txt) 4000); done
done
grep -o '1 remote cache hit' build.log
#> 1 remote cache hit
"#;

#[test]
fn bazel_builds_right_under_eviction() {
    let mut client = needed!(Client::of("Bazel"));
    under_eviction(&mut client, "Bazel", "160KiB", BAZEL);
}

/// Of actions whose outputs differ each time: the outputs of one, and a file of the directory of the other, go as by
/// eviction. The build is right, the entries are made anew, and hit again. A build without the bytes, which takes an
/// entry for its outputs until it needs one, does not fail for one that is gone.
const REMADE: &str = r#"
cat > .bazelrc <<END
startup --batch
SETTINGS
END
touch WORKSPACE MODULE.bazel
cat > rules.bzl <<'END'
def _tree(ctx):
    out = ctx.actions.declare_directory("tree")
    command = "mkdir -p $1 && date +%s%N > $1/now.txt && seq 4000 > $1/seq.txt"
    ctx.actions.run_shell(outputs = [out], command = command, arguments = [out.path])
    return DefaultInfo(files = depset([out]))

tree = rule(implementation = _tree)
END
cat > BUILD <<'END'
load(":rules.bzl", "tree")
genrule(name = "now", outs = ["now.txt"], cmd = "date +%s%N > $@")
tree(name = "tree")
END
build() {
    bazel clean > clean.log 2>&1
    bazel build //:all > build.log 2>&1 || { cat build.log; false; }
    cmp bazel-bin/tree/seq.txt <(seq 4000)
    grep -oE '[0-9]+ remote cache hit' build.log || echo 'no hit'
}
lose() { rm bounded/bazel/cas/$(sha256sum < $1 | cut -d' ' -f1); }
build
#> no hit
build
#> 2 remote cache hit
lose bazel-bin/now.txt
lose bazel-bin/tree/now.txt
build
#> no hit
build
#> 2 remote cache hit
lose bazel-bin/tree/seq.txt
build
#> 1 remote cache hit
build
#> 2 remote cache hit
cat >> BUILD <<'END'
genrule(name = "mid", outs = ["mid.txt"], cmd = "seq 4000 > $@")
genrule(name = "top", srcs = ["mid.txt"], outs = ["top.txt"], cmd = "wc -l < $< > $@")
END
build > /dev/null
lose bazel-bin/mid.txt
sed -i 's/wc -l/wc -c/' BUILD
bazel clean > clean.log 2>&1
bazel build --remote_download_toplevel //:top > build.log 2>&1 || { cat build.log; false; }
cat bazel-bin/top.txt
#> 18893
kill $server
wait $server || true
"#;

#[test]
fn bazel_makes_an_entry_anew_whose_outputs_are_gone() {
    let mut client = needed!(Client::of("Bazel"));
    client.run(BOUNDED);
    client.run("bounded 10MiB");
    client.run(&REMADE.replace("SETTINGS", &cache_lines("Bazel")));
}

const GRADLE: &str = r#"
export GRADLE_OPTS=-Dorg.gradle.internal.http.socketTimeout=10000
cat > settings.gradle <<END
rootProject.name = 'work'
SETTINGS
buildCache { local { enabled = false } }
END
cat > build.gradle <<'END'
(1..10).each { n ->
    task "p$n" {
        outputs.file("build/${n}.txt")
        outputs.cacheIf { true }
        inputs.property("n", n)
        doLast { file("build/${n}.txt").text = (n..4000).join("\n") + "\n" }
    }
}
task all { dependsOn((1..10).collect { "p$it" }) }
END
for goal in all all p1 p1; do
    rm -rf build .gradle
    gradle --console=plain --build-cache $goal > build.log 2>&1 || { cat build.log; false; }
    for built in build/*.txt; do cmp $built <(seq $(basename $built .txt) 4000); done
done
grep -o ':p1 FROM-CACHE' build.log
#> :p1 FROM-CACHE
"#;

#[test]
fn gradle_builds_right_under_eviction() {
    let mut client = needed!(Client::of("Gradle"));
    client.place(GRADLE_SETTINGS.0, GRADLE_SETTINGS.1);
    client.run(GRADLE_HOME);
    under_eviction(&mut client, "Gradle", "64KiB", GRADLE);
}
