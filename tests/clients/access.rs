//! Programs that send a token or a password.

use crate::client::Client;

#[test]
fn the_lines_for_tokens_and_passwords_run() {
    let Some(mut client) = Client::of("Tokens and passwords") else {
        return;
    };
    client.play();
}

/// A build cache that only one with a password may fill.
const GRADLE: &str = r#"
cat > access.toml <<END
[[subject]]
name = "builder"
password = '$(echo sesame | data-server hash-password)'
[[rule]]
who = ["builder"]
prefix = "gradle/"
may = ["read", "write"]
END
chmod 600 access.toml
data-server --dir private --listen 127.0.0.1:8084 --access access.toml > out.log 2> err.log &
until grep -qs listening out.log; do sleep 0.1; done
mkdir -p src/main/java
echo 'public class Hello { }' > src/main/java/Hello.java
echo "apply plugin: 'java'" > build.gradle
settings() {
    cat > settings.gradle <<END
rootProject.name = 'hello'
buildCache {
    local { enabled = false }
    remote(HttpBuildCache) {
        url = 'http://127.0.0.1:8084/gradle/'
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
    let Some(mut client) = Client::of("Gradle") else {
        return;
    };
    client.run("export GRADLE_USER_HOME=$HOME/.gradle");
    client.place(".gradle/gradle.properties", "org.gradle.daemon=false\n");
    client.run(GRADLE);
}
