//! The report as one HTML page without scripts, fonts or external files.

use std::fmt::Write;

use super::tables::{about, all_tables, summary_line};
use crate::advice::advice;
use crate::charts::{chart_groups, first_charts};
use crate::palette::report_css;
use crate::report_data::ReportData;
use crate::svg::{escape, escape_sentence};

/// The style sheet: light, dark and print, down to the width of a phone.
const STYLE: &str = include_str!("style.css");

/// Writes a report as an HTML page.
pub fn html(data: &ReportData) -> String {
    let name = escape(&data.name);
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{name}</title>\n<link rel=\"icon\" href=\"data:,\">\n\
         <style>\n{}{STYLE}</style>\n</head>\n<body>\n<h1>{name}</h1>\n",
        report_css()
    );
    write_first_screen(&mut page, data);
    for section in all_tables(data) {
        write_heading(&mut page, section.title, section.note);
        page.push_str(&section.table.to_html());
    }
    for group in chart_groups(data) {
        write_heading(&mut page, &group.title, &group.note);
        let _ = writeln!(page, "<div class=\"charts\">\n{}</div>", group.charts.concat());
    }
    let failures = data.failures.iter().map(|run| format!("{}: {}", run.id, run.why));
    write_list(&mut page, data.failures_title(), failures);
    if let Some(plan) = data.plan.as_ref().filter(|plan| !plan.job.is_empty()) {
        let _ = writeln!(page, "<h2>Job</h2>\n<pre>{}</pre>", escape(&plan.job));
    }
    page.push_str("<h2>About</h2>\n<dl>");
    for (name, value) in about(data) {
        let _ = write!(page, "<dt>{name}</dt><dd>{}</dd>", escape(&value));
    }
    page.push_str("</dl>\n");
    page.push_str("</body>\n</html>\n");
    page
}

/// What a reader with one minute needs: what was run, the conclusions, and the two charts that
/// matter most.
fn write_first_screen(page: &mut String, data: &ReportData) {
    let _ = writeln!(page, "<p class=\"dim\">{}</p>", escape(&summary_line(data)));
    page.push_str("<section class=\"first\">\n<div>\n<h2>Conclusions</h2>\n<ul>\n");
    for sentence in advice(data) {
        let _ = writeln!(page, "<li>{}</li>", escape_sentence(&sentence));
    }
    page.push_str("</ul>\n</div>\n");
    let charts = first_charts(data);
    if !charts.is_empty() {
        let _ = writeln!(page, "<div class=\"charts\">\n{}</div>", charts.concat());
    }
    page.push_str("</section>\n");
}

fn write_heading(page: &mut String, title: &str, note: &str) {
    let _ = writeln!(page, "<h2>{}</h2>", escape(title));
    if !note.is_empty() {
        let _ = writeln!(page, "<p class=\"dim\">{}</p>", escape(note));
    }
}

fn write_list(page: &mut String, title: &str, items: impl Iterator<Item = String>) {
    let items: String = items.map(|item| format!("<li>{}</li>\n", escape(&item))).collect();
    if !items.is_empty() {
        let _ = writeln!(page, "<h2>{title}</h2>\n<ul>\n{items}</ul>");
    }
}
