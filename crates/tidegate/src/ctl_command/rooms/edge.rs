//! The edge, or HAProxy, by the stats socket.

use std::io::{self, Read as _, Write as _};

use super::{
    super::{
        answer::{Output, Verdict},
        error::CtlError,
        interrupt::Interrupts,
        place::{Place, WhichSocket, find},
        request::{PAYLOAD, Request, wants_contents},
        words::Word,
    },
    Rest, Room, Usage, report,
};

/// Commands that change what the following ones of the same connection mean. Each command has a connection of its own, which begins with those
/// of them that were given.
const OF_THE_SESSION: [&str; 5] = ["expert-mode", "experimental-mode", "operator", "user", "set timeout cli"];
/// What nobody knows is answered like this.
const UNKNOWN: &str = "Unknown command";

/// Commands that the table writes as one, by what may stand in them.
const DETAILS: [&str; 16] = [
    "set server <bk>/<srv> state ready|drain|maint",
    "set server <bk>/<srv> weight <weight>",
    "set server <bk>/<srv> addr <address> port <port>",
    "set server <bk>/<srv> health up|stopping|down",
    "set server <bk>/<srv> agent up|down",
    "set server <bk>/<srv> agent-addr <address>",
    "set server <bk>/<srv> agent-send <text>",
    "set server <bk>/<srv> check-addr <address>",
    "set server <bk>/<srv> check-port <port>",
    "set server <bk>/<srv> fqdn <name>",
    "set rate-limit connections global <value>",
    "set rate-limit sessions global <value>",
    "set rate-limit ssl-sessions global <value>",
    "set rate-limit http-compression global <value>",
    "clear counters all",
    "set timeout cli <delay>",
];

/// The stats socket of a process.
pub struct Edge {
    which: WhichSocket,
    /// What each connection begins with.
    beginning: Vec<String>,
    interrupts: Interrupts,
}

impl Edge {
    /// The one that is named; it is looked for each time, so a reload that moves it is followed.
    pub fn new(which: WhichSocket) -> Self {
        Self { which, beginning: Vec::new(), interrupts: Interrupts::default() }
    }

    /// Has Ctrl-C end what is asked, and not the program.
    ///
    /// # Errors
    /// The signal cannot be had.
    pub fn watch_interrupts(&self) -> io::Result<()> {
        self.interrupts.watch()
    }

    /// Sends one request and prints its answers.
    pub fn ask(&mut self, request: &Request) -> Result<Verdict, CtlError> {
        let (place, interrupts) = (find(&self.which)?, &self.interrupts);
        // A master's socket does not know the setting; what it says of errors is not told from the rest.
        let knows_severities = place.converse("set severity-output number\n", |mut stream| {
            let mut text = String::new();
            stream.read_to_string(&mut text).map(|_| text.trim().is_empty())
        })?;
        let mut prefix: String = self.beginning.iter().map(|command| format!("{command};")).collect();
        let mut silent = self.beginning.len();
        if knows_severities {
            prefix.push_str("set severity-output number;");
            silent += 1;
        }
        let mut output = Output::new(knows_severities, silent, io::stdout().lock(), io::stderr().lock());
        let told = place.converse(&format!("{prefix}{}", request.text()), |stream| {
            let _guard = interrupts.end(&*stream)?;
            output.copy(stream)
        })?;
        io::stdout().flush().map_err(CtlError::Output)?;
        if !told.has_answered && !interrupts.was_seen() {
            return Err(CtlError::NoAnswer { place: place.to_string() });
        }
        Ok(told.verdict)
    }

    /// The answer to a command as it is.
    fn answer(&self, place: &Place, command: &str) -> Result<String, CtlError> {
        place.converse(&format!("{command}\n"), |mut stream| {
            let mut bytes = Vec::new();
            stream.read_to_end(&mut bytes)?;
            Ok(String::from_utf8_lossy(&bytes).into_owned())
        })
    }

    /// The lines of an answer, for completion: none if it is late.
    fn lines(&self, command: &str) -> Vec<String> {
        let Ok(place) = find(&self.which) else { return Vec::new() };
        self.answer(&place, command).unwrap_or_default().lines().map(str::to_owned).collect()
    }

    /// Remembers a command that is about those behind it.
    fn remember(&mut self, command: &str) {
        let command = command.split_whitespace().collect::<Vec<_>>().join(" ");
        let Some(start) = OF_THE_SESSION
            .iter()
            .find(|start| command.strip_prefix(**start).is_some_and(|rest| rest.is_empty() || rest.starts_with(' ')))
        else {
            return;
        };
        // Each has one value; asked without one, it only tells.
        let sets = !matches!(*start, "expert-mode" | "experimental-mode") || command.len() > start.len();
        if sets {
            self.beginning.retain(|former| !former.starts_with(start));
            self.beginning.push(command);
        }
    }
}

