//! The command line of `paceline data`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use paceline_data::sparse;
use paceline_fetch::KnownDataset;

/// Commands for data sets.
#[derive(Debug, Subcommand)]
pub enum DataCommand {
    /// List the data sets, their state and their location
    List,
    /// Fetch a data set into the cache
    Get {
        /// Data set
        set: DatasetName,
        /// Fetch from this URL instead of the public mirrors; file names are appended to it. May
        /// be given more than once
        #[arg(long, value_name = "URL")]
        mirror: Vec<String>,
    },
    /// Print how the columns of a table would be used, as a section of a job file
    #[command(after_help = "Example:\n  \
        paceline data describe people.csv > job.toml && paceline train job.toml\n\n\
        The first rows decide. The reasons are comments. `-` reads from standard input.")]
    Describe(DescribeArgs),
    /// Remove the rows that jobs have cached; they are read again when a job needs them
    #[command(after_help = "Downloaded data sets and generated digits stay. Only files that \
        Paceline made are removed, and none that is being written.")]
    Clean {
        /// List what would be removed, and remove nothing
        #[arg(long)]
        dry_run: bool,
        /// Directory that jobs name in data.cache; by default `rows` in the cache directory
        #[arg(long, value_name = "DIR")]
        cache: Option<PathBuf>,
    },
    /// Write generated data to a file
    Make {
        /// Kind of data
        #[command(subcommand)]
        what: MakeCommand,
    },
}

/// Arguments of `data describe`.
#[derive(Args, Clone, Debug)]
pub struct DescribeArgs {
    /// File, directory or pattern of a table; `-` for standard input
    pub file: PathBuf,
    /// The first line does not name the columns
    #[arg(long)]
    pub no_header: bool,
    /// Column of the label, by its name or its number from 1
    #[arg(long, value_name = "COLUMN")]
    pub label: Option<String>,
}

/// Data to generate.
#[derive(Debug, Subcommand)]
pub enum MakeCommand {
    /// Clicks like those of Criteo's logs: 39 features a row, some of them in nearly every row
    #[command(after_help = "Example:\n  \
        paceline data make clicks --rows 1000000 --format libsvm clicks.svm\n\n\
        Row i depends on --features, --interactions, --seed and i alone. --test generates other \
        rows of the same distribution, for tests.")]
    Clicks(MakeClicksArgs),
}

/// Arguments of `data make clicks`.
#[derive(Args, Clone, Debug)]
pub struct MakeClicksArgs {
    /// File to write; it must not exist
    pub file: PathBuf,
    /// Number of rows
    #[arg(
        long,
        default_value_t = 1_000_000,
        allow_negative_numbers = true,
        value_parser = clap::value_parser!(u64).range(1..=u64::from(u32::MAX))
    )]
    pub rows: u64,
    /// Number of distinct features
    #[arg(long, default_value_t = 33_762_578, value_parser = clap::value_parser!(u32).range(64..))]
    pub features: u32,
    /// Share of the variance of scores that is due to pairs of values, as `data.interactions`
    #[arg(long, default_value_t = 0.0, value_name = "SHARE", value_parser = fraction)]
    pub interactions: f64,
    /// Seed of the rows
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Format of the file
    #[arg(long)]
    pub format: RowFormatArg,
    /// Compress the file with gzip
    #[arg(long)]
    pub gzip: bool,
    /// Generate the rows for tests
    #[arg(long)]
    pub test: bool,
}

/// Parses a number from 0 up to, but not including, 1.
fn fraction(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(share) if (0.0..1.0).contains(&share) => Ok(share),
        _ => Err("not a number from 0 up to, but not including, 1".into()),
    }
}

/// A format of sparse rows.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum RowFormatArg {
    /// LIBSVM text
    Libsvm,
    /// LIBFFM text: LIBSVM text in which each entry has a field
    Libffm,
    /// TFRecords of tf.train.Example
    Tfrecord,
    /// Tab-separated counts and categories, as Criteo's logs
    Criteo,
}

impl From<RowFormatArg> for sparse::SparseFormat {
    fn from(format: RowFormatArg) -> Self {
        match format {
            RowFormatArg::Libsvm => sparse::SparseFormat::Libsvm,
            RowFormatArg::Libffm => sparse::SparseFormat::Libffm,
            RowFormatArg::Tfrecord => sparse::SparseFormat::TfRecord,
            RowFormatArg::Criteo => sparse::SparseFormat::Criteo,
        }
    }
}

/// A data set that can be fetched.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum DatasetName {
    /// Handwritten digits
    Mnist,
    /// Pieces of clothing, in the same form
    FashionMnist,
}

impl From<DatasetName> for KnownDataset {
    fn from(set: DatasetName) -> Self {
        match set {
            DatasetName::Mnist => KnownDataset::Mnist,
            DatasetName::FashionMnist => KnownDataset::FashionMnist,
        }
    }
}
