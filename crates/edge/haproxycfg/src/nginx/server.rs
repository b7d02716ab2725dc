//! `http`, `server`, `location` and the processes.

use super::{Directive, backend, frontend, global, says, sections};

pub(super) const DIRECTIVES: &[Directive] = &[
    says(
        "http events",
        "no braces here: a file has sections, `global`, `defaults`, `frontend`, `backend`; `listen` is a frontend and a backend in one.",
    ),
    sections(
        "server",
        "a `frontend` for each address; `use_backend` chooses by the host's name. Many names stand in a map file.",
        "frontend web\n    bind :80\n    use_backend shop if { req.hdr(host) -i shop.example.com }\n    use_backend \
         blog if { req.hdr(host),lower -m end .blog.example.com }\n    default_backend site\n\nbackend shop\n    root \
         /srv/shop\n\nbackend blog\n    server app 10.0.0.1:8080\n\nbackend site\n    root /srv/www",
    ),
    frontend(
        "listen",
        "`bind`: an address and a port, `*`, `[::]:80 v6only`, `unix@/run/web.sock`, with `ssl`, `accept-proxy`, `interface`, `backlog`.",
        "bind 192.0.2.1:80\nbind unix@/run/web.sock mode 660",
    ),
    frontend(
        "server_name",
        "a condition on the host's name. `-m end .example.com` is nginx' `*.example.com`, `-m reg` its `~`.",
        "use_backend shop if { req.hdr(host) -i shop.example.com www.shop.example.com }",
    ),
    frontend(
        "location",
        "conditions on the path: `path` is `=`, `path_beg` a prefix, `path_reg` is `~`, `-i` ignores case. They are asked in the order of the lines, not by length.",
        "use_backend images if { path_beg /images/ }\nuse_backend php if { path_end .php }\ndefault_backend site",
    ),
    backend(
        "internal",
        "`x-accel-redirect` for files that servers and programs name by `X-Accel-Redirect`; clients cannot ask for such paths. Not needed for `try-files` and `index`, whose paths are asked of the lines again.",
        "x-accel-redirect /protected/ alias /srv/files\nserver app 127.0.0.1:8080",
    ),
    says("include", "`-f FILE` several times, or `-f FOLDER` for all its `.cfg` files, in their order."),
    global("user group", "the same.", "user www-data\ngroup www-data"),
    global(
        "worker_processes thread_pool",
        "`nbthread`: one process has a thread for each core unless this says otherwise.",
        "nbthread 4",
    ),
    global("worker_connections", "`maxconn`, for the process; a `frontend` may have its own.", "maxconn 20000"),
    global("worker_cpu_affinity", "`cpu-map`.", "cpu-map auto:1/1-4 0-3"),
    global("pid", "`pidfile`.", "pidfile /run/tidegate.pid"),
    global("daemon", "`daemon`, or `-D` on the command line. Under systemd neither is wanted.", "daemon"),
    global(
        "env",
        "`setenv`, `presetenv`, `resetenv`, `unsetenv`; `\"$NAME\"` reads one.",
        "presetenv SITE www.example.com",
    ),
    global(
        "worker_shutdown_timeout",
        "`hard-stop-after`. A reload drains connections without end unless this says otherwise.",
        "hard-stop-after 30s",
    ),
    global("worker_rlimit_nofile", "`ulimit-n`; it follows from `maxconn` by itself.", "ulimit-n 65536"),
    says("load_module", "not needed: all is in one program."),
    says(
        "master_process worker_priority worker_rlimit_core worker_aio_requests debug_points debug_connection lock_file use multi_accept accept_mutex accept_mutex_delay timer_resolution pcre_jit",
        "not needed: the program sees to it.",
    ),
    sections(
        "resolver resolver_timeout",
        "a `resolvers` section, which `server` lines name: addresses are asked for again while it runs.",
        "resolvers dns\n    nameserver first 10.0.0.53:53\n    timeout resolve 1s\n\nbackend app\n    server app \
         app.internal:8080 resolvers dns init-addr none",
    ),
    says(
        "server_names_hash_max_size server_names_hash_bucket_size types_hash_max_size types_hash_bucket_size variables_hash_max_size variables_hash_bucket_size map_hash_max_size map_hash_bucket_size proxy_headers_hash_max_size proxy_headers_hash_bucket_size referer_hash_max_size referer_hash_bucket_size",
        "not needed: tables grow.",
    ),
    says("set", "`http-request set-var(txn.NAME)`; a variable is `var(txn.NAME)`, in log formats `%[var(txn.NAME)]`."),
    says("uninitialized_variable_warn", "a variable without a value is an empty one."),
];
