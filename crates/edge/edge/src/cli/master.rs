//! The command line of the master (`-S`): which process a command is for.
//!
//! `@1 show info` goes to the worker, `@!4711 show info` to the process of that number, `@master show proc` to the master
//! itself, and a prefix alone makes its process the one that all further commands are for. This is only the routing: who
//! carries commands to processes and brings the answers is up to the caller.

use super::line::Line;

/// A process that takes commands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Target {
    /// The master itself.
    #[default]
    Master,
    /// The worker of this generation: `@1` is the current one, and as in HAProxy any other number is too.
    Worker,
    /// The worker process of this number.
    Pid(u32),
}

/// What is to be done with a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Route {
    /// Sent to that process.
    To(Target, String),
    /// Nothing: further commands are for another process.
    Moved,
    /// Nothing: the prompt is on or off.
    Prompt,
    /// The end.
    Quit,
    /// An answer at once, and the end.
    Refused(String),
}

/// A conversation with a master.
#[derive(Debug, Default)]
pub struct Router {
    target: Target,
    prompt: bool,
}

impl Router {
    /// Where a command goes.
    pub fn route(&mut self, text: &str) -> Route {
        let line = Line::new(text);
        let first = line.word(0);
        if let Some(prefix) = first.strip_prefix('@') {
            let Some(target) = target(prefix) else {
                return Route::Refused(format!("Can't find the target PID matching the prefix '{first}'\n"));
            };
            let rest = text.trim_start().split_once([' ', '\t']).map_or("", |(_, rest)| rest.trim_start());
            if rest.is_empty() {
                self.target = target;
                return Route::Moved;
            }
            return Route::To(target, rest.to_owned());
        }
        match first {
            "prompt" => {
                self.prompt = !self.prompt;
                Route::Prompt
            }
            "quit" => Route::Quit,
            _ => Route::To(self.target, text.trim().to_owned()),
        }
    }

    /// What the prompt shows, if there is one: `reload_failed` when the last reload did not work.
    #[must_use]
    pub fn prompt(&self, reload_failed: bool) -> Option<String> {
        let name = match self.target {
            Target::Master if reload_failed => "master[ReloadFailed]".to_owned(),
            Target::Master => "master".to_owned(),
            Target::Worker => "1".to_owned(),
            Target::Pid(pid) => pid.to_string(),
        };
        self.prompt.then(|| format!("{name}> "))
    }
}

fn target(prefix: &str) -> Option<Target> {
    match prefix {
        "" | "master" | "0" => Some(Target::Master),
        _ => match prefix.strip_prefix('!') {
            Some(pid) => pid.parse().ok().map(Target::Pid),
            None => prefix.parse::<u32>().ok().map(|_| Target::Worker),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routes() {
        let mut router = Router::default();
        let to = |target, command: &str| Route::To(target, command.to_owned());
        for (line, expected) in [
            ("show proc", to(Target::Master, "show proc")),
            ("@1 show info", to(Target::Worker, "show info")),
            ("@!4711  show stat", to(Target::Pid(4_711), "show stat")),
            ("show version", to(Target::Master, "show version")),
            ("@1", Route::Moved),
            ("show info", to(Target::Worker, "show info")),
            ("@master reload", to(Target::Master, "reload")),
            ("@", Route::Moved),
            ("reload", to(Target::Master, "reload")),
            ("prompt", Route::Prompt),
            ("@x show", Route::Refused("Can't find the target PID matching the prefix '@x'\n".to_owned())),
            ("@! show", Route::Refused("Can't find the target PID matching the prefix '@!'\n".to_owned())),
            ("quit", Route::Quit),
        ] {
            assert_eq!(router.route(line), expected, "{line}");
        }
        assert_eq!(router.prompt(false).as_deref(), Some("master> "));
        router.route("@!12");
        assert_eq!(router.prompt(true).as_deref(), Some("12> "));
    }
}
