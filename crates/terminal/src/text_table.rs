//! Tables of text, and numbers as people write them.

use crate::width::wrap;

/// Lays out rows as columns of text: figures below a title flush right, all else left.
pub fn columns(rows: &[Vec<String>]) -> String {
    lay_out(rows, |column| {
        let cells = || rows.iter().skip(1).filter_map(|row| row.get(column));
        let is_figures = column > 0 && rows.len() > 1 && cells().all(|cell| is_figure(cell));
        if is_figures { Alignment::Right } else { Alignment::Left }
    })
}

/// Whether a cell is a number, or stands for one that is unknown.
fn is_figure(cell: &str) -> bool {
    let is_part = |c: char| c.is_ascii_digit() || matches!(c, '.' | ',' | '-');
    !cell.is_empty() && cell.chars().all(is_part)
}

/// Lays out rows as columns of figures: the first flush left, the others right.
pub fn aligned(rows: &[Vec<String>]) -> String {
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

/// A name on one line: control characters, and those that change the direction of what follows, are
/// written out, because the author of a file may have chosen it.
pub fn shown_name(name: &str) -> String {
    let is_hostile =
        |c: char| c.is_control() || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    name.chars().fold(String::with_capacity(name.len()), |mut shown, c| {
        if is_hostile(c) {
            shown.extend(c.escape_default())
        } else {
            shown.push(c)
        }
        shown
    })
}

/// A path as one word of a command, which the user may copy into a shell.
pub fn shell_word(path: &str) -> String {
    let text = shown_name(path);
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+=:@%,".contains(c);
    if text.chars().all(is_plain) { text } else { format!("'{}'", text.replace('\'', r"'\''")) }
}

/// A whole number with separators between thousands: 60,000.
pub fn grouped(number: u64) -> String {
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

/// A number and the noun it counts: `1 step`, `2 steps`.
pub fn counted(number: u64, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{} {noun}{plural}", grouped(number))
}

/// Figures about one thing after another, for a terminal of `width` columns; `None` for no limit.
///
/// The first row has the titles. Columns that `droppable` names are left out, in that order, until
/// the table fits. If it does not fit even then, each row becomes a block of its own.
pub fn fitted(rows: &[Vec<String>], droppable: &[&str], width: Option<usize>) -> String {
    fitted_tables(&[rows.to_vec()], droppable, width)
}

/// The same for several tables, one after the other.
pub fn fitted_tables(
    tables: &[Vec<Vec<String>>],
    droppable: &[&str],
    width: Option<usize>,
) -> String {
    let tables: Vec<_> = tables.iter().map(|rows| fit(rows, aligned, droppable, width)).collect();
    let texts: Vec<_> = tables.iter().map(|table| table.text.as_str()).collect();
    let is_cut = tables.iter().any(|table| table.is_cut);
    texts.join("\n") + if is_cut { CUT_NOTE } else { "" }
}

/// What follows tables that lack columns.
const CUT_NOTE: &str = "(a wider terminal shows more columns)\n";

/// The same for columns of text.
pub fn fitted_text(rows: &[Vec<String>], droppable: &[&str], width: Option<usize>) -> String {
    let table = fit(rows, columns, droppable, width);
    table.text + if table.is_cut { CUT_NOTE } else { "" }
}

/// Columns of text with a long last one: where it does not fit beside the others, it goes below
/// them.
pub fn with_long_last(rows: &[Vec<String>], width: Option<usize>) -> String {
    let whole = columns(rows);
    let Some(width) = width.filter(|&width| widest_line(&whole) > width) else { return whole };
    let (lasts, others): (Vec<_>, Vec<_>) = rows
        .iter()
        .filter_map(|row| row.split_last())
        .map(|(last, others)| (last.as_str(), others.to_vec()))
        .unzip();
    let firsts = rows.iter().filter_map(|row| row.first());
    let second_column = 2 + firsts.map(|cell| cell.chars().count()).max().unwrap_or(0);
    let beside = columns(&others);
    let last_column = 2 + widest_line(&beside);
    let mut text = String::new();
    for (line, last) in beside.lines().zip(lasts) {
        if last_column + last.chars().count() <= width {
            text.push_str(&format!("{line:<last_column$}{last}\n"));
            continue;
        }
        let indent = " ".repeat(second_column);
        let below = wrap(last, width.saturating_sub(second_column), "");
        text.push_str(&format!(
            "{line}\n{indent}{}\n",
            below.replace('\n', &format!("\n{indent}"))
        ));
    }
    text
}

/// A table that fits the terminal.
struct FittedTable {
    text: String,
    /// Whether columns were left out.
    is_cut: bool,
}

fn fit(
    rows: &[Vec<String>],
    lay_out: fn(&[Vec<String>]) -> String,
    droppable: &[&str],
    width: Option<usize>,
) -> FittedTable {
    let whole = lay_out(rows);
    let Some(width) = width.filter(|&width| widest_line(&whole) > width) else {
        return FittedTable { text: whole, is_cut: false };
    };
    let (mut rows, columns_before) = (rows.to_vec(), rows[0].len());
    for title in droppable {
        if widest_line(&lay_out(&rows)) <= width {
            break;
        }
        if let Some(at) = rows[0].iter().position(|head| head == title) {
            rows.iter_mut().for_each(|row| drop(row.remove(at)));
        }
    }
    let text = lay_out(&rows);
    let text = if widest_line(&text) > width { blocks(&rows, width) } else { text };
    FittedTable { text, is_cut: rows[0].len() < columns_before }
}

/// Each row as a block: its first cell, then the other cells with their titles. A title stays on
/// the line of its cell if both fit on one.
fn blocks(rows: &[Vec<String>], width: usize) -> String {
    const UNBROKEN: &str = "\u{a0}";
    let mut text = String::new();
    for row in &rows[1..] {
        let cells: Vec<_> = row.iter().zip(&rows[0]).skip(1).collect();
        let shown = cells.iter().filter(|(cell, _)| !cell.is_empty());
        let cells: Vec<_> = shown
            .map(|(cell, title)| titled(title, cell).trim().to_owned())
            .map(|cell| if cell.len() + 3 > width { cell } else { cell.replace(' ', UNBROKEN) })
            .collect();
        let block = format!("{}: {}", row[0], cells.join(", "));
        text.push_str(&format!("{}\n", wrap(&block, width, "  ").replace(UNBROKEN, " ")));
    }
    text
}

/// A figure and its title, whose unit goes behind the figure: `CPU 0.21 s`.
fn titled(title: &str, cell: &str) -> String {
    const UNITS: [&str; 4] = ["%", "s", "ms", "MB"];
    let is_figure = cell.ends_with(|c: char| c.is_ascii_digit());
    match title.rsplit_once(' ') {
        Some((name, unit)) if is_figure && UNITS.contains(&unit) => {
            format!("{name} {cell} {unit}")
        }
        _ => format!("{title} {cell}"),
    }
}

/// The columns that the widest line of a text takes.
fn widest_line(text: &str) -> usize {
    text.lines().map(|line| line.chars().count()).max().unwrap_or(0)
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

    #[test]
    fn figures_among_texts_are_flush_right() {
        let rows = [["step", "mode", "MB"], ["9", "sync", "1.5"], ["1,000", "sync", "10.5"]];
        let rows = rows.map(|row| row.map(String::from).to_vec());
        assert_eq!(columns(&rows), "step   mode    MB\n9      sync   1.5\n1,000  sync  10.5\n");
    }

    #[test]
    fn a_long_last_column_goes_below_where_it_does_not_fit() {
        let rows = [["set", "state", "where"], ["mnist", "missing", "/var/cache/mnist (cache)"]];
        let rows = rows.map(|row| row.map(String::from).to_vec());
        assert_eq!(with_long_last(&rows, Some(80)), columns(&rows));
        let below =
            "set    state    where\nmnist  missing\n       /var/cache/mnist\n       (cache)\n";
        assert_eq!(with_long_last(&rows, Some(24)), below);
    }

    #[test]
    fn one_is_singular() {
        let all = [0, 1, 2, 1_000].map(|number| counted(number, "step"));
        assert_eq!(all, ["0 steps", "1 step", "2 steps", "1,000 steps"]);
    }

    #[test]
    fn a_table_drops_columns_until_it_fits_and_then_becomes_blocks() {
        let rows = [["task", "steps", "CPU s", "peak MB"], ["worker:0", "7", "0.21", "88.8"]];
        let rows = rows.map(|row| row.map(String::from).to_vec());
        let drop = ["peak MB", "CPU s"];
        let whole = "task      steps  CPU s  peak MB\nworker:0      7   0.21     88.8\n";
        assert_eq!(fitted(&rows, &drop, None), whole);
        assert_eq!(fitted(&rows, &drop, Some(31)), whole);
        let less = fitted(&rows, &drop, Some(30));
        assert!(less.starts_with("task      steps  CPU s\nworker:0      7   0.21\n"), "{less}");
        assert!(less.ends_with(CUT_NOTE), "{less}");
        let blocks = fitted(&rows, &["peak MB"], Some(16));
        assert_eq!(blocks, format!("worker:0:\n  steps 7,\n  CPU 0.21 s\n{CUT_NOTE}"));
        let two = [rows.to_vec(), rows.to_vec()];
        assert_eq!(fitted_tables(&two, &drop, Some(30)).matches(CUT_NOTE).count(), 1);
    }
}
