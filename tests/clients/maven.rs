//! Maven: a jar that is deployed and resolved.

use crate::client::{Client, installed};
use crate::support::{needed, words};

#[test]
fn the_lines_for_maven_run() {
    let mut client = needed!(Client::of("Maven"));
    // Its plugins come from a copy on this machine; all else is as in a fresh home.
    let plugins = installed().join("maven");
    let mirror = format!(
        "<settings><mirrors><mirror><id>copy</id><mirrorOf>central</mirrorOf>\
         <url>file://{}</url></mirror></mirrors></settings>",
        plugins.display()
    );
    client.place(".m2/settings.xml", &mirror);
    // Java asks the system for the home, not HOME.
    client.place(".mavenrc", "MAVEN_OPTS=-Duser.home=$HOME\n");
    client.play();
    let dir = &client.server().dir;
    for name in words("greeting-1.0.jar greeting-1.0.jar.sha1 greeting-1.0.pom") {
        let key = format!("maven/org/example/greeting/1.0/{name}");
        assert!(!dir.read(key).is_empty(), "{name}");
    }
    dir.assert_nothing_staged();
}
