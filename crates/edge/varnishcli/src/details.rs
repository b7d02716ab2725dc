//! What `backend.list -p` says of a backend or a director beside its line, in words and in JSON.

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

use crate::json;

/// What there is to say.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub enum BackendDetails {
    /// A backend without a probe.
    #[default]
    Nothing,
    /// The results of its probe.
    Probe(ProbeDetails),
    /// What a director chooses among.
    Members(DirectorDetails, Vec<MemberEntry>),
}

/// The results of a probe.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ProbeDetails {
    /// The whole of it in words.
    pub lines: String,
    /// What happened, a bit for each time, the last one the lowest: IPv4, IPv6, a local socket, failed to send, sent, failed to receive,
    /// received, good.
    pub bits: [u64; 8],
    /// Good ones in the window.
    pub good: u32,
    /// Good ones that it takes.
    pub threshold: u32,
    /// Results that count.
    pub window: u32,
}

/// What a director goes by.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum DirectorDetails {
    /// One after the other.
    RoundRobin,
    /// Weights.
    Random,
    /// The first healthy one, or where it is.
    Fallback {
        /// Whether it stays where it is.
        sticky: bool,
    },
    /// A ring.
    Shard {
        /// The part of requests that go to the next one.
        warmup: f64,
        /// Seconds in which a backend that is healthy again gets its requests little by little.
        rampup: f64,
    },
}

/// A member of a director.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MemberEntry {
    /// Its name.
    pub name: String,
    /// Whether it may be asked.
    pub is_healthy: bool,
    /// Its weight.
    pub weight: f64,
    /// Whether a fallback director is at it.
    pub is_current: bool,
    /// What it is called on a ring.
    pub ident: String,
    /// The part of its requests that it gets so soon after it became healthy, and seconds until it gets all.
    pub rampup: (f64, f64),
}

/// The names of a probe's bits.
const BITS: [&str; 8] = ["bits_4", "bits_6", "bits_U", "bits_x", "bits_X", "bits_r", "bits_R", "bits_H"];

fn health(is_healthy: bool) -> &'static str {
    if is_healthy { "healthy" } else { "sick" }
}

impl MemberEntry {
    fn json(&self, director: &DirectorDetails) -> String {
        let health = ("health", json::string(health(self.is_healthy)));
        let members = match director {
            DirectorDetails::RoundRobin => vec![health],
            DirectorDetails::Random => vec![("weight", real(self.weight_in_use())), health],
            DirectorDetails::Fallback { .. } => vec![("current", self.is_current.to_string()), health],
            DirectorDetails::Shard { .. } => vec![
                ("ident", json::string(&self.ident)),
                health,
                ("rampup", real(self.rampup.0)),
                ("rampup_remaining", format!("{:.3}", self.rampup.1)),
            ],
        };
        json::object(&members)
    }

    fn weight_in_use(&self) -> f64 {
        if self.is_healthy { self.weight } else { 0.0 }
    }
}

/// A number as it is written.
fn real(number: f64) -> String {
    format!("{number:.6}")
}

impl BackendDetails {
    /// What stands below the line of the backend; columns are separated by tabs.
    pub(crate) fn lines(&self) -> String {
        let (director, members) = match self {
            Self::Nothing => return String::new(),
            Self::Probe(probe) => return format!("{}\n\n", probe.lines.trim_end()),
            Self::Members(director, members) => (director, members),
        };
        let head = match director {
            DirectorDetails::RoundRobin | DirectorDetails::Random => "Backend\tWeight\tHealth",
            DirectorDetails::Fallback { .. } => "Backend\tCurrent\tHealth",
            DirectorDetails::Shard { .. } => "Backend\tIdent\tHealth\tRampup  Remaining",
        };
        let mut text = format!("\n\t{head}\n");
        let sum: f64 = members.iter().map(MemberEntry::weight_in_use).sum();
        for member in members {
            let second = match director {
                DirectorDetails::RoundRobin => "-".to_owned(),
                DirectorDetails::Random if sum > 0.0 => format!("{:6.2}%", 100.0 * member.weight_in_use() / sum),
                DirectorDetails::Random => format!("{:6.2}%", 0.0),
                DirectorDetails::Fallback { .. } => if member.is_current { "*" } else { "" }.to_owned(),
                DirectorDetails::Shard { .. } => member.ident.clone(),
            };
            // Writing to memory cannot fail.
            let _ = write!(text, "\t{}\t{second}\t{}", member.name, health(member.is_healthy));
            if matches!(director, DirectorDetails::Shard { .. }) {
                let (part, left) = member.rampup;
                let _ = write!(text, "\t{:6.2}% {left:8.3}s", 100.0 * part);
            }
            text.push('\n');
        }
        text.push('\n');
        text
    }

