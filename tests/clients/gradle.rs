//! Gradle: a remote build cache.

use crate::client::Client;

#[test]
fn the_lines_for_gradle_run() {
    let Some(mut client) = Client::of("Gradle") else {
        return;
    };
    // Java asks the system for the home, not HOME; and no daemon outlives the test.
    client.run("export GRADLE_USER_HOME=$HOME/.gradle");
    client.place(".gradle/gradle.properties", "org.gradle.daemon=false\n");
    client.play();
    client.server().dir.assert_nothing_staged();
}
