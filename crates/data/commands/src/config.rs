//! Settings by redis.conf's names.

/// The settings that commands look at.
#[derive(Debug, Clone)]
pub struct Settings {
    /// `databases`
    pub databases: usize,
    /// `requirepass`, empty without.
    pub require_password: String,
    /// `proto-max-bulk-len`
    pub bulk_len_max: u64,
    /// `maxclients`
    pub clients_max: usize,
    /// `timeout`, in seconds; 0: never.
    pub idle_timeout_s: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            databases: 16,
            require_password: String::new(),
            bulk_len_max: 512 * 1024 * 1024,
            clients_max: 10_000,
            idle_timeout_s: 0,
        }
    }
}
