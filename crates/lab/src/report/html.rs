//! The report as one page that needs nothing beside it: no script, no font, no picture.

use std::fmt::Write;

use super::tables::{
    PREDICTED, ReportTable, about, claims, predictions, references, results, verdicts,
};
use crate::advice::advice;
use crate::charts::charts;
use crate::report_data::ReportData;
use crate::svg::escape;

/// The page's look: light, dark and paper, down to the width of a phone.
const STYLE: &str = include_str!("style.css");

/// Longer texts in tables are broken into lines.
const LONG: usize = 40;

/// The findings as an HTML page.
pub fn html(data: &ReportData) -> String {
    let name = escape(&data.name);
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{name}</title>\n<link rel=\"icon\" href=\"data:,\">\n\
         <style>\n{STYLE}</style>\n</head>\n<body>\n<h1>{name}</h1>\n<dl>"
    );
    for (name, value) in about(data) {
        let _ = write!(page, "<dt>{name}</dt><dd>{}</dd>", escape(&value));
    }
    page.push_str(
        "</dl>\n<h2>Results</h2>\n<p class=\"dim\">Means, and the standard deviation of \
                   repeats. Processor time is of all tasks, memory of the largest.</p>\n",
    );
    table(&mut page, &results(data));
    let references = references(data);
    if !references.rows.is_empty() {
        page.push_str("<h2>Beside others</h2>\n");
        table(&mut page, &references);
    }
    let claims = claims(data);
    if !claims.rows.is_empty() {
        page.push_str("<h2>What others found</h2>\n");
        table(&mut page, &claims);
    }
    let predictions = predictions(data);
    if !predictions.rows.is_empty() {
        let _ = writeln!(page, "<h2>What the links allow</h2>\n<p class=\"dim\">{PREDICTED}</p>");
        table(&mut page, &predictions);
    }
    let verdicts = verdicts(data);
    if !verdicts.rows.is_empty() {
        page.push_str("<h2>What held the runs back</h2>\n");
        table(&mut page, &verdicts);
    }
    for group in charts(data) {
        let _ = writeln!(page, "<h2>{}</h2>", escape(&group.title));
        if !group.note.is_empty() {
            let _ = writeln!(page, "<p class=\"dim\">{}</p>", escape(&group.note));
        }
        let _ = writeln!(page, "<div class=\"charts\">\n{}</div>", group.figures.concat());
    }
    list(
        &mut page,
        "What failed",
        data.failures.iter().map(|run| format!("{}: {}", run.id, run.why)),
    );
    if let Some(plan) = data.plan.as_ref().filter(|plan| !plan.job.is_empty()) {
        let job = escape(&plan.job);
        let _ = writeln!(page, "<h2>The job</h2>\n<pre>{job}</pre>");
    }
    list(&mut page, "What the measurements say", advice(data).into_iter());
    page.push_str("</body>\n</html>\n");
    page
}

fn list(page: &mut String, title: &str, items: impl Iterator<Item = String>) {
    let items: String = items.map(|item| format!("<li>{}</li>\n", escape(&item))).collect();
    if !items.is_empty() {
        let _ = writeln!(page, "<h2>{title}</h2>\n<ul>\n{items}</ul>");
    }
}

fn table(page: &mut String, table: &ReportTable) {
    let row = |cells: &[String], tag: &str| {
        let cell = |(column, text): (usize, &String)| {
            let class = match column < table.words {
                true if text.chars().count() > LONG => " class=\"w t\"",
                true => " class=\"w\"",
                false => "",
            };
            format!("<{tag}{class}>{}</{tag}>", escape(text))
        };
        format!("<tr>{}</tr>\n", cells.iter().enumerate().map(cell).collect::<String>())
    };
    let body: String = table.rows.iter().map(|cells| row(cells, "td")).collect();
    let head = row(&table.head, "th");
    let _ = writeln!(
        page,
        "<div class=\"wide\"><table>\n<thead>{head}</thead>\n<tbody>\n{body}</tbody>\n</table></div>"
    );
}
