#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tidegate_fuzz::varnish_cli::varnish_cli(data));
