//! `[[finding]]`: a published conclusion, and how to check whether it holds for these runs.

use paceline_lab::{CellSettings, Finding, FindingCheck, Trend};
use toml::de::{DeTable, DeValue};

use super::problem::Problem;
use super::schema::find_key;
use super::sweep_sections::{SECTIONS, SectionReader, SweepSetting, lines, number};
use super::value::plain;

/// The keys of a finding as read from the file.
#[derive(Default)]
struct FindingKeys {
    claim: Finding,
    steps: Option<String>,
    verdict: Option<String>,
    figure: String,
    over: String,
    trend: Option<String>,
    against: Option<CellSettings>,
    ratio: Option<(f64, f64)>,
}

impl SectionReader<'_> {
    pub(super) fn findings(&mut self, table: &DeTable<'_>) -> Vec<Finding> {
        let section = table.iter().find(|(key, _)| key.get_ref() == SECTIONS[2]);
        let Some((key, value)) = section else { return Vec::new() };
        let tables: Vec<_> = match value.get_ref() {
            DeValue::Array(tables) => tables.iter().collect(),
            _ => vec![value],
        };
        let mut claims = Vec::new();
        for table in tables {
            match table.get_ref() {
                DeValue::Table(entry) if value.get_ref().is_array() => {
                    claims.extend(self.finding(table.span().start, entry));
                }
                _ => self
                    .complain(key.span().start, "finding is a list of tables: write [[finding]]"),
            }
        }
        claims
    }

    fn finding(&mut self, at: usize, table: &DeTable<'_>) -> Option<Finding> {
        let at = lines(table).first().map_or(at, |line| line.at);
        let mut words = FindingKeys::default();
        for line in lines(table) {
            let text = |value: &DeValue<'_>| match value {
                DeValue::String(text) => text.to_string(),
                _ => String::new(),
            };
            match (line.name, line.value) {
                ("says", value) => words.claim.says = text(value),
                ("why", value) => words.claim.why = text(value),
                ("steps", value) => words.steps = Some(text(value)),
                ("verdict", value) => words.verdict = Some(text(value)),
                ("figure", value) => words.figure = text(value),
                ("over", value) => words.over = text(value),
                ("trend", value) => words.trend = Some(text(value)),
                ("when", DeValue::Table(when)) => words.claim.when = self.values("when", when),
                ("against", DeValue::Table(other)) => {
                    words.against = Some(self.values("against", other));
                }
                ("ratio", DeValue::Array(ends)) => {
                    let ends: Vec<_> =
                        ends.iter().filter_map(|end| number(end.get_ref())).collect();
                    let &[least, most] = &ends[..] else {
                        self.complain(line.at, "finding.ratio must be two numbers above 0");
                        return None;
                    };
                    words.ratio = Some((least, most));
                }
                (name, _) => {
                    let message = format!(
                        "finding.{name} is not known; there are says, when, why, and steps, \
                         verdict, figure with over and trend, or figure with against and ratio"
                    );
                    self.complain(line.at, &message);
                    return None;
                }
            }
        }
        match words.check() {
            Ok(check) => Some(Finding { check, ..words.claim }),
            Err(message) => {
                self.complain(at, &message);
                None
            }
        }
    }

    /// Settings in the form in which a resolved job writes them.
    fn values(&mut self, name: &str, table: &DeTable<'_>) -> CellSettings {
        let settings = self.settings(&format!("finding.{name}"), table);
        let value = |setting: &SweepSetting| (setting.key.clone(), plain(&setting.text));
        let found = settings.iter().map(value).collect();
        for setting in settings {
            if find_key(&setting.key).is_none() {
                let message = format!("finding.{name}: {} is not a key", setting.key);
                self.problems.push(Problem { origin: setting.origin, message });
            }
        }
        found
    }
}

