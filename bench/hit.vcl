vcl 4.1;

import std;
import cookie;

backend default {
    .host = "127.0.0.1";
}

acl purgers {
    "127.0.0.1";
    "192.0.2.0"/24;
}

sub vcl_recv {
    set req.http.Host = regsub(req.http.Host, ":[0-9]+$", "");
    unset req.http.Proxy;
    set req.url = std.querysort(req.url);
    if (req.method == "PURGE") {
        if (client.ip !~ purgers) {
            return (synth(405, "Not allowed"));
        }
        return (purge);
    }
    if (req.method != "GET" && req.method != "HEAD") {
        return (pass);
    }
    if (req.url ~ "[?&](utm_source|utm_medium|utm_campaign|gclid)=") {
        set req.url = regsuball(req.url, "(utm_source|utm_medium|utm_campaign|gclid)=[-_A-Za-z0-9+%.]+&?", "");
        set req.url = regsub(req.url, "[?&]$", "");
    }
    if (req.url ~ "^/(admin|login|account)") {
        return (pass);
    }
    if (req.url ~ "\.(css|js|png|jpg|gif|ico|svg|woff2)(\?.*)?$") {
        unset req.http.Cookie;
        return (hash);
    }
    if (req.http.Cookie) {
        cookie.parse(req.http.Cookie);
        cookie.keep("SESSIONID");
        set req.http.Cookie = cookie.get_string();
        if (req.http.Cookie == "") {
            unset req.http.Cookie;
        }
    }
    if (req.http.Authorization || req.http.Cookie) {
        return (pass);
    }
    return (hash);
}

sub vcl_deliver {
    if (obj.hits > 0) {
        set resp.http.X-Cache = "HIT";
    } else {
        set resp.http.X-Cache = "MISS";
    }
    unset resp.http.X-Powered-By;
    set resp.http.X-Served-By = server.identity;
}
