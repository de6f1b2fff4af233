//! The cache: finding data sets in it and fetching them into it.

mod dataset_dirs;
mod fetch;
mod mirror;
