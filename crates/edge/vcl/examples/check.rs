//! Compiles a file and says what is wrong with it.
use std::path::Path;

struct Disk;
impl vcl::source::Files for Disk {
    fn read(&self, path: &str) -> Result<String, String> {
        std::fs::read_to_string(Path::new(path)).map_err(|error| error.to_string())
    }
    fn glob(&self, _: &str) -> Result<Vec<String>, String> {
        Ok(Vec::new())
    }
}

fn main() {
    for path in std::env::args().skip(1) {
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        let storages: Vec<String> = ["s0", "s1", "s2", "Transient", "my-store"].map(str::to_owned).into();
        let labels: Vec<String> = ["my-label", "label1", "vclA", "lbl"].map(str::to_owned).into();
        let options = vcl::Options {
            files: &Disk,
            storages: &storages,
            labels: &labels,
            unused_is_error: std::env::var("UNUSED").is_ok(),
            ..vcl::Options::default()
        };
        match vcl::compile(&path, &text, &options) {
            Ok(compiled) => {
                println!("{path}: ok, {} routines", compiled.program.routines.len());
                for note in compiled.notes {
                    println!("note: {}", note.render(&compiled.program.sources));
                }
            }
            Err(rejected) => println!("{path}:\n{}", rejected.message()),
        }
    }
}
