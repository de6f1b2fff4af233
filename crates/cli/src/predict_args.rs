//! The command lines of `predict`, `evaluate` and `export`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use paceline_score::{AnswerStyle, BadRows, OutputFormat, ScoreError};

/// Arguments of `predict`.
#[derive(Args, Clone, Debug)]
pub struct PredictArgs {
    /// A model.safetensors file, or the run directory that contains it
    #[arg(value_name = "MODEL|RUN")]
    pub model: PathBuf,
    /// Files, folders or patterns of what the model takes; - is standard input
    #[arg(value_name = "INPUT", required_unless_present = "test")]
    pub inputs: Vec<PathBuf>,
    /// Predict for the test examples of the run's own job instead
    #[arg(long, conflicts_with = "inputs")]
    pub test: bool,
    /// File for the predictions, which must not exist [default: standard output]
    #[arg(long, short, value_name = "OUT")]
    pub output: Option<PathBuf>,
    /// Replace the file if it exists
    #[arg(long, requires = "output")]
    pub force: bool,
    /// Format of the predictions [default: by the ending of OUT]
    #[arg(long)]
    pub format: Option<FormatName>,
    /// What to write for each row
    #[arg(long, default_value = "probabilities")]
    pub show: ShowName,
    /// Write the K most likely classes with their probabilities
    #[arg(long, value_name = "K", conflicts_with = "show")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    pub top: Option<u32>,
    /// What to do about rows that cannot be read: fail, skip them, or mark them with their error in
    /// a last column
    #[arg(long, default_value = "fail")]
    pub on_bad: OnBadName,
    /// Number of threads [default: all cores]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub threads: Option<u32>,
}

/// Arguments of `evaluate`.
#[derive(Args, Clone, Debug)]
pub struct EvaluateArgs {
    /// A model.safetensors file, or the run directory that contains it
    #[arg(value_name = "MODEL|RUN")]
    pub model: PathBuf,
    /// Labelled files of what the model takes, - for standard input, or a JOB.toml with a test set
    /// [default: the test set of the job.toml beside the model]
    #[arg(value_name = "INPUT|JOB.toml")]
    pub inputs: Vec<PathBuf>,
    /// Set a key of the job; the value is TOML, and a bare word is text. The last one for a key
    /// counts
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub settings: Vec<String>,
    /// Labels of an IDX file of images or of a numpy array [default: the file beside it, as
    /// labels-idx1 beside images-idx3, or y_test beside x_test]
    #[arg(long, value_name = "FILE")]
    pub labels: Option<PathBuf>,
    /// Probability above which an example of two classes counts as one of the second [default:
    /// 0.5]
    #[arg(long, value_name = "P", value_parser = probability)]
    pub threshold: Option<f64>,
    /// What to do about rows that cannot be read
    #[arg(long, default_value = "fail")]
    pub on_bad: OnBadName,
    /// Print the figures as JSON, unrounded
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `export`.
#[derive(Args, Clone, Debug)]
pub struct ExportArgs {
    /// A model.safetensors file, or the run directory that contains it
    #[arg(value_name = "MODEL|RUN")]
    pub model: PathBuf,
    /// The ONNX file, which must not exist
    #[arg(long, short, value_name = "OUT.onnx")]
    pub output: PathBuf,
    /// Replace the file if it exists
    #[arg(long)]
    pub force: bool,
}

/// A format of predictions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum FormatName {
    /// Comma-separated values with a header
    Csv,
    /// An object of JSON on each line
    Jsonl,
    /// A Parquet file
    Parquet,
}

/// What to write for each row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ShowName {
    /// The probability of each class; of two classes, that of the second
    Probabilities,
    /// The most likely class
    Class,
    /// The raw scores
    Scores,
}

/// What to do about rows that cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum OnBadName {
    /// End with an error that names the first one
    Fail,
    /// Leave them out and count them
    Skip,
    /// Write their error, and count them
    Mark,
}

impl From<OnBadName> for BadRows {
    fn from(name: OnBadName) -> Self {
        match name {
            OnBadName::Fail => BadRows::Fail,
            OnBadName::Skip => BadRows::Skip,
            OnBadName::Mark => BadRows::Mark,
        }
    }
}

impl PredictArgs {
    /// What is written for each row.
    pub(crate) fn style(&self) -> AnswerStyle {
        match (self.top, self.show) {
            (Some(most), _) => AnswerStyle::Top(most as usize),
            (None, ShowName::Probabilities) => AnswerStyle::Probabilities,
            (None, ShowName::Class) => AnswerStyle::Class,
            (None, ShowName::Scores) => AnswerStyle::Scores,
        }
    }

    /// The format of the output.
    pub(crate) fn output_format(&self) -> Result<OutputFormat, ScoreError> {
        match (self.format, &self.output) {
            (Some(FormatName::Csv), _) | (None, None) => Ok(OutputFormat::Csv),
            (Some(FormatName::Jsonl), _) => Ok(OutputFormat::JsonLines),
            (Some(FormatName::Parquet), _) => Ok(OutputFormat::Parquet),
            (None, Some(path)) => OutputFormat::of_name(path),
        }
    }
}

/// Parses a probability between 0 and 1.
fn probability(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if value > 0.0 && value < 1.0 => Ok(value),
        _ => Err("it must be greater than 0 and less than 1".into()),
    }
}