    /// The same as JSON.
    pub(crate) fn json(&self) -> String {
        let (director, members) = match self {
            Self::Nothing => return "{}".to_owned(),
            Self::Probe(probe) => return probe.json(),
            Self::Members(director, members) => (director, members),
        };
        let listed: Vec<(&str, String)> =
            members.iter().map(|member| (member.name.as_str(), member.json(director))).collect();
        let listed = json::object(&listed);
        let mut about = match director {
            DirectorDetails::RoundRobin => Vec::new(),
            DirectorDetails::Random => {
                vec![("total_weight", real(members.iter().map(MemberEntry::weight_in_use).sum()))]
            }
            DirectorDetails::Fallback { sticky } => vec![("sticky", sticky.to_string())],
            DirectorDetails::Shard { warmup, rampup } => {
                vec![("warmup", real(*warmup)), ("rampup_duration", real(*rampup))]
            }
        };
        about.push(("backends", listed));
        json::object(&about)
    }
}

impl ProbeDetails {
    fn json(&self) -> String {
        let mut members: Vec<(&str, String)> =
            BITS.into_iter().zip(self.bits.iter().map(ToString::to_string)).collect();
        for (name, number) in [("good", self.good), ("threshold", self.threshold), ("window", self.window)] {
            members.push((name, number.to_string()));
        }
        json::object(&members)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(name: &str, is_healthy: bool, weight: f64) -> MemberEntry {
        let rampup = (if is_healthy { 1.0 } else { 0.0 }, 0.0);
        MemberEntry { name: name.to_owned(), ident: name.to_owned(), is_healthy, weight, rampup, is_current: false }
    }

    #[test]
    fn members_are_said_as_in_varnish() {
        let members = vec![member("one", false, 3.0), member("three", true, 1.0)];
        let lines = |director| BackendDetails::Members(director, members.clone()).lines();
        for (director, expected) in [
            (DirectorDetails::RoundRobin, "Backend\tWeight\tHealth\n\tone\t-\tsick\n\tthree\t-\thealthy"),
            (DirectorDetails::Random, "Backend\tWeight\tHealth\n\tone\t  0.00%\tsick\n\tthree\t100.00%\thealthy"),
            (
                DirectorDetails::Fallback { sticky: false },
                "Backend\tCurrent\tHealth\n\tone\t\tsick\n\tthree\t\thealthy",
            ),
            (
                DirectorDetails::Shard { warmup: 0.0, rampup: 0.0 },
                "Backend\tIdent\tHealth\tRampup  Remaining\n\tone\tone\tsick\t  0.00%    0.000s\n\t\
                 three\tthree\thealthy\t100.00%    0.000s",
            ),
        ] {
            assert_eq!(lines(director), format!("\n\t{expected}\n\n"));
        }
        let shard = BackendDetails::Members(DirectorDetails::Shard { warmup: 0.0, rampup: 0.0 }, members.clone());
        let json: serde_json::Value = serde_json::from_str(&shard.json()).unwrap();
        assert_eq!(json["backends"]["three"]["rampup"], 1.0);
        let random = BackendDetails::Members(DirectorDetails::Random, members).json();
        assert!(random.starts_with("{\n  \"total_weight\": 1.000000,\n  \"backends\": {\n    \"one\": {"), "{random}");
        assert!(BackendDetails::Members(DirectorDetails::RoundRobin, Vec::new()).json().contains("\"backends\": {"));
    }

    #[test]
    fn a_probe_is_said_as_in_varnish() {
        let probe = ProbeDetails {
            lines: " Current\n".to_owned(),
            bits: [127, 0, 0, 0, 127, 126, 0, 384],
            good: 2,
            threshold: 3,
            window: 8,
        };
        assert_eq!(BackendDetails::Probe(probe.clone()).lines(), " Current\n\n");
        let json = BackendDetails::Probe(probe).json();
        assert!(json.ends_with("\"bits_r\": 126,\n  \"bits_R\": 0,\n  \"bits_H\": 384,\n  \"good\": 2,\n  \"threshold\": 3,\n  \"window\": 8\n}"), "{json}");
        assert_eq!(BackendDetails::Nothing.json(), "{}");
    }
}
