//! `clear counters`: forgets the greatest values, or all that was counted.
//!
//! A worker that counts at the same moment may bring its count back as if nothing had happened; then it is cleared the
//! next time.

use live::{
    Instance, SideCounters,
    counters::{CacheTraffic, CompressionTraffic, PageTraffic, ProcessTraffic, Traffic},
};

/// Clears everything of an instance, as far as HAProxy does: what the process counted in all stays.
pub fn clear(instance: &Instance, all: bool) {
    for proxy in &instance.proxies {
        proxy.with_farm(|farm| farm.clear_counters(all));
        let listeners = proxy.listeners.iter().map(|listener| &listener.side);
        let listed: Vec<_> = proxy.servers.iter().collect();
        let servers = listed.iter().map(|server| &server.side);
        for side in [&proxy.frontend, &proxy.backend].into_iter().chain(listeners).chain(servers) {
            clear_side(side, all);
        }
        for server in &listed {
            server.connections.reset_max();
        }
    }
    let rates = &instance.process.rates;
    let of_tls = [&rates.tls_clients, &rates.tls_client_keys, &rates.tls_server_keys];
    for rate in [&rates.connections, &rates.sessions, &rates.requests, &rates.bytes_out].into_iter().chain(of_tls) {
        rate.reset_most();
    }
    for part in instance.process.traffic.iter() {
        // Named one by one, so that a new counter does not go unnoticed.
        let ProcessTraffic {
            connections: _,
            requests: _,
            bytes_out: _,
            page_bytes_out: _,
            bytes_spliced: _,
            compression_in: _,
            compression_out: _,
            open: _,
            tls_accepted: _,
            tls_clients: _,
            tls_client_keys: _,
            tls_servers: _,
            tls_server_keys: _,
            borrowed: _,
            busy: _,
        } = part;
    }
}

fn clear_side(side: &SideCounters, all: bool) {
    side.sessions.reset_max();
    for rate in [&side.session_rate, &side.request_rate, &side.connection_rate] {
        rate.reset_most();
    }
    for part in side.traffic.iter() {
        clear_traffic(part, all);
    }
}

fn clear_traffic(traffic: &Traffic, all: bool) {
    let Traffic {
        connections,
        sessions,
        balanced,
        bytes_in,
        bytes_out,
        spliced_in,
        spliced_out,
        denied_requests,
        denied_responses,
        denied_connections,
        denied_sessions,
        request_errors,
        connection_errors,
        response_errors,
        retries,
        redispatches,
        failed_rewrites,
        internal_errors,
        client_aborts,
        server_aborts,
        requests,
        responses,
        connects,
        reuses,
        intercepted,
        queue_time,
        connect_time,
        response_time,
        total_time,
        compression,
        cache,
        page,
        // Readers only use differences.
        sources: _,
        latency: _,
        idle: _,
        in_flight: _,
    } = traffic;
    let times = [queue_time, connect_time, response_time, total_time];
    if !all {
        times.into_iter().for_each(telemetry::SlidingAverage::reset_max);
        return;
    }
    times.into_iter().for_each(telemetry::SlidingAverage::reset);
    let counters = [
        connections,
        sessions,
        balanced,
        bytes_in,
        bytes_out,
        spliced_in,
        spliced_out,
        denied_requests,
        denied_responses,
        denied_connections,
        denied_sessions,
        request_errors,
        connection_errors,
        response_errors,
        retries,
        redispatches,
        failed_rewrites,
        internal_errors,
        client_aborts,
        server_aborts,
        requests,
        connects,
        reuses,
        intercepted,
    ];
    if let Some(compression) = compression.get() {
        let CompressionTraffic { taken, made, bypassed, responses } = &**compression;
        [taken, made, bypassed, responses].into_iter().for_each(telemetry::Counter::reset);
    }
    if let Some(cache) = cache.get() {
        let CacheTraffic { lookups, hits, saved } = &**cache;
        [lookups, hits, saved].into_iter().for_each(telemetry::Counter::reset);
    }
    if let Some(page) = page.get() {
        let PageTraffic { requests, responses } = &**page;
        responses.iter().chain([requests]).for_each(telemetry::Counter::reset);
    }
    for counter in counters.into_iter().chain(responses) {
        counter.reset();
    }
}
