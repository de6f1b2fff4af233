//! Tables of text, and numbers as people write them.

/// Lays out rows as columns of text, each flush left.
pub(crate) fn columns(rows: &[Vec<String>]) -> String {
    lay_out(rows, |_| Alignment::Left)
}

/// Lays out rows as columns of figures: the first flush left, the others right.
pub(crate) fn aligned(rows: &[Vec<String>]) -> String {
    lay_out(rows, |column| if column == 0 { Alignment::Left } else { Alignment::Right })
}

enum Alignment {
    Left,
    Right,
}

fn lay_out(rows: &[Vec<String>], alignment: impl Fn(usize) -> Alignment) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or_default();
    let width = |c: usize| {
        rows.iter().filter_map(|row| row.get(c)).map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<_> = (0..columns).map(width).collect();
    let mut text = String::new();
    for row in rows {
        let cells =
            row.iter().zip(&widths).enumerate().map(|(c, (cell, &width))| match alignment(c) {
                Alignment::Left => format!("{cell:<width$}"),
                Alignment::Right => format!("{cell:>width$}"),
            });
        let line = cells.collect::<Vec<_>>().join("  ");
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// A whole number with separators between thousands: 60,000.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_are_separated() {
        let all = [0, 12, 999, 1_000, 60_000, 33_762_578].map(grouped);
        assert_eq!(all, ["0", "12", "999", "1,000", "60,000", "33,762,578"]);
    }

    #[test]
    fn columns_line_up() {
        let rows = [["task", "steps"], ["worker:0", "7"]].map(|row| row.map(String::from).to_vec());
        assert_eq!(aligned(&rows), "task      steps\nworker:0      7\n");
    }
}
