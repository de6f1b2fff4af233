//! Decides how each column is used: as the job says, or else by the first rows.

use paceline_data::DataError;

use crate::column::{CodeChoice, ColumnChoice, ColumnSpec, ScaleChoice};
use crate::column_error::{missing_column, refused};
use crate::column_names::is_unnamed;
use crate::label::{MOST_CLASSES, MOST_GUESSED_CLASSES};
use crate::sample::{ColumnSample, MOST_DISTINCT, TableSample};

/// Names that a label is likely to have, in lower case.
const LABELS: [&str; 8] =
    ["label", "target", "class", "y", "click", "clicked", "outcome", "is_click"];
/// A column whose values have at least this many words is text.
const TEXT_WORDS: f64 = 3.0;
/// A column is an identifier only if this many values differ.
const LEAST_IDS: usize = 100;

/// The longest part of a value that a message shows, in bytes.
const LONGEST_SHOWN: usize = 40;

/// A column, and how it is used.
#[derive(Clone, Debug)]
pub(crate) struct PlannedColumn {
    pub(crate) name: String,
    pub(crate) choice: ColumnChoice,
    /// Why, if the job does not say.
    pub(crate) why: Option<String>,
    /// What the user may have meant differently.
    pub(crate) doubt: Option<String>,
}

/// What a job says about columns, by the columns of a file.
pub(crate) struct ColumnPlanner<'a> {
    pub(crate) names: &'a [String],
    pub(crate) sample: &'a TableSample,
    /// Bits of a hash, unless the job says otherwise.
    pub(crate) bits: u32,
    /// Whether one column must be the label.
    pub(crate) needs_label: bool,
}

