//! Writes answers as lines of CSV or JSON.

use std::io::Write as _;

use paceline_data::sparse::put_decimal;

use crate::answer::AnswerValue;

/// The format of predictions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OutputFormat {
    /// Comma-separated values with a header.
    #[default]
    Csv,
    /// An object of JSON on each line.
    JsonLines,
    /// A Parquet file, which is complete only at the end.
    Parquet,
}

/// A value that identifies a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdValue<'a> {
    /// A number.
    Number(u64),
    /// Text, as it is in the input.
    Text(&'a str),
}

/// Formats rows: values that identify the row, then its answer.
#[derive(Clone, Debug)]
pub struct OutputRows {
    format: OutputFormat,
    columns: Vec<String>,
    /// What precedes each value: a comma, or its name.
    before: Vec<Vec<u8>>,
    /// The names of the classes, as they are written.
    classes: Vec<Vec<u8>>,
    ids: usize,
    /// Whether rows that cannot be scored have a line, with their error in the last column.
    has_errors: bool,
}

impl OutputRows {
    /// Rows with these columns.
    pub fn new(
        format: OutputFormat,
        ids: &[String],
        answers: &[String],
        classes: &[String],
        has_errors: bool,
    ) -> Self {
        let mut columns = [ids, answers].concat();
        columns.extend(has_errors.then(|| "error".into()));
        let before = columns.iter().enumerate().map(|(index, name)| {
            let mut text = Vec::new();
            match format {
                OutputFormat::JsonLines => {
                    text.push(if index > 0 { b',' } else { b'{' });
                    json_text(name, &mut text);
                    text.push(b':');
                }
                _ if index > 0 => text.push(b','),
                _ => {}
            }
            text
        });
        let written = |name: &String| {
            let mut text = Vec::new();
            write_text(format, name, &mut text);
            text
        };
        let classes = classes.iter().map(written).collect();
        Self { format, before: before.collect(), columns, classes, ids: ids.len(), has_errors }
    }

    /// The first line, if the format has one.
    pub fn header(&self) -> Vec<u8> {
        let mut line = Vec::new();
        if self.format == OutputFormat::Csv {
            for (index, name) in self.columns.iter().enumerate() {
                if index > 0 {
                    line.push(b',');
                }
                csv_text(name, &mut line);
            }
            line.push(b'\n');
        }
        line
    }

