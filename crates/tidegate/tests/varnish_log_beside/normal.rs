//! Texts of a log without what is different each time: numbers of transactions, times, ports, descriptors.

/// Records whose words are numbers of transactions, at these places.
const NUMBERED: [(&str, usize); 5] = [("Begin", 1), ("Link", 1), ("Hit", 0), ("HitMiss", 0), ("HitPass", 0)];
/// Records whose words are descriptors or ports, at these places.
const WORDS: [(&str, &[usize]); 9] = [
    ("SessOpen", &[1, 4, 5, 6]),
    ("SessClose", &[1]),
    ("ReqStart", &[1]),
    ("BackendOpen", &[0, 3, 5]),
    ("BackendClose", &[0]),
    ("BackendReuse", &[0]),
    ("BackendStart", &[1]),
    ("ExpKill", &[1, 2]),
    ("FetchError", &[]),
];

/// The lines of a group of transactions, those of the same parent in the order of their names.
pub fn lines(group: &str) -> Vec<String> {
    let mut transactions: Vec<Vec<String>> = Vec::new();
    for line in all_lines(group) {
        if line.contains("<<") || transactions.is_empty() {
            transactions.push(Vec::new());
        }
        transactions.last_mut().unwrap().push(line);
    }
    transactions.sort_by_key(|lines| {
        let url = lines.iter().find(|line| line.starts_with("ReqURL") || line.starts_with("BereqURL"));
        (lines[0].clone(), url.cloned())
    });
    transactions.concat()
}

fn all_lines(group: &str) -> Vec<String> {
    let mut lines = Vec::new();
    let mut field_bytes = [0, 0];
    for line in group.lines().filter(|line| !line.is_empty()) {
        if let Some((head, _)) = line.split_once(">>") {
            field_bytes = [0, 0];
            lines.push(head.to_owned());
            continue;
        }
        // The level is told by dashes.
        let line = line.trim_start_matches(|sign: char| sign == '-' || sign.is_ascii_digit()).trim_start();
        let (tag, text) = line.split_once(' ').unwrap_or((line, ""));
        let text = text.trim_start();
        for (place, name) in ["X-Varnish: ", "Age: "].into_iter().enumerate() {
            if let Some(value) = text.strip_prefix(name)
                && matches!(tag, "BereqHeader" | "RespHeader")
            {
                field_bytes[place] = value.len();
            }
        }
        let number_bytes = field_bytes.iter().sum();
        lines.push(format!("{tag} {}", record(tag, text, number_bytes)));
    }
    lines
}

fn record(tag: &str, text: &str, number_bytes: usize) -> String {
    let mut words: Vec<String> = text.split(' ').map(str::to_owned).collect();
    if let Some((_, place)) = NUMBERED.iter().find(|(name, _)| *name == tag)
        && let Some(word) = words.get_mut(*place)
        && word != "0"
    {
        *word = "XID".to_owned();
    }
    if let Some((_, places)) = WORDS.iter().find(|(name, _)| *name == tag) {
        for place in *places {
            if let Some(word) = words.get_mut(*place) {
                *word = "#".to_owned();
            }
        }
    }
    match tag {
        // The numbers of transactions are as long as they are.
        "ReqAcct" => reduce(&mut words, &[3, 5], number_bytes),
        "BereqAcct" => reduce(&mut words, &[0, 2], number_bytes),
        // What is kept for others depends on how fast each side is.
        "BackendOpen" => {
            if let Some(how) = words.last_mut() {
                "connect or reuse".clone_into(how);
            }
        }
        "ExpBan" => "XID".clone_into(&mut words[0]),
        // So does how much of a body has come.
        "Hit" => words.truncate(4),
        "PipeAcct" => reduce(&mut words, &[1], number_bytes),
        _ => {}
    }
    if let [name, ..] = &*words
        && matches!(&**name, "X-Varnish:" | "Date:" | "Age:")
    {
        words = vec![name.clone(), "#".to_owned()];
    }
    words.iter().map(|word| without_time(word)).collect::<Vec<_>>().join(" ")
}

fn reduce(words: &mut [String], places: &[usize], by: usize) {
    // A head that was not sent has no numbers.
    let is_sent = words.get(places[0]).is_some_and(|word| word != "0");
    for place in places.iter().filter(|_| is_sent) {
        if let Some(word) = words.get_mut(*place)
            && let Ok(number) = word.parse::<usize>()
        {
            *word = number.saturating_sub(by).to_string();
        }
    }
}

/// Numbers with a fraction are times here, and so are long ones.
fn without_time(word: &str) -> String {
    let digits = word.trim_start_matches('-');
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    if is_number && (digits.contains('.') && digits.matches('.').count() == 1 || digits.len() >= 10) {
        return if word.starts_with('-') { "-T" } else { "T" }.to_owned();
    }
    word.to_owned()
}