impl ColumnPlanner<'_> {
    /// How every column is used. Exactly one is the label, or at most one if none is needed.
    pub(crate) fn plan(&self, specs: &[ColumnSpec]) -> Result<Vec<PlannedColumn>, DataError> {
        let mut declared: Vec<Option<&ColumnSpec>> = vec![None; self.names.len()];
        for spec in specs {
            let place = self.find(&spec.column)?;
            if let Some(other) = declared[place].replace(spec) {
                return Err(refused(format!(
                    "{:?} and {:?} are one column; declare it once",
                    other.column, spec.column
                )));
            }
        }
        let mut planned: Vec<PlannedColumn> = (0..self.names.len())
            .map(|place| self.column(place, declared[place].map(|spec| &spec.choice)))
            .collect();
        let is_label = |column: &PlannedColumn| matches!(column.choice, ColumnChoice::Label { .. });
        match planned.iter().filter(|column| is_label(column)).count() {
            0 => match self.guess_label(&declared) {
                Ok((place, why)) => {
                    planned[place].choice = ColumnChoice::Label { classes: Vec::new() };
                    planned[place].why = Some(why);
                    planned[place].doubt = None;
                }
                Err(error) if self.needs_label => return Err(error),
                Err(_) => {}
            },
            1 => {}
            _ => return Err(refused("two columns are declared as the label")),
        }
        for (place, column) in planned.iter_mut().enumerate() {
            if let ColumnChoice::Label { classes } = &mut column.choice
                && classes.is_empty()
            {
                *classes = self.plain_classes(place);
            }
        }
        Ok(planned)
    }

    /// The place of a column that is named, or numbered from 1.
    pub(crate) fn find(&self, column: &str) -> Result<usize, DataError> {
        let named = self.names.iter().position(|name| name == column);
        let numbered = || column.parse::<usize>().ok()?.checked_sub(1);
        named
            .or_else(|| numbered().filter(|&place| place < self.names.len()))
            .ok_or_else(|| missing_column(column, self.names))
    }

    fn column(&self, place: usize, declared: Option<&ColumnChoice>) -> PlannedColumn {
        let (name, sample) = (self.names[place].clone(), &self.sample.columns[place]);
        let (choice, why) = match declared {
            Some(choice) => (choice.clone(), None),
            None => {
                let (choice, why) = infer(&name, sample);
                (choice, Some(why))
            }
        };
        let is_feature = !matches!(choice, ColumnChoice::Number(_) | ColumnChoice::Ignore);
        let is_guessed = declared.is_none() && is_feature;
        let doubt = if is_guessed { doubt_about(&name, sample) } else { None };
        let codes = |codes: CodeChoice| self.complete(codes, sample);
        let choice = match choice {
            ColumnChoice::Category(choice) => ColumnChoice::Category(codes(choice)),
            ColumnChoice::List { separator, codes: choice } => {
                // A sample counts whole lists, not what is in them.
                let choice = if choice == CodeChoice::default() {
                    CodeChoice { bits: Some(self.bits), min_count: None }
                } else {
                    choice
                };
                ColumnChoice::List { separator, codes: choice }
            }
            ColumnChoice::Text { bits, ngrams } => {
                ColumnChoice::Text { bits: bits.or(Some(self.bits)), ngrams }
            }
            other => other,
        };
        PlannedColumn { name, choice, why, doubt }
    }

    /// Decides between a vocabulary and a hash.
    fn complete(&self, choice: CodeChoice, sample: &ColumnSample) -> CodeChoice {
        match choice {
            CodeChoice { bits: None, min_count: None } if sample.has_few_values() => {
                CodeChoice { min_count: Some(1), bits: None }
            }
            CodeChoice { bits: None, min_count: None } => {
                CodeChoice { bits: Some(self.bits), min_count: None }
            }
            decided => decided,
        }
    }

    /// The label of a table that declares none, and why.
    fn guess_label(&self, declared: &[Option<&ColumnSpec>]) -> Result<(usize, String), DataError> {
        let free = |place: usize| declared[place].is_none();
        let likely = |name: &String| LABELS.contains(&name.to_lowercase().as_str());
        if let Some(place) = (0..self.names.len()).find(|&at| free(at) && likely(&self.names[at])) {
            return Ok((place, "by its name".into()));
        }
        let fits = |place: &usize| {
            let sample = &self.sample.columns[*place];
            free(*place)
                && sample.missing == 0
                && (2..=MOST_GUESSED_CLASSES).contains(&sample.values.len())
                // Of three rows with three values, none says what a class is.
                && (sample.values.len() == 2 || !sample.all_differ)
        };
        let ends = [self.names.len().saturating_sub(1), 0];
        if let Some(place) = ends.into_iter().find(fits) {
            let count = self.sample.columns[place].values.len();
            return Ok(if place == ends[0] {
                (place, format!("the last column, with {count} different values"))
            } else {
                let last = self.why_not_last(declared);
                (place, format!("the first column, with {count} different values{last}"))
            });
        }
        if let [name] = self.names {
            return Err(refused(format!(
                "there is only one column, {name:?}; set data.delimiter to the character between \
                 two fields, or leave it out"
            )));
        }
        let last = self.why_not_last(declared);
        Err(refused(format!(
            "no column is the label: declare it, as in data.columns.NAME = \"label\"; NAME is the \
             column's name, or its number from 1{last}"
        )))
    }

    /// Why the last column is not the label, as the end of a sentence; empty if the job says how to
    /// use it, or the first rows say too little.
    fn why_not_last(&self, declared: &[Option<&ColumnSpec>]) -> String {
        let (Some(name), Some(sample), Some(None)) =
            (self.names.last(), self.sample.columns.last(), declared.last())
        else {
            return String::new();
        };
        let has_many = sample.values.len() > MOST_GUESSED_CLASSES;
        let why = if let [value] = &*sample.values.iter().collect::<Vec<_>>() {
            let value = String::from_utf8_lossy(&value[..value.len().min(LONGEST_SHOWN)]);
            format!("its first rows have only one value, {value:?}")
        } else if sample.missing > 0 && !has_many && sample.present > 0 {
            "some of its values are missing: declare it, and set data.on_bad = \"skip\" to leave \
             such rows out"
                .to_owned()
        } else if sample.is_numeric() {
            "its values are numbers: Paceline predicts classes, not numbers".to_owned()
        } else if has_many {
            format!("it has more than {MOST_GUESSED_CLASSES} different values")
        } else {
            return String::new();
        };
        format!("; if you mean {name:?}, {why}")
    }

    /// The classes 0 and 1, or -1 and 1, if the sample has no other label. They need no look at
    /// all rows.
    fn plain_classes(&self, place: usize) -> Vec<String> {
        let values = &self.sample.columns[place].values;
        let is_plain = |classes: [&[u8]; 2]| {
            values.len() == 2 && classes.iter().all(|class| values.contains(*class))
        };
        let pairs: [[&[u8]; 2]; 2] = [[b"0", b"1"], [b"-1", b"1"]];
        let found = pairs.into_iter().find(|classes| is_plain(*classes));
        let text = |class: &[u8]| String::from_utf8_lossy(class).into_owned();
        found.map_or(Vec::new(), |classes| classes.map(text).to_vec())
    }
}

/// What is doubtful about a column that is not one of numbers.
fn doubt_about(name: &str, sample: &ColumnSample) -> Option<String> {
    if sample.has_comma_numbers() {
        return Some(
            "they look like numbers with a comma, which are not read as numbers; write 1234.5 for \
             1,234.5 or 1234,5"
                .into(),
        );
    }
    let text = sample.first_text.as_ref().filter(|_| sample.is_nearly_numeric())?;
    Some(format!(
        "nearly all are numbers, and {:?} is not; declare data.columns.{name:?} = \"number\" to \
         refuse or skip such rows",
        String::from_utf8_lossy(&text[..text.len().min(LONGEST_SHOWN)])
    ))
}

