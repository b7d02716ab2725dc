//! `-v` and `-vv`.

pub fn print_version(long: bool) {
    println!(
        "HAProxy version {}-tidegate{} (Tidegate)",
        haproxycfg::condition::HAPROXY_VERSION,
        env!("CARGO_PKG_VERSION")
    );
    if !long {
        return;
    }
    println!("Status: speaks the configuration language and protocols of HAProxy 2.6; see `tidegate explain KEYWORD`.");
    println!("Running on: {}", rustix::system::uname().release().to_string_lossy());
    println!();
    let features = haproxycfg::condition::FEATURES.iter();
    let features = features.map(|(name, there)| format!("{}{name}", if *there { '+' } else { '-' }));
    println!("Feature list : {}", features.collect::<Vec<_>>().join(" "));
    println!();
    println!(
        "Built with multi-threading support (MAX_THREADS={}, default={}).",
        live::WORKERS_MAX,
        std::thread::available_parallelism().map_or(1, usize::from)
    );
    let (openssl, library) = (haproxycfg::condition::OPENSSL_VERSION, haproxycfg::condition::TLS_LIBRARY);
    // The words of these lines are HAProxy's, with a library that stands for OpenSSL.
    println!("Built with OpenSSL version : OpenSSL {openssl} (compatible; {library} by rustls)");
    println!("Running on OpenSSL version : {library} (by rustls)");
    println!("OpenSSL library supports TLS extensions : yes");
    println!("OpenSSL library supports SNI : yes");
    println!("OpenSSL library supports : TLSv1.2 TLSv1.3");
    println!("Built with the Prometheus exporter as a service");
    let codings = http::Coding::ALL.map(|coding| format!("{}(\"{}\")", coding.name(), coding.token()));
    println!("Compression algorithms supported : {}", codings.join(", "));
    println!("Available polling systems : epoll (through tokio)");
    println!("Available multiplexer protocols : quic (HTTP), h2 (HTTP), h1 (HTTP), none (TCP)");
    println!("Available services : {}", edge::keyword_dump::SERVICES.join(" "));
    println!("Available filters :");
    for (filter, tag) in edge::keyword_dump::FILTERS {
        println!("\t[{tag}] {filter}");
    }
}
