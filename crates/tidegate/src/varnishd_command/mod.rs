//! `tidegate varnishd`: Varnish's command line. Its options become a configuration of the edge, which runs the program of VCL.

mod configuration;
mod options;

use std::process::ExitCode;

use edge::role::{EdgeOptions, EdgeRole, Given};
use runtime::process::{Introduction, Mode, Options, run_file};

use options::{Parsed, VarnishOptions};

/// The name under which the configuration is read that the options stand for.
const NAME: &str = "varnishd";
/// What `-V` says: which program's place it takes.
const VERSION: &str = "varnishd (varnish-7.1.1, by Tidegate)";

/// Runs as the words say.
pub fn run(words: &[String]) -> ExitCode {
    let options = match options::parse(words) {
        Ok(Parsed::Run(options)) => options,
        Ok(Parsed::Version) => {
            println!("{VERSION}");
            return ExitCode::SUCCESS;
        }
        Ok(Parsed::Usage) => {
            print!("{}", options::USAGE);
            return ExitCode::SUCCESS;
        }
        Err(message) => {
            eprintln!("Error: {message}\n(-? gives usage)");
            return ExitCode::from(2);
        }
    };
    let text = match configuration::write(&options) {
        Ok(text) => text,
        Err(message) => {
            eprintln!("{}", message.trim_end());
            return ExitCode::from(2);
        }
    };
    if options.only_compiles {
        eprintln!("The program is valid. There is no C code to print: VCL is run as it is.");
        return ExitCode::SUCCESS;
    }
    if options.prints_configuration {
        print!("{text}");
        return ExitCode::SUCCESS;
    }
    for warning in &options.warnings {
        if runtime::process::is_first() {
            eprintln!("Warning: {warning}");
        }
    }
    serve(*options, text)
}

fn serve(options: VarnishOptions, text: String) -> ExitCode {
    let daemon = !options.is_foreground;
    let mut edge = EdgeOptions { has_master: true, foreground: !daemon, console: !daemon, ..EdgeOptions::default() };
    edge.language.hostname = rustix::system::uname().nodename().to_string_lossy().into_owned();
    edge.sources.push(NAME.to_owned());
    edge.given = Some(Given { name: NAME.to_owned(), text });
    let introduction = Introduction {
        folder: run_file::own_folder(),
        configuration: vec![options.described()],
        greeting: String::new(),
    };
    let run = Options {
        mode: Mode::MasterWorker,
        daemon,
        pidfile: options.pidfile,
        old_processes: None,
        take_sockets_from: None,
        control: Vec::new(),
        introduction: Some(introduction),
    };
    runtime::process::run(EdgeRole::new(edge), run)
}