/// How a column is probably meant, and why.
fn infer(name: &str, sample: &ColumnSample) -> (ColumnChoice, String) {
    if sample.present == 0 {
        return (ColumnChoice::Ignore, "no value in the first rows".into());
    }
    let many = sample.present >= LEAST_IDS && sample.all_differ;
    let lower = name.to_lowercase();
    let is_named_id =
        lower == "id" || lower.ends_with("_id") || lower.ends_with("-id") || is_unnamed(&lower);
    if many && (is_named_id || (!sample.is_numeric() && sample.mean_words() < TEXT_WORDS)) {
        return (ColumnChoice::Id, "every value differs".into());
    }
    if sample.is_numeric() {
        let range = format!("from {} to {}", sample.least, sample.greatest);
        return if sample.is_skewed() {
            (ColumnChoice::Number(ScaleChoice::Log), format!("{range}, mostly small"))
        } else {
            (ColumnChoice::Number(ScaleChoice::Standard), range)
        };
    }
    if sample.mean_words() >= TEXT_WORDS && sample.values.len() > MOST_CLASSES {
        let text = ColumnChoice::Text { bits: None, ngrams: 1 };
        return (text, format!("{:.0} words a value", sample.mean_words()));
    }
    let why = match sample.categories() {
        1 => "1 value".to_owned(),
        many if many > MOST_DISTINCT => format!("more than {MOST_DISTINCT} different values"),
        few => format!("{few} different values"),
    };
    (ColumnChoice::Category(CodeChoice::default()), why)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text_format::TextFormat;

    fn plan(text: &str, specs: &[(&str, ColumnChoice)]) -> Result<Vec<PlannedColumn>, String> {
        let (header, rows) = text.split_once('\n').unwrap();
        let names: Vec<String> = header.split(',').map(String::from).collect();
        let sample = TableSample::of_text(rows.as_bytes(), TextFormat::default(), names.len());
        let planner = ColumnPlanner { names: &names, sample: &sample, bits: 18, needs_label: true };
        let specs = specs.iter().map(|(column, choice)| ColumnSpec {
            column: (*column).to_owned(),
            choice: choice.clone(),
        });
        planner.plan(&specs.collect::<Vec<_>>()).map_err(|error| error.to_string())
    }

    fn people() -> String {
        let cities = ["Paris", "Rome", "Oslo"];
        let rows = (0..200).map(|row| {
            let (city, gain) = (cities[row % 3], if row % 50 == 0 { 99_999 } else { 0 });
            let words = format!("a text of {row} words");
            format!("{row},{}.5,{city},{gain},,{words},{}\n", row % 60, row % 2)
        });
        format!("user_id,age,city,gain,empty,about,buys\n{}", rows.collect::<String>())
    }

    #[test]
    fn types_follow_from_the_first_rows() {
        let planned = plan(&people(), &[]).unwrap();
        let choices: Vec<_> = planned.iter().map(|column| column.choice.clone()).collect();
        let vocabulary = CodeChoice { bits: None, min_count: Some(1) };
        assert_eq!(choices[0], ColumnChoice::Id);
        assert_eq!(choices[1], ColumnChoice::Number(ScaleChoice::Standard));
        assert_eq!(choices[2], ColumnChoice::Category(vocabulary));
        assert_eq!(choices[3], ColumnChoice::Number(ScaleChoice::Log));
        assert_eq!(choices[4], ColumnChoice::Ignore);
        assert_eq!(choices[6], ColumnChoice::Label { classes: vec!["0".into(), "1".into()] });
        assert!(planned[6].why.as_ref().unwrap().contains("last column"));
    }

    #[test]
    fn every_text_that_is_not_empty_is_a_value_of_a_category() {
        let sites = ["A", "B", "C", "NA", "?", ""];
        let rows = (0..60).map(|row| format!("{},same,{}\n", sites[row % 6], row % 2));
        let planned = plan(&format!("site,one,y\n{}", rows.collect::<String>()), &[]).unwrap();
        assert_eq!(planned[0].why.as_deref(), Some("5 different values"));
        assert_eq!(planned[1].why.as_deref(), Some("1 value"));
    }

    #[test]
    fn numbers_with_commas_are_doubtful_categories() {
        let row = |row: usize| format!("\"1,{:03}\",\"0,5\",a b,{}\n", row % 90, row % 2);
        let rows: String = (0..200).map(row).collect();
        let planned = plan(&format!("price,share,text,y\n{rows}"), &[]).unwrap();
        assert!(matches!(planned[0].choice, ColumnChoice::Category(_)));
        let doubts: Vec<_> = planned.iter().map(|column| column.doubt.is_some()).collect();
        assert_eq!(doubts, [true, true, false, false]);
        let declared = ("price", ColumnChoice::Category(CodeChoice::default()));
        let planned = plan(&format!("price,share,text,y\n{rows}"), &[declared]).unwrap();
        assert_eq!(planned[0].doubt, None);
    }

    #[test]
    fn an_infinite_value_does_not_make_a_column_of_numbers_one_of_categories() {
        let number = |row: usize| if row == 70 { "1e999".into() } else { format!("{row}.5") };
        let text = |row: usize| if row == 70 { "n.a.".into() } else { row.to_string() };
        let row = |row: usize| format!("{},{},inf,{}\n", number(row % 90), text(row % 90), row % 2);
        let rows: String = (0..200).map(row).collect();
        let planned = plan(&format!("size,age,same,y\n{rows}"), &[]).unwrap();
        assert!(matches!(planned[0].choice, ColumnChoice::Number(_)), "{:?}", planned[0]);
        assert!(matches!(planned[1].choice, ColumnChoice::Category(_)), "{:?}", planned[1]);
        let doubt = planned[1].doubt.as_deref().unwrap();
        assert!(doubt.contains("nearly all are numbers, and \"n.a.\" is not"), "{doubt}");
        assert!(matches!(planned[2].choice, ColumnChoice::Category(_)), "no value is finite");
    }

    #[test]
    fn what_is_declared_is_used_by_name_or_number() {
        let raw = ColumnChoice::Number(ScaleChoice::Raw);
        let label = ColumnChoice::Label { classes: Vec::new() };
        let planned = plan(&people(), &[("age", raw.clone()), ("3", label)]).unwrap();
        assert_eq!(planned[1].choice, raw);
        assert!(matches!(planned[2].choice, ColumnChoice::Label { .. }));
        assert!(matches!(planned[6].choice, ColumnChoice::Number(_)), "{:?}", planned[6]);
    }

    #[test]
    fn columns_that_are_not_there_or_declared_twice_are_refused() {
        let check = |specs: &[(&str, ColumnChoice)], says: &str| {
            let error = plan(&people(), specs).unwrap_err();
            assert!(error.contains(says), "{error}");
        };
        check(
            &[("aeg", ColumnChoice::Ignore)],
            "there is no column \"aeg\"; did you mean \"age\"?",
        );
        check(&[("8", ColumnChoice::Ignore)], "there is no column \"8\"");
        check(&[("age", ColumnChoice::Id), ("2", ColumnChoice::Id)], "one column");
        let label = || ColumnChoice::Label { classes: Vec::new() };
        check(&[("age", label()), ("city", label())], "two columns");
    }

    #[test]
    fn a_table_without_a_likely_label_is_refused() {
        let rows: String = (0..100).map(|row| format!("{row}.5,{row}.25\n")).collect();
        let error = plan(&format!("a,b\n{rows}"), &[]).unwrap_err();
        assert!(error.contains("data.columns.NAME = \"label\""), "{error}");
        assert!(error.contains("if you mean \"b\""), "{error}");
        assert!(error.contains("predicts classes, not numbers"), "{error}");
    }

    #[test]
    fn a_last_column_that_is_not_the_label_is_explained() {
        let check = |last: &dyn Fn(usize) -> String, says: &str| {
            let rows: String = (0..100).map(|row| format!("{row}.5,{}\n", last(row))).collect();
            let error = plan(&format!("a,b\n{rows}"), &[]).unwrap_err();
            assert!(error.ends_with(&format!("; if you mean \"b\", {says}")), "{error}");
        };
        check(&|_| "low".into(), "its first rows have only one value, \"low\"");
        let gaps = |row: usize| ["no", "yes", "no", "yes", ""][row % 5].to_owned();
        check(
            &gaps,
            "some of its values are missing: declare it, and set data.on_bad = \"skip\" to leave \
             such rows out",
        );
        check(&|row| format!("street {}", row % 50), "it has more than 20 different values");
        // How a declared column is used is known.
        let rows: String = (0..100).map(|row| format!("{row}.5,{}\n", row % 2)).collect();
        let declared = [("b", ColumnChoice::Number(ScaleChoice::Raw))];
        let error = plan(&format!("a,b\n{rows}"), &declared).unwrap_err();
        assert!(error.ends_with("or its number from 1"), "{error}");
    }
}
