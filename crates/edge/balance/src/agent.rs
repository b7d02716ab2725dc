//! What an agent says of its server (`agent-check`): one line of words, and after `#` a description.
//!
//! Words stand in any order, divided by blanks or commas, in any case; of several of a kind the last one counts.
//!
//! | word | what it does |
//! |---|---|
//! | `up` | the server works, as far as the agent can tell |
//! | `down`, `stopped`, `fail` | it does not |
//! | `ready`, `drain`, `maint` | the administrative state |
//! | `75%` | the weight, of the one in the configuration |
//! | `maxconn:30` | the limit of connections |

/// A line of an agent, read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AgentReply {
    /// Whether the server works, and the word that says so.
    pub health: Option<(bool, String)>,
    /// The administrative state.
    pub admin: Option<AgentAdmin>,
    /// The weight: digits and a percent sign, and whatever else stands in that word.
    pub weight: Option<String>,
    /// The limit of connections, as it was written.
    pub maxconn: Option<String>,
    /// The first word that means nothing.
    pub unknown: Option<String>,
    /// What stands behind `#`.
    pub description: String,
}

/// The administrative state that an agent asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AgentAdmin {
    /// `ready`.
    Ready,
    /// `drain`.
    Drain,
    /// `maint`.
    Maint,
}

/// What has come from an agent so far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AgentLine {
    /// The line has no end yet.
    Wait,
    /// It never will have one.
    Incomplete,
    /// A line.
    Reply(AgentReply),
}

impl AgentLine {
    /// Reads what an agent has sent; `ended` says that no more will come.
    pub fn read(bytes: &[u8], ended: bool) -> Self {
        let end = bytes.iter().position(|byte| matches!(byte, b'\n' | b'\r' | 0));
        match end {
            Some(end) if bytes.get(end) != Some(&0) => {
                Self::Reply(AgentReply::parse(&String::from_utf8_lossy(bytes.get(..end).unwrap_or_default())))
            }
            _ if ended => Self::Incomplete,
            _ => Self::Wait,
        }
    }
}

impl AgentReply {
    fn parse(line: &str) -> Self {
        const BLANK: [char; 3] = [' ', '\t', ','];
        let mut reply = Self::default();
        let mut rest = line;
        loop {
            rest = rest.trim_start_matches(BLANK);
            if let Some(description) = rest.strip_prefix('#') {
                description.trim_start_matches([' ', '\t']).clone_into(&mut reply.description);
                return reply;
            }
            let end = rest.find(BLANK).unwrap_or(rest.len());
            let (word, after) = rest.split_at(end);
            if word.is_empty() {
                return reply;
            }
            reply.word(word);
            rest = after;
        }
    }

    fn word(&mut self, word: &str) {
        const MAXCONN: &str = "maxconn:";
        match word.to_ascii_lowercase().as_str() {
            "up" => self.health = Some((true, word.to_owned())),
            "down" | "stopped" | "fail" => self.health = Some((false, word.to_owned())),
            "ready" => self.admin = Some(AgentAdmin::Ready),
            "drain" => self.admin = Some(AgentAdmin::Drain),
            "maint" => self.admin = Some(AgentAdmin::Maint),
            lower => {
                if word.starts_with(|first: char| first.is_ascii_digit()) && word.contains('%') {
                    self.weight = Some(word.to_owned());
                } else if lower.starts_with(MAXCONN) {
                    self.maxconn = Some(word.get(MAXCONN.len()..).unwrap_or_default().to_owned());
                } else {
                    self.unknown.get_or_insert_with(|| word.to_owned());
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_agents() {
        let health = |works, word: &str| Some((works, word.to_owned()));
        let text = |text: &str| Some(text.to_owned());
        let none = AgentReply::default;
        for (line, expected) in [
            ("", none()),
            ("up", AgentReply { health: health(true, "up"), ..none() }),
            ("DOWN", AgentReply { health: health(false, "DOWN"), ..none() }),
            ("up,fail", AgentReply { health: health(false, "fail"), ..none() }),
            (
                "stopped # going  away",
                AgentReply { health: health(false, "stopped"), description: "going  away".into(), ..none() },
            ),
            (
                " ready\t75%, up ",
                AgentReply {
                    health: health(true, "up"),
                    admin: Some(AgentAdmin::Ready),
                    weight: text("75%"),
                    ..none()
                },
            ),
            ("drain maint 10% 20%", AgentReply { admin: Some(AgentAdmin::Maint), weight: text("20%"), ..none() }),
            ("MaxConn:30 maxconn:", AgentReply { maxconn: text(""), ..none() }),
            ("maxconn:30", AgentReply { maxconn: text("30"), ..none() }),
            ("100 %5 what up#x", AgentReply { unknown: text("100"), ..none() }),
            ("#up", AgentReply { description: "up".into(), ..none() }),
        ] {
            assert_eq!(AgentReply::parse(line), expected, "{line:?}");
        }
    }

    #[test]
    fn lines_of_agents() {
        let up = AgentReply { health: Some((true, "up".to_owned())), ..AgentReply::default() };
        for (bytes, ended, expected) in [
            (&b"up\n"[..], false, AgentLine::Reply(up.clone())),
            (b"up\r\ndown\n", true, AgentLine::Reply(up)),
            (b"up", false, AgentLine::Wait),
            (b"up", true, AgentLine::Incomplete),
            (b"up\0down\n", true, AgentLine::Incomplete),
            (b"", false, AgentLine::Wait),
        ] {
            assert_eq!(AgentLine::read(bytes, ended), expected, "{bytes:?}");
        }
    }
}
