//! What a server says that it does and takes: counters of its `INFO` that only grow, and what is so now.

/// What `INFO` of a server says, as far as it is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Commands since it began.
    pub commands: u64,
    /// Microseconds that they took.
    pub command_us: u64,
    /// Errors that it has answered with.
    pub errors: u64,
    /// Bytes from clients.
    pub input: u64,
    /// Bytes to clients.
    pub output: u64,
    /// Clients that are connected.
    pub clients: u64,
    /// Memory that is in use, in bytes.
    pub memory: u64,
    /// What it may use; 0: no bound.
    pub memory_max: u64,
    /// Keys.
    pub keys: u64,
    /// How long it took to answer the agent, in microseconds.
    pub round_trip_us: u64,
}

impl Figures {
    /// Out of the text of `INFO`. What it does not say is 0.
    #[must_use]
    pub fn of(info: &str, round_trip_us: u64) -> Self {
        let mut figures = Self { round_trip_us, ..Self::default() };
        for line in info.lines() {
            let Some((name, value)) = line.split_once(':') else { continue };
            let number = || value.trim().parse().unwrap_or(0);
            match name {
                "total_net_input_bytes" => figures.input = number(),
                "total_net_output_bytes" => figures.output = number(),
                "total_error_replies" => figures.errors = number(),
                "connected_clients" => figures.clients = number(),
                "used_memory" => figures.memory = number(),
                "maxmemory" => figures.memory_max = number(),
                _ if name.starts_with("cmdstat_") && !is_upkeep(name) => {
                    figures.commands += part(value, "calls");
                    figures.command_us += part(value, "usec");
                }
                _ if is_database(name) => figures.keys += part(value, "keys"),
                _ => {}
            }
        }
        figures
    }
}

/// Commands by which agents and replicas ask after a server: they are no load.
fn is_upkeep(name: &str) -> bool {
    let name = name.strip_prefix("cmdstat_").unwrap_or(name);
    ["info", "config|get", "replconf", "ping", "psync"].contains(&name) || name.starts_with("cluster|")
}

fn is_database(name: &str) -> bool {
    name.strip_prefix("db").is_some_and(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
}

/// A number of `calls=1,usec=2`.
fn part(value: &str, name: &str) -> u64 {
    let parts = value.trim().split(',').filter_map(|part| part.split_once('='));
    parts.filter(|(own, _)| *own == name).find_map(|(_, number)| number.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_read_from_info() {
        let info = "# Clients\r\nconnected_clients:3\r\nused_memory:1000\r\nmaxmemory:0\r\ntotal_net_input_bytes:5\r\n\
                    cmdstat_get:calls=2,usec=5,usec_per_call=2.50\r\ncmdstat_set:calls=1,usec=9,usec_per_call=9.00\r\n\
                    cmdstat_info:calls=70,usec=500\r\ncmdstat_cluster|lease:calls=9,usec=9\r\ndb0:keys=7,expires=0\r\n\
                    db3:keys=1,expires=0\r\ndbsize:keys=9\r\nnonsense\r\n";
        let expected = Figures {
            commands: 3,
            command_us: 14,
            input: 5,
            clients: 3,
            memory: 1_000,
            keys: 8,
            round_trip_us: 150,
            ..Figures::default()
        };
        assert_eq!(Figures::of(info, 150), expected);
        assert_eq!(Figures::of("", 0), Figures::default());
    }
}
