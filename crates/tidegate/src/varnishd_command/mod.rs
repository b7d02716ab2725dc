//! `tidegate varnishd`: Varnish's command line. Its options make a manager ([`varnishd::manager`]), which starts this program again as the
//! worker that serves.

mod options;

use std::{os::fd::OwnedFd, process::ExitCode};

use edge::role::{EdgeOptions, EdgeRole, Given, Management};
use runtime::process::{Mode, Options};
use varnishd::{
    configuration,
    manager::{self, WORKER},
    orders::{self, Begin},
};

use options::Parsed;

/// The name under which the configuration is read that the options stand for.
const NAME: &str = "varnishd";
/// What `-V` says: which program's place it takes.
const VERSION: &str = "varnishd (varnish-7.1.1, by Tidegate)";

/// Runs as the words say.
pub fn run(words: &[String]) -> ExitCode {
    if words == [WORKER] {
        return serve();
    }
    let options = match options::parse(words) {
        Ok(Parsed::Run(options)) => *options,
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
    if options.prints_configuration {
        print!("{}", configuration(&options.manager.frontend, &options.manager.parameters));
        return ExitCode::SUCCESS;
    }
    if !manager::is_detached() {
        options.warnings.iter().for_each(|warning| eprintln!("Warning: {warning}"));
    }
    manager::run(options.manager)
}

/// Serves for a manager, which speaks through standard input.
fn serve() -> ExitCode {
    let begun = rustix::io::fcntl_dupfd_cloexec(std::io::stdin(), 3).map_err(std::io::Error::from).and_then(receive);
    let (channel, begin) = match begun {
        Ok(begun) => begun,
        Err(error) => {
            eprintln!("Error: {WORKER} is for the processes that varnishd starts itself: {error}");
            return ExitCode::from(2);
        }
    };
    let mut edge = EdgeOptions { foreground: true, console: true, ..EdgeOptions::default() };
    edge.language.hostname = rustix::system::uname().nodename().to_string_lossy().into_owned();
    edge.sources.push(NAME.to_owned());
    edge.given = Some(Given { name: NAME.to_owned(), text: begin.configuration });
    edge.management = Some(Management::new(channel, begin.orders));
    let run = Options { mode: Mode::Single, ..Options::default() };
    runtime::process::run(EdgeRole::new(edge), run)
}

/// What the manager says first. Standard input leads nowhere after it.
fn receive(channel: OwnedFd) -> std::io::Result<(OwnedFd, Begin)> {
    let null = std::fs::File::open("/dev/null")?;
    rustix::stdio::dup2_stdin(&null)?;
    let mut stream = std::os::unix::net::UnixStream::from(channel);
    let begin = orders::receive(&mut stream)?;
    Ok((stream.into(), begin))
}
