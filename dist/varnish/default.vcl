# The cache's program; `systemctl reload tidegate-varnish` after changes. The language: man vcl, and /usr/share/doc/tidegate.
vcl 4.1;

# Your application.
backend default {
    .host = "127.0.0.1";
    .port = "8080";
}