    /// Appends a row with its answer.
    #[inline]
    pub fn row(&self, ids: &[IdValue<'_>], answer: &[AnswerValue], out: &mut Vec<u8>) {
        self.put_ids(ids, out);
        for (before, value) in self.before[self.ids..].iter().zip(answer) {
            out.extend_from_slice(before);
            match *value {
                AnswerValue::Class(class) => out.extend_from_slice(&self.classes[class]),
                AnswerValue::Number(number) => self.put_number(number, out),
            }
        }
        if self.has_errors && self.format == OutputFormat::Csv {
            out.push(b',');
        }
        self.end(out);
    }

    /// Appends a row that cannot be scored.
    pub fn bad_row(&self, ids: &[IdValue<'_>], error: &str, out: &mut Vec<u8>) {
        self.put_ids(ids, out);
        let Some((last, answers)) = self.before[self.ids..].split_last() else { return };
        if self.format == OutputFormat::Csv {
            answers.iter().for_each(|before| out.extend_from_slice(before));
        }
        out.extend_from_slice(last);
        write_text(self.format, error, out);
        self.end(out);
    }

    fn put_ids(&self, ids: &[IdValue<'_>], out: &mut Vec<u8>) {
        debug_assert_eq!(ids.len(), self.ids, "values that identify a row");
        for (before, id) in self.before.iter().zip(ids) {
            out.extend_from_slice(before);
            match *id {
                IdValue::Number(number) => put_decimal(number, out),
                IdValue::Text(text) => write_text(self.format, text, out),
            }
        }
    }

    /// The shortest decimal that is read back as the same number.
    #[inline]
    fn put_number(&self, number: f32, out: &mut Vec<u8>) {
        if self.format == OutputFormat::JsonLines && !number.is_finite() {
            return out.extend_from_slice(b"null");
        }
        // Writing to a vector does not fail.
        let _ = write!(out, "{number:?}");
    }

    fn end(&self, out: &mut Vec<u8>) {
        if self.format == OutputFormat::JsonLines {
            out.push(b'}');
        }
        out.push(b'\n');
    }
}

fn write_text(format: OutputFormat, text: &str, out: &mut Vec<u8>) {
    match format {
        OutputFormat::JsonLines => json_text(text, out),
        _ => csv_text(text, out),
    }
}

/// Appends a field of CSV, quoted if it must be.
fn csv_text(text: &str, out: &mut Vec<u8>) {
    if !text.bytes().any(|byte| matches!(byte, b',' | b'"' | b'\n' | b'\r')) {
        return out.extend_from_slice(text.as_bytes());
    }
    out.push(b'"');
    for byte in text.bytes() {
        if byte == b'"' {
            out.push(b'"');
        }
        out.push(byte);
    }
    out.push(b'"');
}

fn json_text(text: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(serde_json::Value::from(text).to_string().as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANSWER: [AnswerValue; 2] = [AnswerValue::Class(1), AnswerValue::Number(0.1)];

    fn rows(format: OutputFormat, has_errors: bool) -> String {
        let texts = |texts: [&str; 2]| texts.map(String::from);
        let (ids, answers) = (texts(["file", "line"]), texts(["class", "p"]));
        let rows =
            OutputRows::new(format, &ids, &answers, &texts(["a,b", "say \"c\""]), has_errors);
        let mut out = rows.header();
        let ids = [IdValue::Text("x,y\n"), IdValue::Number(12)];
        rows.row(&ids, &ANSWER, &mut out);
        if has_errors {
            rows.bad_row(&ids, "no, \"never\"", &mut out);
        }
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn csv_quotes_what_it_must() {
        let expected = "file,line,class,p\n\"x,y\n\",12,\"say \"\"c\"\"\",0.1\n";
        assert_eq!(rows(OutputFormat::Csv, false), expected);
        let expected = "file,line,class,p,error\n\"x,y\n\",12,\"say \"\"c\"\"\",0.1,\n\
                        \"x,y\n\",12,,,\"no, \"\"never\"\"\"\n";
        assert_eq!(rows(OutputFormat::Csv, true), expected);
    }

    #[test]
    fn every_line_of_json_is_an_object() {
        let text = rows(OutputFormat::JsonLines, true);
        let lines: Vec<serde_json::Value> =
            text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(lines[0]["class"], "say \"c\"");
        assert_eq!((&lines[0]["line"], &lines[0]["p"]), (&12.into(), &0.1.into()));
        assert_eq!(lines[0].get("error"), None);
        assert_eq!(lines[1]["error"], "no, \"never\"");
        assert_eq!(lines[1].get("class"), None);
    }

    #[test]
    fn numbers_are_read_back_as_they_were() {
        let format = OutputRows::new(OutputFormat::Csv, &[], &["s".into()], &[], false);
        for number in [0.1, 1.0, -3.5e-12, f32::MIN_POSITIVE, 1e30, 0.333_333_34] {
            let mut out = Vec::new();
            format.row(&[], &[AnswerValue::Number(number)], &mut out);
            let text = String::from_utf8(out).unwrap();
            assert_eq!(text.trim().parse::<f32>().unwrap().to_bits(), number.to_bits(), "{text}");
        }
        let format = OutputRows::new(OutputFormat::JsonLines, &[], &["s".into()], &[], false);
        let mut out = Vec::new();
        format.row(&[], &[AnswerValue::Number(f32::NAN)], &mut out);
        assert_eq!(out, b"{\"s\":null}\n");
    }
}
