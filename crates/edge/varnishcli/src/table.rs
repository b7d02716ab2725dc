//! Lists in columns, as varnishd prints them.

/// Columns that a line should have at most.
const WIDTH: usize = 80;

/// Lines whose fields are separated by tabs, with spaces instead, so that fields stand below each other.
pub(crate) fn in_columns(text: &str) -> String {
    aligned(text, |_| true)
}

/// The same with lines between them that have no tab and stay as they are.
pub(crate) fn in_columns_with_details(text: &str) -> String {
    aligned(text, |line| line.contains('\t'))
}

fn aligned(text: &str, is_row: impl Fn(&str) -> bool) -> String {
    let mut widths: Vec<usize> = Vec::new();
    let mut longest = 0;
    for line in text.lines().filter(|line| is_row(line)) {
        let fields: Vec<usize> = line.split('\t').map(|field| field.chars().count()).collect();
        longest = longest.max(fields.iter().sum());
        for (at, width) in fields.into_iter().enumerate() {
            match widths.get_mut(at) {
                Some(known) => *known = width.max(*known),
                None => widths.push(width),
            }
        }
    }
    let Some(room) = WIDTH.saturating_sub(longest).checked_div(widths.len()) else { return String::new() };
    // Columns after the first one have a space more: that is how Varnish does it.
    let gap = |at: usize| room.clamp(1, 3) + usize::from(at > 0);
    let mut output = String::new();
    for line in text.lines() {
        if !is_row(line) {
            output.push_str(line);
            output.push('\n');
            continue;
        }
        let mut fields = line.split('\t').zip(&widths).enumerate().peekable();
        while let Some((at, (field, width))) = fields.next() {
            output.push_str(field);
            if fields.peek().is_some() {
                let spaces = width + gap(at) - field.chars().count();
                output.extend(std::iter::repeat_n(' ', spaces));
            }
        }
        output.push('\n');
    }
    output
}

#[cfg(test)]
mod tests {
    use super::{in_columns, in_columns_with_details};

    #[test]
    fn columns_are_as_in_varnish() {
        let list = "active\tauto\twarm\t     0\tboot\n";
        assert_eq!(in_columns(list), "active   auto    warm         0    boot\n");
        let labelled =
            "active\tauto\twarm\t     0\tboot\t<-\t(1 label)\navailable\tlabel\twarm\t     0\tl1\t->\tboot\n";
        let expected = "active      auto     warm         0    boot    <-    (1 label)\n\
                        available   label    warm         0    l1      ->    boot\n";
        assert_eq!(in_columns(labelled), expected);
        assert_eq!(in_columns(""), "");
        assert_eq!(in_columns("boot\none\nlab\tone\n"), "boot\none\nlab    one\n");
        assert_eq!(in_columns_with_details("lab\tone\n  a longer line\n"), "lab   one\n  a longer line\n");
    }
}
