//! A table of text, as HTML and as Markdown.

use std::fmt::Write;

use crate::svg::{escape, escape_sentence};

/// Cells of more characters than this wrap in HTML.
const LONG_TEXT: usize = 40;

/// A table of text.
pub(super) struct ReportTable {
    pub(super) head: Vec<String>,
    pub(super) rows: Vec<Vec<String>>,
    /// Number of leading columns that hold words and are aligned left; the rest hold numbers.
    pub(super) word_columns: usize,
}

impl ReportTable {
    pub(super) fn to_markdown(&self) -> String {
        let row = |cells: &[String]| {
            let cells: Vec<_> = cells.iter().map(|cell| plain(cell)).collect();
            format!("| {} |\n", cells.join(" | "))
        };
        let mut text = row(&self.head);
        text.push('|');
        for column in 0..self.head.len() {
            text.push_str(if column < self.word_columns { "---|" } else { "---:|" });
        }
        text.push('\n');
        self.rows.iter().for_each(|cells| text.push_str(&row(cells)));
        text
    }

    pub(super) fn to_html(&self) -> String {
        let mut body = String::new();
        for cells in &self.rows {
            self.write_html_row(&mut body, cells, "td");
        }
        let mut head = String::new();
        self.write_html_row(&mut head, &self.head, "th");
        format!(
            "<div class=\"wide\" role=\"region\" aria-label=\"Table\" tabindex=\"0\"><table>\n\
             <thead>{head}</thead>\n<tbody>\n{body}</tbody>\n\
             </table></div>\n"
        )
    }

    fn write_html_row(&self, out: &mut String, cells: &[String], tag: &str) {
        out.push_str("<tr>");
        for (column, text) in cells.iter().enumerate() {
            let class = if column >= self.word_columns {
                ""
            } else if text.chars().count() > LONG_TEXT {
                " class=\"w t\""
            } else {
                " class=\"w\""
            };
            // On a phone each cell is a line of its own, with its title before it. A key breaks
            // behind its dots, not inside a word.
            let title = match tag {
                "td" => {
                    let title = escape(&self.head[column]).replace('.', ".\u{200b}");
                    format!(" data-title=\"{title}\"")
                }
                _ => String::new(),
            };
            // A narrow cell breaks before a deviation, not after its sign.
            let text = escape_sentence(text).replace("± ", "±\u{a0}");
            let _ = write!(out, "<{tag}{class}{title}>{text}</{tag}>");
        }
        out.push_str("</tr>\n");
    }
}

/// Text on one line, without characters that end a Markdown cell or begin HTML.
pub(super) fn plain(text: &str) -> String {
    let one_line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    one_line.replace('|', "\\|").replace('<', "&lt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_title_of_a_cell_breaks_behind_dots() {
        let (head, rows) = (vec!["train.stop.seconds".into()], vec![vec!["3".into()]]);
        let html = ReportTable { head, rows, word_columns: 0 }.to_html();
        assert!(html.contains("data-title=\"train.\u{200b}stop.\u{200b}seconds\""), "{html}");
        assert!(html.contains(">train.stop.seconds</th>"), "{html}");
    }

    #[test]
    fn a_deviation_stays_with_its_sign_in_html() {
        let (head, rows) = (vec!["seconds".into()], vec![vec!["0.14 ± 0.03".into()]]);
        let table = ReportTable { head, rows, word_columns: 0 };
        assert!(table.to_html().contains("<td data-title=\"seconds\">0.14 ±\u{a0}0.03</td>"));
        assert!(table.to_markdown().contains("| 0.14 ± 0.03 |"));
    }
}
