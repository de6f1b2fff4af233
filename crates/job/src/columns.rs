//! The section `data.columns` in the raw form of a job, and its checks.

use paceline_table::{CodeChoice, ColumnChoice, ColumnSpec, ScaleChoice};

use super::check::JobChecker;
use super::column_path::{COLUMNS, column_name, split_column};
use super::layers::{UsedKey, origins_of, settings_of};
use super::problem::Problem;
use super::raw::RawJob;

impl RawJob {
    /// The columns that have keys, as TOML writes their names.
    pub(super) fn columns(&self) -> Vec<&str> {
        // A slash follows the dot, so all keys of columns lie between these two.
        let (first, end) = (format!("{COLUMNS}."), format!("{COLUMNS}/"));
        let entries = self.entries.range(first..end);
        let mut columns: Vec<&str> =
            entries.filter_map(|(path, _)| Some(split_column(path)?.0)).collect();
        columns.dedup();
        columns
    }

    /// The columns as a job file writes them, a line for each, with origins as comments. Defaults
    /// are left out.
    pub(super) fn explain_columns(&self) -> String {
        let used = self.used_keys();
        let mut text = format!("\n[{COLUMNS}]\n");
        for column in self.columns() {
            let of_column = |used: &&UsedKey<'_>| {
                split_column(&used.path).is_some_and(|(name, _)| name == column)
            };
            let keys = used.iter().filter(of_column).filter(|used| used.entry.is_set());
            let keys: Vec<_> = keys.collect();
            let setting = match keys[..] {
                [only] if only.key.name() == "as" => format!("{column} = {}", only.entry.value),
                _ => format!("{column} = {{ {} }}", settings_of(&keys)),
            };
            text.push_str(&format!("{setting:<32} # {}\n", origins_of(&keys)));
        }
        text
    }
}

impl JobChecker<'_> {
    /// What the job says about the columns of a table.
    pub(super) fn columns(&mut self) -> Vec<ColumnSpec> {
        let columns: Vec<String> = self.job.columns().into_iter().map(String::from).collect();
        columns.iter().filter_map(|column| self.column(column)).collect()
    }

    fn column(&mut self, written: &str) -> Option<ColumnSpec> {
        let at = |name: &str| format!("{COLUMNS}.{written}.{name}");
        let Some(entry) = self.job.entries.get(&at("as")) else {
            let own = format!("{COLUMNS}.{written}.");
            let mut entries = self.job.entries.iter();
            let (_, entry) = entries.find(|(path, e)| path.starts_with(&own) && e.is_set())?;
            let message = format!("{COLUMNS}.{written} does not say what the column is: set as");
            self.problems.push(Problem { origin: entry.origin.clone(), message });
            return None;
        };
        let origin = entry.origin.clone();
        let codes = |checker: &mut Self| CodeChoice {
            bits: checker.optional(&at("bits"), Self::whole).map(|bits| bits as u32),
            min_count: checker.optional(&at("min_count"), Self::whole),
        };
        let choice = match self.text(&at("as")).as_str() {
            "label" => ColumnChoice::Label {
                classes: self.optional(&at("classes"), Self::texts).unwrap_or_default(),
            },
            "number" => ColumnChoice::Number(match self.text(&at("scale")).as_str() {
                "raw" => ScaleChoice::Raw,
                "log" => ScaleChoice::Log,
                "buckets" => ScaleChoice::Buckets(self.whole(&at("buckets")) as u32),
                _ => ScaleChoice::Standard,
            }),
            "category" => ColumnChoice::Category(codes(self)),
            "list" => ColumnChoice::List {
                separator: self.character(&at("separator")),
                codes: codes(self),
            },
            "text" => ColumnChoice::Text {
                bits: self.optional(&at("bits"), Self::whole).map(|bits| bits as u32),
                ngrams: self.whole(&at("ngrams")) as u32,
            },
            "weight" => ColumnChoice::Weight,
            "id" => ColumnChoice::Id,
            "ignore" => ColumnChoice::Ignore,
            _ => return None,
        };
        let both = |codes: &CodeChoice| codes.bits.is_some() && codes.min_count.is_some();
        if let ColumnChoice::Category(codes) | ColumnChoice::List { codes, .. } = &choice
            && both(codes)
        {
            let message = format!(
                "{COLUMNS}.{written} has bits, for a hash, and min_count, for a vocabulary; leave \
                 one of them out"
            );
            self.problems.push(Problem { origin, message });
        }
        Some(ColumnSpec { column: column_name(written), choice })
    }
}
