use super::{BLOCK, Block, find_colon, find_control, find_target_end, is_control, trim};

/// Every byte value at every place of inputs of many lengths, looked for from every place, against the plain search.
fn check(find: impl Fn(&[u8], usize) -> Option<usize>, is_hit: impl Fn(u8) -> bool, filler: u8) {
    assert!(!is_hit(filler));
    for len in [0, 1, 7, 8, 9, 15, 16, 17, 31, 32, 33, 41] {
        for place in 0..len {
            for byte in 0..=255 {
                let mut input = vec![filler; len];
                input[place] = byte;
                for from in 0..=len {
                    let expected = input[from..].iter().position(|byte| is_hit(*byte)).map(|at| from + at);
                    assert_eq!(find(&input, from), expected, "{input:?} from {from}");
                }
            }
        }
        assert_eq!(find(&vec![filler; len], len + 1), None);
    }
}

#[test]
fn finds_controls() {
    check(find_control, is_control, b'a');
    check(find_control, is_control, b'\t');
    check(find_control, is_control, 0xff);
}

#[test]
fn finds_target_ends() {
    check(find_target_end, |byte| !(0x21..=0x7e).contains(&byte) || byte == b'#', b'/');
}

#[test]
fn finds_colons() {
    check(find_colon, |byte| byte == b':', b'\r');
}

#[test]
fn finds_the_first_of_several() {
    assert_eq!(find_control(b"\ta\tb\r\n\0aaaaaaaaaaaaaaaaaaaaa\x7f", 0), Some(4));
    assert_eq!(find_control(b"aaaaaaaaaaaaaaaa\t\t\t\n", 3), Some(19));
}

#[test]
fn trims() {
    for (input, expected) in
        [("", ""), (" ", ""), (" \t ", ""), ("a", "a"), (" a", "a"), ("a\t", "a"), ("\t a b \t", "a b"), ("\n", "\n")]
    {
        assert_eq!(trim(input.as_bytes()), expected.as_bytes());
    }
}

#[test]
fn only_letters_of_the_beginning_become_lower_case() {
    for start in (0..=u8::MAX).step_by(BLOCK) {
        let bytes: [u8; BLOCK] = std::array::from_fn(|at| start + at as u8);
        for count in 0..=BLOCK + 1 {
            let mut expected = bytes;
            expected[..count.min(BLOCK)].make_ascii_lowercase();
            assert_eq!(Block::new(&bytes).with_lower_case(count), expected, "{count} of {bytes:?}");
        }
    }
}