impl FindingKeys {
    /// The check of the finding; there must be exactly one.
    fn check(&mut self) -> Result<FindingCheck, String> {
        if self.claim.says.is_empty() {
            return Err("finding has no says, the sentence it states".into());
        }
        let figure = std::mem::take(&mut self.figure);
        if !figure.is_empty() && !paceline_lab::is_figure(&figure) {
            let names = paceline_lab::figure_names().join(", ");
            return Err(format!("finding.figure {figure:?} is not known; there are {names}"));
        }
        let trend = self.trend.as_deref().map(|trend| {
            Trend::named(trend)
                .ok_or_else(|| format!("finding.trend must be grows, falls or flat, not {trend:?}"))
        });
        match (self.steps.as_deref(), self.verdict.take(), figure.is_empty()) {
            (Some("first"), None, true) => Ok(FindingCheck::FirstWorkerLeads),
            (Some("equal"), None, true) => Ok(FindingCheck::EqualSteps),
            (Some(other), None, true) => {
                Err(format!("finding.steps must be first or equal, not {other:?}"))
            }
            (None, Some(kind), true) => Ok(FindingCheck::Verdict(kind)),
            (None, None, false) => match (trend, self.against.take(), self.ratio) {
                (Some(trend), None, None) if !self.over.is_empty() => {
                    let over = std::mem::take(&mut self.over);
                    Ok(FindingCheck::Trend { figure, over, trend: trend? })
                }
                (None, Some(against), Some((least, most))) => {
                    Ok(FindingCheck::Ratio { figure, against, least, most })
                }
                _ => Err("finding.figure needs over and trend, or against and ratio".into()),
            },
            _ => Err("finding needs one of steps, verdict and figure".into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RawJob;

    fn read(text: &str) -> Result<Vec<Finding>, String> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("job.toml");
        std::fs::write(&path, text).unwrap();
        let job = RawJob::read(&path).unwrap();
        if job.problems.is_empty() {
            return Ok(job.findings);
        }
        Err(job.problems.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn a_finding_has_one_check() {
        let text = "[[finding]]\nsays = \"a\"\nwhen = { \"cluster.mode\" = \"async\" }\n\
                    steps = \"first\"\n\
                    [[finding]]\nsays = \"b\"\nfigure = \"seconds\"\nover = \"train.batch\"\n\
                    trend = \"falls\"\n\
                    [[finding]]\nsays = \"c\"\nfigure = \"seconds\"\nratio = [2, 4.5]\n\
                    against = { \"cluster.workers\" = 2 }\n";
        let claims = read(text).unwrap();
        assert_eq!(claims[0].check, FindingCheck::FirstWorkerLeads);
        assert_eq!(claims[0].when, [("cluster.mode".to_owned(), "async".to_owned())]);
        assert!(
            matches!(&claims[1].check, FindingCheck::Trend { over, .. } if over == "train.batch")
        );
        assert!(matches!(&claims[2].check, FindingCheck::Ratio { most, .. } if *most == 4.5));
    }

    #[test]
    fn a_finding_that_cannot_be_checked_is_refused_with_its_line() {
        for (text, fault) in [
            ("finding = 1", "write [[finding]]"),
            ("[[finding]]\nsays = \"a\"", "job.toml:2: finding needs one of"),
            ("[[finding]]\nsteps = \"first\"", "has no says"),
            ("[[finding]]\nsays = \"a\"\nsteps = \"last\"", "first or equal"),
            ("[[finding]]\nsays = \"a\"\nfigure = \"secs\"\n", "there are seconds, "),
            ("[[finding]]\nsays = \"a\"\nfigure = \"seconds\"\n", "needs over and trend"),
            ("[[finding]]\nsays = \"a\"\nstep = 1", "finding.step is not known"),
            (
                "[[finding]]\nsays = \"a\"\nsteps = \"first\"\nwhen = { \"x.y\" = 1 }",
                "x.y is not a key",
            ),
        ] {
            let said = read(text).unwrap_err();
            assert!(said.contains(fault), "{text}: {said}");
        }
    }
}
