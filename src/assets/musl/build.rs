//! The build script: a static binary gets a `memcmp` that compares words, in place of musl's, which compares single
//! bytes.
//!
//! HTTP/2 compares names and values of fields with those of its table, so a GET took two fifths more instructions than
//! with another C library (docs/experiments.md).

fn main() {
    const SOURCE: &str = "src/assets/musl/memcmp.c";
    println!("cargo::rerun-if-changed={SOURCE}");
    if std::env::var("CARGO_CFG_TARGET_ENV").is_ok_and(|env| env == "musl") {
        cc::Build::new()
            .file(SOURCE)
            .flag("-fno-builtin")
            .compile("words");
    }
}