impl Room for Edge {
    fn send(&mut self, command: &str) -> Result<Verdict, CtlError> {
        let mut verdict = Verdict::Fine;
        for request in Request::of_lines(command) {
            let told = self.ask(&request)?;
            if told == Verdict::Fine {
                for part in request.commands() {
                    self.remember(part);
                }
            }
            verdict = verdict.and(told);
        }
        Ok(verdict)
    }

    fn tell(&mut self, word: Word) -> Result<String, CtlError> {
        let place = find(&self.which)?;
        let ask = |command: &str| self.answer(&place, command);
        let statistics = || Ok::<_, CtlError>(report::Statistics::of_csv(&ask("show stat")?));
        // What HAProxy does not have is told by what it has.
        let own = |command: &str| Ok::<_, CtlError>(Some(ask(command)?).filter(|text| !text.starts_with(UNKNOWN)));
        Ok(match word {
            Word::Uptime => report::uptime(&report::Info::of_lines(&ask("show info")?)),
            Word::Workers => report::workers(&ask("show activity")?),
            Word::Connections => report::connections(&report::Info::of_lines(&ask("show info")?), &statistics()?),
            Word::Servers => report::servers(&statistics()?),
            Word::Memory => report::memory(&report::Info::of_lines(&ask("show info")?), &ask("show pools")?),
            Word::Routes => match own("show routes")? {
                Some(text) => format!("{}\n", text.trim_end()),
                None => report::servers(&statistics()?),
            },
            Word::Plugins => match own("show plugins")? {
                Some(text) => format!("{}\n", text.trim_end()),
                None => "this program has no plugins\n".to_owned(),
            },
        })
    }

    fn usages(&mut self) -> Vec<Usage> {
        let of_table = admin::cli::COMMANDS.iter().filter(|command| !command.usage.is_empty());
        let of_table = of_table.map(|command| Usage::new(command.usage, command.doc));
        let of_session =
            ["expert-mode [on|off]", "experimental-mode [on|off]"].into_iter().map(|text| Usage::new(text, ""));
        of_table.chain(of_session).chain(DETAILS.into_iter().map(|text| Usage::new(text, ""))).collect()
    }

    fn names(&mut self, placeholder: &str) -> Vec<String> {
        let first_words = |command: &str, is_one: fn(&str) -> bool, place: usize| -> Vec<String> {
            let lines = self.lines(command);
            let lines = lines.iter().filter(|line| is_one(line));
            lines.filter_map(|line| line.split_whitespace().nth(place).map(str::to_owned)).collect()
        };
        let statistics = || report::Statistics::of_csv(&self.lines("show stat").join("\n"));
        match placeholder {
            "<bk>/<srv>" => statistics().servers(),
            "<bk>" | "<backend>" => statistics().named("BACKEND"),
            "<frontend>" => statistics().named("FRONTEND"),
            "<px>" => {
                let statistics = statistics();
                let mut names = [statistics.named("FRONTEND"), statistics.named("BACKEND")].concat();
                names.sort();
                names.dedup();
                names
            }
            // `# table: NAME, type: ip, size:1000, used:0`
            "<table>" => first_words("show table", |line| line.starts_with("# table:"), 2)
                .iter()
                .map(|name| name.trim_end_matches(',').to_owned())
                .collect(),
            // `0 (/etc/haproxy/hosts.map) pattern loaded from file ...`: by its file, or by its number
            "<map>" | "<acl>" => {
                let lines = self.lines(if placeholder == "<map>" { "show map" } else { "show acl" });
                let lines = lines.iter().filter(|line| !line.starts_with('#') && !line.is_empty());
                let name = |line: &String| {
                    let file = line.split_once('(')?.1.split_once(')')?.0;
                    let number = line.split_whitespace().next()?;
                    Some(if file.is_empty() { format!("#{number}") } else { file.to_owned() })
                };
                lines.filter_map(name).collect()
            }
            "<certfile>" => first_words("show ssl cert", |line| !line.starts_with('#') && !line.is_empty(), 0),
            "<list>" => first_words("show ssl crt-list", |line| !line.starts_with('#') && !line.is_empty(), 0),
            "<certificate>" => first_words("acme status", |line| !line.starts_with('#') && !line.is_empty(), 0),
            _ => Vec::new(),
        }
    }

    fn rest_of(&self, line: &str, from_terminal: bool) -> Rest {
        if line.trim_end().ends_with(PAYLOAD) || from_terminal && wants_contents(line) {
            Rest::UntilEmpty
        } else {
            Rest::None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_about_following_commands_is_remembered_once() {
        let mut edge = Edge::new(WhichSocket::default());
        for command in
            ["show info", "expert-mode", "expert-mode on", "set timeout cli 10s", "expert-mode  off", "users x"]
        {
            edge.remember(command);
        }
        assert_eq!(edge.beginning, ["set timeout cli 10s", "expert-mode off"]);
    }
}
