//! Programs that send a token or a password.

use crate::client::Client;
use crate::plain::{GRADLE_HOME, GRADLE_SETTINGS};
use crate::support::needed;

/// A server by the file `access.toml`, and one to whose prefix only one with the password `sesame` comes: `protect NAME
/// PREFIX`.
const SERVE: &str = r#"
serve() {
    chmod 600 access.toml
    data-server --dir private --listen 127.0.0.1:8082 --access access.toml > out.log 2> err.log &
    until grep -qs listening out.log; do sleep 0.1; done
}
protect() {
    cat > access.toml <<END
[[subject]]
name = "$1"
password = '$(echo sesame | data-server hash-password)'
[[rule]]
who = ["$1"]
prefix = "$2"
may = ["read", "write"]
END
    serve
}
"#;

/// A build cache that only one with a password may fill.
const GRADLE: &str = r#"
protect builder gradle/
mkdir -p src/main/java
echo 'public class Hello { }' > src/main/java/Hello.java
echo "apply plugin: 'java'" > build.gradle
settings() {
    cat > settings.gradle <<END
rootProject.name = 'hello'
buildCache {
    local { enabled = false }
    remote(HttpBuildCache) {
        url = 'http://127.0.0.1:8082/gradle/'
        push = true
        credentials { username = 'builder'; password = '$1' }
        if (delegate.hasProperty('allowInsecureProtocol')) allowInsecureProtocol = true
    }
}
END
}
settings wrong
gradle -q --build-cache compileJava 2> log
ls private
settings sesame
rm -r build .gradle
gradle -q --build-cache compileJava 2> log
ls private
#> gradle
rm -r build .gradle
gradle --console=plain --build-cache compileJava 2> log | grep FROM-CACHE
#> ...:compileJava FROM-CACHE
kill $!
wait
"#;

#[test]
fn gradle_fills_a_cache_with_a_password_and_not_without() {
    let mut client = needed!(Client::of("Gradle"));
    client.run(GRADLE_HOME);
    client.place(GRADLE_SETTINGS.0, GRADLE_SETTINGS.1);
    client.run(SERVE);
    client.run(GRADLE);
}

/// Data that only one with a password may push and pull.
const DVC: &str = r#"
protect alice dvc/
mkdir work
cd work
git init -q
dvc init -q
dvc remote add -q --default store http://127.0.0.1:8082/dvc
dvc remote modify -q store method PUT
dvc remote modify -q --local store auth basic
dvc remote modify -q --local store user alice
dvc remote modify -q --local store password open
echo one > one.txt
dvc add -q one.txt
dvc push > ../log 2>&1 || echo "ends with $?"
#> ends with 1
grep -o -m 1 "401, message='Unauthorized'" ../log
#> 401, message='Unauthorized'
ls ../private
dvc remote modify -q --local store password sesame
dvc push -q
rm -r one.txt .dvc/cache
dvc pull -q
cat one.txt
#> one
find ../private/dvc -type f | wc -l
#> 1
kill $!
wait
"#;

#[test]
fn dvc_pushes_and_pulls_with_a_password_and_not_without() {
    let mut client = needed!(Client::of("DVC"));
    let quiet = "[core]\nanalytics = false\ncheck_update = false\n";
    client.place(".config/dvc/config", quiet);
    client.run(SERVE);
    client.run(DVC);
}

/// Each program as one that does not know the password, and as one that lacks the right. `refused` says how it ends,
/// and what it says of why.
const REFUSED: &str = r#"
head -c 24 /dev/urandom | base64 > token
cat > access.toml <<END
[[subject]]
name = "ci"
token = "sha256:$(tr -d '\n' < token | sha256sum | cut -d ' ' -f 1)"
[[subject]]
name = "alice"
password = '$(echo sesame | data-server hash-password)'
[[rule]]
who = ["ci"]
prefix = "ci/"
may = ["read", "list"]
[[rule]]
who = ["alice"]
prefix = "alice/"
may = ["read", "write", "list"]
END
serve
P=127.0.0.1:8082
T=$(sed 's/+/%2B/g; s/\//%2F/g' token)
mkdir -p private/ci private/alice
echo one > one.txt
cp one.txt private/ci/one
cp one.txt private/alice/one
refused() {
    local why=$1 code=0
    shift
    "$@" > said 2>&1 || code=$?
    grep -o -m 1 "$why" said || cat said
    echo "$1 ends with $code"
}
refused 'error: 401' curl -sS --fail --oauth2-bearer unknown http://$P/ci/one
#> error: 401
#> curl ends with 22
refused 'authentication required.*' curl -sS --fail-with-body -u alice:open -T one.txt http://$P/alice/two
#> authentication required: send a valid token, or name and password
#> curl ends with 22
refused 'not allowed.*' curl -sS --fail-with-body --oauth2-bearer "$(cat token)" -T one.txt http://$P/ci/two
#> not allowed: this needs the right to create here
#> curl ends with 22
refused 'Username.*' wget -O - --user alice --password open http://$P/alice/one
#> Username/Password Authentication Failed.
#> wget ends with 6
refused 'ERROR 403.*' wget -O - --user alice --password sesame http://$P/ci/one
#> ERROR 403: Forbidden.
#> wget ends with 8
list() { rclone lsf --retries 1 --config /dev/null --http-url "$1" :http:; }
refused 'HTTP Error.*' list "http://alice:open@$P/alice/"
#> HTTP Error: 401 Unauthorized
#> list ends with 1
refused 'HTTP Error.*' list "http://alice:sesame@$P/ci/"
#> HTTP Error: 403 Forbidden
#> list ends with 1
export GIT_TERMINAL_PROMPT=0
refused 'fatal: Authentication failed' git clone -q "http://ci:unknown@$P/ci/served.git" cloned
#> fatal: Authentication failed
#> git ends with 128
refused 'not allowed.*' git clone -q "http://alice:sesame@$P/ci/served.git" cloned
#> not allowed: this needs the right to read here
#> git ends with 128
refused 'not allowed.*' git clone -q "http://ci:$T@$P/alice/served.git" cloned
#> not allowed: this needs the right to read here
#> git ends with 128
# A compiler cache that is refused is a cache that has nothing: the compiler runs.
export CCACHE_DIR=$PWD/ccache CCACHE_REMOTE_STORAGE="http://ci:unknown@$P/ci"
echo 'int one;' > one.c
ccache gcc -c one.c
ccache --print-stats | grep -E '^remote_storage_(error|hit|write)'
#> remote_storage_error	1
#> remote_storage_hit	0
#> remote_storage_write	0
ls -R private
#> private:
#> alice
#> ci
#>
#> private/alice:
#> one
#>
#> private/ci:
#> one
kill $!
wait
"#;

#[test]
fn clients_say_that_they_are_refused_and_why() {
    let mut client = needed!(Client::of("Tokens and passwords"));
    client.run(SERVE);
    client.run(REFUSED);
}
