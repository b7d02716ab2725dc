//! What `up` would do.

use basics::many;

use crate::{
    beginning::{self, Host},
    copies,
    error::AgentError,
    options::Options,
    said::compare,
};

/// What `up` would do on a folder, as far as the folder knows.
///
/// # Errors
///
/// It would do nothing, and why.
pub fn plan(options: &Options) -> Result<String, AgentError> {
    options.check()?;
    let known = copies::read(&options.folder)?.map(|copy| copy.cluster).filter(|cluster| cluster.epoch > 0);
    let dir = options.folder.path().display();
    if let Some(cluster) = known {
        compare(options, &cluster)?;
        let (groups, servers) = (cluster.groups.len(), cluster.servers().count());
        return Ok(format!(
            "the cluster in {dir} goes on: {}, {}",
            many(groups, "group", "groups"),
            many(servers, "server", "servers")
        ));
    }
    if !options.etcd.is_empty() {
        let (etcd, hosts) = (options.etcd.join(","), many(options.hosts, "host is", "hosts are"));
        return Ok(format!(
            "this host joins the cluster of the etcd at {etcd}; if there is none, one begins when {hosts} there"
        ));
    }
    let host =
        Host { name: options.host_name().to_owned(), address: options.host.clone(), port: options.port, is_own: true };
    let cluster = beginning::begin(options, &[host])?;
    let mut lines = vec![format!("a new cluster begins in {dir}")];
    for proxy in &cluster.proxies {
        lines.push(format!("  clients   {}", proxy.address));
    }
    for (id, group) in &cluster.groups {
        let servers: Vec<String> = group.servers.iter().map(|server| server.address.to_string()).collect();
        lines.push(format!(
            "  group {id}   {} (the first is the master), writes wait for {}",
            servers.join(" "),
            group.ack
        ));
    }
    for (_, name, value) in cluster.settings.values() {
        lines.push(format!("  setting   {name} {value}"));
    }
    Ok(lines.join("\n"))
}
