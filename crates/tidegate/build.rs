//! How the program is linked: with its relocations packed, where the system can read that.
//!
//! A position-independent program relocates its tables when it starts. Packed (DT_RELR), what the loader has to read for
//! that shrinks from 400 kB to some 10 kB, which every process of the edge would keep mapped. glibc reads it from 2.36 on,
//! and refuses to start a program that needs it before. A program that BOLT is to lay out anew (`dist/build`) keeps all of them plain:
//! BOLT 19 writes into the wrong places where they are packed, and the program does not start.

use std::process::Command;

const GLIBC_LEAST: (u32, u32) = (2, 36);

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let variable = |name: &str| std::env::var(name).unwrap_or_default();
    let is_glibc = variable("CARGO_CFG_TARGET_OS") == "linux" && variable("CARGO_CFG_TARGET_ENV") == "gnu";
    // Built for another machine: nobody knows what that one has.
    let is_native = variable("HOST") == variable("TARGET");
    let is_for_bolt = variable("CARGO_ENCODED_RUSTFLAGS").contains("--emit-relocs");
    if is_glibc && is_native && !is_for_bolt && glibc().is_some_and(|version| version >= GLIBC_LEAST) {
        println!("cargo:rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
}

/// The version of the C library of this machine.
fn glibc() -> Option<(u32, u32)> {
    let output = Command::new("getconf").arg("GNU_LIBC_VERSION").output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let (major, minor) = text.trim().strip_prefix("glibc ")?.split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}
