//! Publishes traffic that never was, to look at with Varnish's own tools:
//!
//! ```text
//! cargo run -p vsm --example publish -- /tmp/fake 60 &
//! varnishlog -n /tmp/fake -g request
//! varnishstat -n /tmp/fake
//! ```
#![expect(clippy::print_stderr, reason = "it says how it is used")]

#[path = "../tests/support/traffic.rs"]
mod traffic;

use std::{path::Path, process::ExitCode, time::Duration};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (Some(folder), Some(seconds)) = (arguments.first(), arguments.get(1).and_then(|text| text.parse::<u64>().ok()))
    else {
        eprintln!("usage: publish FOLDER SECONDS");
        return ExitCode::FAILURE;
    };
    match run(Path::new(folder), seconds) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn run(folder: &Path, seconds: u64) -> Result<(), vsm::VsmError> {
    let instance = traffic::Instance::begin(folder, 80 << 20)?;
    let writer = instance.log.writer();
    for number in 0..seconds * 100 {
        instance.request(&writer, 2 + 3 * number as u32);
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}
