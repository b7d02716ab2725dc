use super::*;

/// `secret` in all forms, as htpasswd and openssl make them.
const FORMS: &[&str] = &[
    "$2y$04$yqPKBZNkCZp0xDxmsr30GuJuAMMqECibILHH47Qc9sIXKmjlbAv46",
    "$apr1$O7kda3VK$q6zQE54YHCZdH4GCydgh..",
    "$apr1$x$12YdXEY0/hH4rDNkmZupO0",
    "{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=",
    "{SSHA}gVK8WC9YyFT1gMsQHTGCgT3sSv5zYWx0",
    "{PLAIN}secret",
    "4/CxA7rvzrt/2",
    "$1$abcdefgh$cHJi5PXp/ki/ktXzqlk6I1",
    "$5$abcd$BgCbKzckrgGdFcL/gWllSOkKJCXQV5rwJeTh9xnsJ1D",
    "$5$rounds=1000$Uj7SXaRwSFI8Om5f$keyWmxOtBAVJgNrZy2g7P61OE9PIvM1up1PnbV02NqD",
    "$6$abcd$2xnokga/nDtRjwwaEJ4P2es2v4q8kfckDGncd4naCsE699Y0JnDNWStYgMPa.X.VcIxFM3oLKIRKkAYD33oqG.",
];

#[test]
fn all_forms() {
    for stored in FORMS {
        let password = StoredPassword::parse(stored.as_bytes()).unwrap_or_else(|error| panic!("{stored}: {error}"));
        assert!(password.is(b"secret"), "{stored}");
        for wrong in [&b"Secret"[..], b"", b"secre", b"\xff\0"] {
            assert!(!password.is(wrong), "{stored}");
        }
        assert!(verify(stored, b"secret") && !verify(stored, b"other"), "{stored}");
    }
}

#[test]
fn apr1_of_long_and_empty_passwords() {
    let long = b"a password that is longer than sixteen letters, or thirty-two";
    assert!(verify("$apr1$Zz012345$lZo3kR2pHJMjH9QZvXb.a.", long));
    assert!(!verify("$apr1$Zz012345$lZo3kR2pHJMjH9QZvXb.a.", &long[1..]));
    let empty = apr1::hash("$apr1$ab$", b"").unwrap();
    assert!(verify(&empty, b"") && !verify(&empty, b"a"));
}

#[test]
fn what_is_no_stored_password() {
    for (text, expected) in [
        ("", UnknownForm::Unknown),
        ("secret", UnknownForm::Unknown),
        ("!", UnknownForm::Unknown),
        ("*", UnknownForm::Unknown),
        ("$7$what$ever", UnknownForm::Unknown),
        ("$y$j9T$abc$def", UnknownForm::Unknown),
        ("thirteen chars", UnknownForm::Unknown),
        ("{SHA}", UnknownForm::Malformed),
        ("{SHA}****", UnknownForm::Malformed),
        ("$apr1$toolongsalt$q6zQE54YHCZdH4GCydgh..", UnknownForm::Malformed),
        ("$apr1$O7kda3VK$short", UnknownForm::Malformed),
        ("$1$", UnknownForm::Malformed),
        ("$1$\x01bc$cHJi5PXp/ki/ktXzqlk6I1", UnknownForm::Malformed),
        ("$1$a\u{e4}$cHJi5PXp/ki/ktXzqlk6I1", UnknownForm::Malformed),
        ("$5$abcd", UnknownForm::Malformed),
        ("$6$abcd$", UnknownForm::Malformed),
        ("$2y$10$short", UnknownForm::Malformed),
        ("$2y$xx$yqPKBZNkCZp0xDxmsr30GuJuAMMqECibILHH47Qc9sIXKmjlbAv46", UnknownForm::TooDear),
        ("$2y$31$yqPKBZNkCZp0xDxmsr30GuJuAMMqECibILHH47Qc9sIXKmjlbAv46", UnknownForm::TooDear),
        ("$6$rounds=999999999$abcd$2xnokga/nDtRjwwaEJ4P2es2v4q8kfckDGncd4naCsE699Y0JnDNWStYg", UnknownForm::TooDear),
    ] {
        assert_eq!(StoredPassword::parse(text.as_bytes()).err(), Some(expected), "{text}");
        if expected != UnknownForm::TooDear {
            assert!(!verify(text, b"secret") && !verify(text, text.as_bytes()), "{text}");
        }
    }
    assert_eq!(StoredPassword::parse(b"\xff").err(), Some(UnknownForm::Unknown));
}

/// The time that SHA's forms take grows with the square of the length.
#[test]
fn a_very_long_password_is_none() {
    for stored in FORMS {
        assert!(!verify(stored, &[b'a'; 1 << 16]), "{stored}");
    }
}

#[test]
fn files() {
    let text = format!(
        "# users\n\njane:{}\r\njohn:{}:a comment\n  \njane:{{PLAIN}}other\nj\u{f6}rg:{{PLAIN}}p:q\n",
        FORMS[1], FORMS[3]
    );
    let users = Users::read(text.as_bytes()).unwrap();
    assert_eq!((users.len(), users.is_empty()), (3, false));
    assert!(users.knows(b"jane", b"secret") && users.knows(b"john", b"secret"));
    assert!(!users.knows(b"jane", b"other"), "the first line counts");
    assert!(!users.knows(b"Jane", b"secret") && !users.knows(b"nobody", b"secret") && !users.knows(b"", b""));
    // What is behind a colon is a comment, also where somebody thought that it was part of the password.
    assert!(users.knows("j\u{f6}rg".as_bytes(), b"p"));
    assert_eq!(users.iter().count(), 3);
    assert!(!Users::read(b"").unwrap().knows(b"a", b"b"));
    assert_eq!(format!("{users:?}"), "Users { count: 3, .. }");
}

#[test]
fn lines_that_say_nothing() {
    for (text, expected) in [
        ("jane", "line 1: this is not 'user:password'"),
        ("# a\n:x", "line 2: this is not"),
        (
            "jane:secret",
            "line 1: the password of 'jane' cannot be used: it is not hashed, or in an unknown way. `htpasswd -B FILE jane`",
        ),
        ("a:{SHA}x", "its hash is malformed"),
        (&format!("a:{}", "x".repeat(5_000)), "line 1: this line has more than"),
    ] {
        let error = Users::read(text.as_bytes()).unwrap_err().to_string();
        assert!(error.contains(expected), "{text}: {error}");
    }
}

/// An unknown user's password is compared with one of the form that most users have.
#[test]
fn the_decoy_is_of_the_usual_form() {
    let form = |lines: &[usize]| {
        let text: String = (0..).zip(lines).map(|(user, form)| format!("user{user}:{}\n", FORMS[*form])).collect();
        Users::read(text.as_bytes()).unwrap().decoy.map(|decoy| format!("{decoy:?}"))
    };
    assert_eq!(form(&[]), None);
    assert_eq!(form(&[1, 0, 2]).as_deref(), Some("StoredPassword(Apr1)"));
    assert_eq!(form(&[1, 0]).as_deref(), Some("StoredPassword(Bcrypt)"));
    assert_eq!(form(&[3, 3, 0, 1]).as_deref(), Some("StoredPassword(Sha1)"));
}
