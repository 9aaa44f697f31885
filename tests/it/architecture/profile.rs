//! Which builds use the profile, by what cargo has rustc asked: benches/profile/rustc beside a compiler that prints
//! what it is asked.

use crate::support::prelude::*;

const VERSION: &str = "rustc 1.95.0\nhost: here\nrelease: 1.95.0";
const LIBRARY: &str =
    "--crate-name hyper -C linker-plugin-lto -C metadata=4ab1 -C extra-filename=-4ab1";
const PROGRAM: &str = "--crate-name data_server -C lto -C metadata=77 --cfg feature=\"a\"";
const TESTS: &str = "--crate-name sha2 -C opt-level=3 -C metadata=5";

/// What the compiler is asked, where cargo asks for `arguments`.
fn asked(place: &Path, version: &str, arguments: &str, train: Option<&str>) -> String {
    let compiler = place.join("compiler of the user");
    let script = format!("#!/bin/sh\n[ \"$1\" = -vV ] && exec echo '{version}'\necho \"$@\"\n");
    fs::write(&compiler, script).unwrap();
    fs::set_permissions(&compiler, fs::Permissions::from_mode(0o755)).unwrap();
    let mut command = Command::new(place.join("rustc"));
    command.arg(compiler).args(arguments.split(' '));
    command.env_remove("DATA_SERVER_TRAIN");
    command.envs(train.map(|train| ("DATA_SERVER_TRAIN", train)));
    command.envs([("CARGO_PKG_NAME", "hyper"), ("CARGO_PKG_VERSION", "1.9.0")]);
    command.envs([
        ("CARGO_PKG_VERSION_MAJOR", "1"),
        ("CARGO_PKG_VERSION_MINOR", "9"),
    ]);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout)
        .unwrap()
        .trim_end()
        .to_owned()
}

#[test]
fn only_a_release_build_by_the_compiler_of_the_profile_uses_it() {
    let place = tempfile::Builder::new().prefix("a b").tempdir().unwrap();
    let dir = place.path();
    let wrapper = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/profile/rustc");
    fs::copy(wrapper, dir.join("rustc")).unwrap();
    // Of a checkout whose profile was removed.
    assert_eq!(asked(dir, VERSION, LIBRARY, None), LIBRARY);
    for target in ["here", "there"] {
        fs::create_dir(dir.join(target)).unwrap();
        fs::write(dir.join(target).join("compiler"), format!("{VERSION}\n")).unwrap();
    }
    // Names of functions stay where a dependency changes, and a function that has changed is no fault.
    let with = |arguments: &str, how: String| {
        let words = arguments
            .split(' ')
            .map(|word| match word.strip_prefix("metadata=") {
                Some(_) => "metadata=hyper 1",
                None => word,
            });
        let words = words.collect::<Vec<_>>().join(" ");
        format!("{words} {how} -Cllvm-args=-no-pgo-warn-mismatch")
    };
    for arguments in [LIBRARY, PROGRAM] {
        for (beside, target) in [("", "here"), (" --target there", "there")] {
            let arguments = format!("{arguments}{beside}");
            let used = format!("-Cprofile-use={}/{target}/server.profdata", dir.display());
            assert_eq!(
                asked(dir, VERSION, &arguments, None),
                with(&arguments, used)
            );
        }
        let elsewhere = format!("{arguments} --target elsewhere");
        assert_eq!(asked(dir, VERSION, &elsewhere, None), elsewhere);
        let newer = VERSION.replace("1.95", "1.96");
        assert_eq!(asked(dir, &newer, arguments, None), arguments);
        let counting = with(arguments, "-Cprofile-generate=/counts".to_owned());
        assert_eq!(asked(dir, &newer, arguments, Some("/counts")), counting);
    }
    for train in [None, Some("/counts")] {
        assert_eq!(asked(dir, VERSION, TESTS, train), TESTS);
    }
}
