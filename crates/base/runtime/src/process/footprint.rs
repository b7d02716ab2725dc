//! What a process keeps in memory once it serves.
//!
//! Starting runs a good part of the program that serving never needs again: the command line, the configuration
//! language, its tables. The kernel counts these pages of the program's file as the process' own until somebody else needs
//! the memory. So they are let go of once, and what is needed after all comes back from the page cache with the first use.

use std::ops::Range;

use crate::system;

/// Lets go of the program's code and constants. Called when the process has begun to serve.
pub(crate) fn forget_the_start() {
    let (Ok(maps), Ok(program)) = (std::fs::read_to_string("/proc/self/maps"), std::fs::read_link("/proc/self/exe"))
    else {
        return;
    };
    for range in unchanging(&maps, &program.to_string_lossy()) {
        system::forget_pages(range);
    }
}

/// The parts of the program's file that are mapped as they are in it: code, and constants that stand at its beginning.
/// Other read-only parts may be relocated, and are not in the file as they are in memory.
fn unchanging<'a>(maps: &'a str, program: &'a str) -> impl Iterator<Item = Range<usize>> + 'a {
    maps.lines().filter_map(move |line| {
        let mut words = line.split_ascii_whitespace();
        let (range, permissions, offset) = (words.next()?, words.next()?, words.next()?);
        let is_unchanging =
            permissions == "r-xp" || (permissions == "r--p" && offset.bytes().all(|digit| digit == b'0'));
        if !is_unchanging || !line.ends_with(program) || words.nth(2) != Some(program) {
            return None;
        }
        let (start, end) = range.split_once('-')?;
        Some(usize::from_str_radix(start, 16).ok()?..usize::from_str_radix(end, 16).ok()?)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_code_and_the_first_constants_are_let_go_of() {
        let maps = "55aafade2000-55aafb034000 r--p 00000000 fe:00 1032 /bin/tidegate\n\
                    55aafb034000-55aafb65d000 r-xp 00251000 fe:00 1032 /bin/tidegate\n\
                    55aafb65d000-55aafb6cc000 r--p 00879000 fe:00 1032 /bin/tidegate\n\
                    55aafb6cc000-55aafb6ce000 rw-p 008e7000 fe:00 1032 /bin/tidegate\n\
                    7f0000000000-7f0000001000 r-xp 00000000 fe:00 1033 /lib/libc.so.6\n\
                    7f0000002000-7f0000003000 r-xp 00000000 fe:00 1034 /usr/bin/tidegate\n\
                    7f0000004000-7f0000005000 rw-p 00000000 00:00 0\n\
                    nonsense\n";
        let ranges: Vec<_> = unchanging(maps, "/bin/tidegate").collect();
        assert_eq!(ranges, [0x55aafade2000..0x55aafb034000, 0x55aafb034000..0x55aafb65d000]);
        assert_eq!(unchanging(maps, "/bin/other").count(), 0);
    }

    /// This very program goes on after it.
    #[test]
    fn a_process_goes_on_without_its_start() {
        forget_the_start();
        let text = format!("{:?} {}", [1, 2, 3], f64::from(7) / 2.0);
        assert_eq!(text, "[1, 2, 3] 3.5");
        let caught = std::panic::catch_unwind(|| assert!(text.is_empty(), "unwinding works too"));
        assert!(caught.is_err());
    }
}
